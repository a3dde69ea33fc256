use std::fmt;

use super::place::MAX_SHARDS;
use parkhang_core::domain::{ErrorCategory, JobKey};
use parkhang_core::policy::job_action::Forbidden;
use parkhang_store::storage::{ArtifactKey, StorageError};

/// Reason why a job with manifests in the artifact store cannot be worked on, or made.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An object is there, but does not hold what it should.
    #[error("{key} cannot be read: {message}")]
    Damaged { key: ArtifactKey, message: String },
    /// An object has no JSON form.
    #[error("cannot be written as JSON: {0}")]
    Unwritable(#[source] serde_json::Error),
    /// The store has no `job.json` of the job.
    #[error("there are no manifests of a job {0}")]
    NoSuchJob(JobKey),
    /// The job has a `job.json` already.
    #[error("job {0} has manifests already")]
    Exists(JobKey),
    /// The job has no key, which its folder would be named by.
    #[error("a job with manifests needs a name")]
    Unnamed,
    /// The job would have so many shards.
    #[error("a job has at most {MAX_SHARDS} shards, not {0}: make them larger")]
    TooManyShards(usize),
    /// The status of the job does not allow the action.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
}

impl ShardError {
    pub(super) fn damaged(key: &ArtifactKey, message: impl fmt::Display) -> Self {
        Self::Damaged {
            key: key.clone(),
            message: message.to_string(),
        }
    }

    /// The object that cannot be read, where others may be sound; `None` if the store does not answer, or the error does not lie
    /// in an object.
    pub(super) fn unreadable(&self) -> Option<&ArtifactKey> {
        match self {
            Self::Damaged { key, .. } | Self::Storage(StorageError::NotFound { key }) => Some(key),
            Self::Storage(
                error @ StorageError::Remote {
                    action: "read", key, ..
                },
            ) => matches!(error.category(), ErrorCategory::Input | ErrorCategory::Config).then_some(key),
            Self::Storage(_)
            | Self::Unwritable(_)
            | Self::NoSuchJob(_)
            | Self::Exists(_)
            | Self::Unnamed
            | Self::TooManyShards(_)
            | Self::Forbidden(_) => None,
        }
    }
}
