//! Errors of stages, by category.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of an error, by which policies decide about another try. A crash is not a category: it is a lost lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorCategory {
    /// The input is broken and will stay broken.
    Input,
    /// The job or the node is configured wrongly.
    Config,
    /// The code failed on this input, or a device did that works on others, such as for an input that needs more memory than it
    /// has.
    Runtime,
    /// The item took longer than it may.
    Timeout,
    /// The store failed, throttled, or has no room.
    Network,
    /// A service of others that reads pages is away, overloaded, or asks to be left alone.
    Service,
    /// The input of the stage is not made yet.
    Pending,
    /// A passing condition such as a lock held by a neighbour.
    Transient,
    /// The node is out of order: its device, its threads or its own disk. Whatever it is given fails there.
    Node,
    /// No page was finished for too long, on a node that has shown to be in order.
    Stalled,
    /// The task kept killing its workers.
    Poison,
    /// An error that none of the others describes.
    Unknown,
}

impl ErrorCategory {
    pub const ALL: [Self; 12] = [
        Self::Input,
        Self::Config,
        Self::Runtime,
        Self::Timeout,
        Self::Network,
        Self::Service,
        Self::Pending,
        Self::Transient,
        Self::Node,
        Self::Stalled,
        Self::Poison,
        Self::Unknown,
    ];

    /// True if an error of this kind is worth another try unless the job says otherwise.
    pub const fn retryable_by_default(self) -> bool {
        matches!(self, Self::Network | Self::Transient)
    }

    /// Name in the database and in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Config => "config",
            Self::Runtime => "runtime",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::Service => "service",
            Self::Pending => "pending",
            Self::Transient => "transient",
            Self::Node => "node",
            Self::Stalled => "stalled",
            Self::Poison => "poison",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ErrorCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Failure of a stage or of one item in it: plain data that survives a crash and a trip over the wire. The content of
/// `tasks.last_error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{category} error in {stage}{}: {message}", self.item_suffix())]
pub struct StageError {
    pub stage: String,
    /// Item that failed (a page, usually); absent if the stage itself did.
    pub item_id: Option<String>,
    pub category: ErrorCategory,
    pub message: String,
    pub retryable: bool,
}

impl StageError {
    /// Error of a whole stage, retryable as its category says.
    pub fn new(stage: impl Into<String>, category: ErrorCategory, message: impl fmt::Display) -> Self {
        Self {
            stage: stage.into(),
            item_id: None,
            category,
            message: message.to_string(),
            retryable: category.retryable_by_default(),
        }
    }

    /// The same error, of one item.
    pub fn at_item(mut self, item_id: impl Into<String>) -> Self {
        self.item_id = Some(item_id.into());
        self
    }

    /// True if the storage, a service, the node or a stage of another job kept the stage from going on, and not an item of it.
    pub fn is_outage(&self) -> bool {
        self.item_id.is_none()
            && matches!(
                self.category,
                ErrorCategory::Network
                    | ErrorCategory::Service
                    | ErrorCategory::Pending
                    | ErrorCategory::Node
            )
    }

    fn item_suffix(&self) -> String {
        self.item_id
            .as_ref()
            .map(|item| format!(" at {item}"))
            .unwrap_or_default()
    }
}
