//! Errors of commands, and their conversion from those of the layers below.

use std::cmp::Reverse;

use parkhang_actors::stage::PipelineError;
use parkhang_core::domain::{ConfigError, ErrorCategory};
use parkhang_queue::QueueError;
use parkhang_state::StateError;

/// Reason for which a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// An argument is not valid.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    NotFound(String),
    /// The state of its subject does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// A dependency is not available; the command may work later.
    #[error("{0}")]
    Unavailable(String),
    #[error("the command took too long; whether it was carried out is not known")]
    TooSlow,
    #[error("{0:#}")]
    Internal(anyhow::Error),
}

impl Refusal {
    /// Name of the reason, for programs.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::NotFound(_) => "not_found",
            Self::Conflict(_) => "conflict",
            Self::Unavailable(_) => "unavailable",
            Self::TooSlow => "timeout",
            Self::Internal(_) => "internal",
        }
    }

    /// Does as [`Self::invalid`] for arguments of `command` that were given by name: the message uses these names.
    pub fn invalid_by_name(mut command: clap::Command, error: &clap::Error) -> Self {
        // An argument knows its spelling only after its command was built.
        command.build();
        let mut arguments: Vec<_> = command.get_arguments().collect();
        // The longest first, as one spelling may be a prefix of another.
        arguments.sort_by_key(|argument| Reverse(argument.to_string().len()));
        let text = arguments.into_iter().fold(in_words(error), |text, argument| {
            text.replace(&argument.to_string(), argument.get_id().as_str())
        });
        Self::Invalid(text)
    }

    /// Returns the refusal of a command line that clap could not parse.
    pub fn invalid(error: &clap::Error) -> Self {
        Self::Invalid(in_words(error))
    }
}

/// Message of clap, without the usage that it adds.
fn in_words(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = text
        .find("\n\nUsage:")
        .or_else(|| text.find("\n\nFor more"))
        .unwrap_or(text.len());
    text[..end].trim_end().to_owned()
}

impl Refusal {
    /// Returns the refusal for an error of the state store about `what`.
    pub fn about(what: &str, error: StateError) -> Self {
        match Self::from(error) {
            Self::Conflict(message) => Self::Conflict(format!("{what}: {message}")),
            refusal => refusal,
        }
    }
}

impl From<PipelineError> for Refusal {
    fn from(error: PipelineError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<StateError> for Refusal {
    fn from(error: StateError) -> Self {
        match error {
            StateError::JobExists(_) | StateError::NotStanding(_) | StateError::Forbidden(_) => {
                Self::Conflict(error.to_string())
            }
            StateError::NoSuchJob(_) => Self::NotFound(error.to_string()),
            StateError::Config(error) => Self::Invalid(error.to_string()),
            // A leader that was replaced may be asked again, and the next leader answers.
            StateError::Unavailable(_) | StateError::Pooled(_) | StateError::Deposed(_) => {
                Self::Unavailable(error.to_string())
            }
            StateError::Corrupt(_) | StateError::Refused(_) => Self::Internal(error.into()),
        }
    }
}

impl From<QueueError> for Refusal {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::NotFound { .. } => Self::NotFound(format!(
                "{error}; `node queue create` makes those that are missing"
            )),
            QueueError::Exists { .. } | QueueError::NoDeadLetters { .. } => Self::Conflict(error.to_string()),
            _ if error.category() == ErrorCategory::Config => Self::Invalid(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self::Internal(error)
    }
}
