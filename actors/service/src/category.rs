//! Categories of what goes wrong between a stage and its service.

use serde::{Deserialize, Serialize};

/// Category of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCategory {
    /// The host has no address.
    Dns,
    /// The host refuses connections.
    Refused,
    /// No answer came in time.
    Timeout,
    /// The connection failed in another way.
    Connection,
    /// 401 and 403.
    Access,
    /// 408, 425 and 429.
    Busy,
    /// 5xx.
    Server,
    /// Other 4xx.
    Request,
    /// An answer without content, or one that makes no sense or is too long.
    Answer,
}

impl FailureCategory {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Access => "access",
            Self::Busy => "busy",
            Self::Server => "server",
            Self::Request => "request",
            Self::Answer => "answer",
        }
    }
}
