//! Errors of the state store.

use parkhang_core::domain::{ConfigError, Epoch, JobKey};
use parkhang_core::policy::job_action::Forbidden;

/// Reason for which the store refused a request or could not answer it.
///
/// [`Unavailable`](Self::Unavailable) and [`Corrupt`](Self::Corrupt) may come from every method that asks the database.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("job {0} exists already")]
    JobExists(JobKey),
    #[error("there is no job {0}")]
    NoSuchJob(String),
    #[error("job {0} takes no volumes: it is not a standing job, or was closed")]
    NotStanding(JobKey),
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The database cannot be reached or cannot carry a statement out now; the same request may succeed later.
    #[error("state store: {0}")]
    Unavailable(String),
    /// The database refuses what was to be written, and would each time: it fits no column, or breaks a rule of the schema.
    #[error("the database refuses it: {0}")]
    Refused(String),
    /// A pooler is in front of the database that does not keep sessions.
    #[error("a pooler is in front of the database, and {0}: docs/state.md says what may be pooled")]
    Pooled(&'static str),
    /// Another orchestrator leads. Nothing was written, and nothing of this epoch will be.
    #[error("epoch {0} is over: another orchestrator leads")]
    Deposed(Epoch),
    /// A row does not fit the domain, or the schema is not the one that this build knows.
    #[error("state store holds what this build cannot read: {0}")]
    Corrupt(String),
}
