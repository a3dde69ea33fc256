use parkhang_core::domain::ErrorCategory;

use super::LimitError;

/// Error of a queue. It can be cloned, as one failed request fails every entry of its batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The request would be refused by every server, and was not sent.
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error("queue {queue} does not exist")]
    NotFound { queue: String },
    #[error("queue {queue} exists with other settings: {message}")]
    Exists { queue: String, message: String },
    #[error("queue {queue} has no dead-letter queue")]
    NoDeadLetters { queue: String },
    #[error("queue {queue} was purged less than a minute ago")]
    PurgedLately { queue: String },
    /// Nothing is received until some of those in flight are deleted or come back.
    #[error("queue {queue} has as many messages in flight as the server allows")]
    InFlight { queue: String },
    /// Sending it would have put it before the message that failed.
    #[error("a message of group {group} was not sent to {queue}, since the one before it failed")]
    HeldBack { queue: String, group: String },
    #[error("no account for queues: {message}")]
    Account { message: String },
    /// A server refused, or could not be reached in `attempts` tries.
    #[error("cannot {action} {queue}, tried {attempts} times: {code}: {message}")]
    Remote {
        action: &'static str,
        queue: String,
        attempts: u32,
        category: ErrorCategory,
        code: String,
        message: String,
    },
}

impl QueueError {
    /// Category by which a caller decides about another try.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Limit(_) => ErrorCategory::Input,
            Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::NoDeadLetters { .. }
            | Self::Account { .. } => ErrorCategory::Config,
            Self::InFlight { .. } | Self::HeldBack { .. } | Self::PurgedLately { .. } => {
                ErrorCategory::Transient
            }
            Self::Remote { category, .. } => *category,
        }
    }
}
