use std::cmp::Reverse;

use parkhang_actors::stage::PipelineError;
use parkhang_core::domain::ConfigError;
use parkhang_state::StateError;

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// An argument cannot be what was given.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    NotFound(String),
    /// What it is about stands in its way.
    #[error("{0}")]
    Conflict(String),
    /// Asking again later may work.
    #[error("{0}")]
    Unavailable(String),
    #[error("the command took too long; whether it was carried out is not known")]
    TooSlow,
    #[error("{0:#}")]
    Internal(anyhow::Error),
}

impl Refusal {
    /// For programs.
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

    /// As [`Self::invalid`], for whoever gave the arguments of `command` by name.
    pub fn invalid_by_name(mut command: clap::Command, error: &clap::Error) -> Self {
        // An argument says how it is written once its command is built.
        command.build();
        let mut arguments: Vec<_> = command.get_arguments().collect();
        // One may be the beginning of another.
        arguments.sort_by_key(|argument| Reverse(argument.to_string().len()));
        let text = arguments.into_iter().fold(in_words(error), |text, argument| {
            text.replace(&argument.to_string(), argument.get_id().as_str())
        });
        Self::Invalid(text)
    }

    /// From a mistake in the arguments of a command line.
    pub fn invalid(error: &clap::Error) -> Self {
        Self::Invalid(in_words(error))
    }
}

/// What clap says, without the usage that it adds.
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
    /// From what the state store said of something.
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
            StateError::JobExists(_) | StateError::Forbidden(_) => Self::Conflict(error.to_string()),
            StateError::NoSuchJob(_) => Self::NotFound(error.to_string()),
            StateError::Config(error) => Self::Invalid(error.to_string()),
            StateError::Unavailable(_) | StateError::Deposed(_) => Self::Unavailable(error.to_string()),
            StateError::Corrupt(_) => Self::Internal(error.into()),
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
