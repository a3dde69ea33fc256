use std::fmt;

use crate::domain::JobKey;
use crate::storage::{ArtifactKey, StorageError};

/// Why a job that lives in the artifact store cannot be worked on, or made.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("{key} cannot be read: {message}")]
    Damaged { key: ArtifactKey, message: String },
    #[error("cannot be written as JSON: {0}")]
    Unwritable(#[source] serde_json::Error),
    #[error("there are no manifests of a job {0}")]
    NoSuchJob(JobKey),
    #[error("job {0} has manifests already")]
    Exists(JobKey),
    #[error("a job with manifests needs a name")]
    Unnamed,
    /// The state store has the volume in a state that its history in the manifests does not lead through.
    #[error("{volume} of job {job} has a history of its own in the state store")]
    Diverged { job: JobKey, volume: String },
}

impl ShardError {
    pub(super) fn damaged(key: &ArtifactKey, message: impl fmt::Display) -> Self {
        Self::Damaged {
            key: key.clone(),
            message: message.to_string(),
        }
    }
}
