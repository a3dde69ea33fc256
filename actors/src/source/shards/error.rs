use std::fmt;

use super::place::MAX_SHARDS;
use parkhang_core::domain::{ErrorCategory, JobKey};
use parkhang_core::policy::job_action::Forbidden;
use parkhang_store::storage::{ArtifactKey, StorageError};

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
    #[error("a job has at most {MAX_SHARDS} shards, not {0}: make them larger")]
    TooManyShards(usize),
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

    /// The one object that cannot be read, where others may be sound. `None` where the store does not answer, or the trouble is
    /// no object's.
    pub(super) fn unreadable(&self) -> Option<&ArtifactKey> {
        match self {
            Self::Damaged { key, .. } | Self::Storage(StorageError::NotFound { key }) => Some(key),
            Self::Storage(
                error @ (StorageError::Io {
                    action: "read", key, ..
                }
                | StorageError::Remote {
                    action: "read", key, ..
                }),
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
