//! Errors of exchanges with a service.

use std::time::Duration;

use parkhang_core::domain::FailureKind;

use crate::category::FailureCategory;

/// Reason why a service did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    #[error("ENOTFOUND: DNS lookup failed for {host}")]
    Dns { host: String },
    #[error("ECONNREFUSED: connection refused by {host}")]
    Refused { host: String },
    #[error("ETIMEDOUT: no answer from {host} within {limit:?}")]
    Timeout { host: String, limit: Duration },
    /// This machine could not look the host up, or make a connection now: nothing was sent.
    #[error("EAGAIN: {host} cannot be asked from here: {reason}")]
    Here { host: String, reason: String },
    /// There was no connection for another reason, such as a failed TLS handshake: nothing was sent.
    #[error("ECONNRESET: no connection to {host}: {reason}")]
    Unconnected { host: String, reason: String },
    /// The connection broke before the answer was there.
    #[error("ECONNRESET: the connection to {host} broke: {reason}")]
    Broken { host: String, reason: String },
    #[error("HTTP {status}{}", said(.message))]
    Status {
        status: u16,
        /// Time after which the service asks to be tried again.
        retry_after: Option<Duration>,
        /// Beginning of the body.
        message: String,
    },
    #[error("no content in the answer")]
    NoContent,
    #[error("the answer is longer than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the answer makes no sense: {0}")]
    Malformed(String),
}

fn said(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message}"),
    }
}

impl ServiceError {
    /// Kind of the failure of whatever was asked for.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Dns { .. } | Self::Refused { .. } | Self::NoContent | Self::TooLarge { .. } => {
                FailureKind::Hard
            }
            Self::Timeout { .. }
            | Self::Here { .. }
            | Self::Unconnected { .. }
            | Self::Broken { .. }
            | Self::Malformed(_) => FailureKind::Retriable,
            Self::Status { status, .. } => match status {
                408 | 425 | 429 | 500.. => FailureKind::Retriable,
                _ => FailureKind::Hard,
            },
        }
    }

    pub const fn category(&self) -> FailureCategory {
        match self {
            Self::Dns { .. } => FailureCategory::Dns,
            Self::Refused { .. } => FailureCategory::Refused,
            Self::Timeout { .. } => FailureCategory::Timeout,
            Self::Here { .. } | Self::Unconnected { .. } | Self::Broken { .. } => FailureCategory::Connection,
            Self::Status { status, .. } => match status {
                401 | 403 => FailureCategory::Access,
                408 | 425 | 429 => FailureCategory::Busy,
                500.. => FailureCategory::Server,
                _ => FailureCategory::Request,
            },
            Self::NoContent | Self::TooLarge { .. } | Self::Malformed(_) => FailureCategory::Answer,
        }
    }

    /// True if the next request will most likely fail too, whatever it asks for: the service is away, overloaded, or shuts us out.
    pub fn is_of_the_service(&self) -> bool {
        match self {
            Self::Dns { .. }
            | Self::Refused { .. }
            | Self::Timeout { .. }
            | Self::Here { .. }
            | Self::Unconnected { .. }
            | Self::Broken { .. } => true,
            Self::Status { status, .. } => matches!(status, 401 | 403 | 408 | 425 | 429 | 500..),
            Self::NoContent | Self::TooLarge { .. } | Self::Malformed(_) => false,
        }
    }

    /// True if it lies in this machine alone, and says nothing of the service.
    pub const fn is_of_this_machine(&self) -> bool {
        matches!(self, Self::Here { .. })
    }

    /// True if the service may have done what it was asked all the same, as only its answer is missing.
    pub fn leaves_open(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Broken { .. } => true,
            // A gateway whose time ran out: the status for which Google says so.
            Self::Status { status, .. } => *status == 504,
            _ => false,
        }
    }

    /// Time after which the service asks to be tried again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> ServiceError {
        ServiceError::Status {
            status,
            retry_after: None,
            message: String::new(),
        }
    }

    /// Rows: 234, 235.
    #[test]
    fn the_kind_of_an_error_is_that_of_its_row() {
        let host = || "db.example".to_owned();
        let hard = [
            ServiceError::Dns { host: host() },
            ServiceError::Refused { host: host() },
            ServiceError::NoContent,
            status(403),
            status(404),
            status(422),
        ];
        let limit = Duration::from_secs(1);
        let retriable = [
            ServiceError::Timeout { host: host(), limit },
            status(429),
            status(500),
            status(503),
        ];
        assert!(hard.iter().all(|error| error.kind() == FailureKind::Hard));
        assert!(
            retriable
                .iter()
                .all(|error| error.kind() == FailureKind::Retriable)
        );
        let here = ServiceError::Here {
            host: host(),
            reason: "Too many open files".to_owned(),
        };
        assert!(here.is_of_this_machine() && here.is_of_the_service() && !here.leaves_open());
        assert_eq!(here.kind(), FailureKind::Retriable);
        let unsent = ServiceError::Unconnected {
            host: host(),
            reason: "bad certificate".to_owned(),
        };
        let open = [&retriable[0], &status(504), &status(503), &unsent, &hard[0]];
        assert_eq!(
            open.map(ServiceError::leaves_open),
            [true, true, false, false, false]
        );
        assert_eq!(hard[0].to_string(), "ENOTFOUND: DNS lookup failed for db.example");
        assert_eq!(status(404).to_string(), "HTTP 404");
        assert_eq!(
            [429, 503, 403, 404].map(|number| status(number).category().as_str()),
            ["busy", "server", "access", "request"]
        );
    }
}
