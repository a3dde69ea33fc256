use parquet::errors::ParquetError;

use super::ColumnError;
use crate::storage::{ArtifactKey, StorageError};
use parkhang_core::domain::ErrorCategory;

/// Error for a text that cannot name the page of a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a valid image name")]
pub struct InvalidImageName {
    pub name: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("artifact {key} is not a readable Parquet file: {source}")]
    Unreadable { key: ArtifactKey, source: ParquetError },
    #[error("artifact {key} does not say what made it: {reason}")]
    NoProvenance { key: ArtifactKey, reason: String },
    #[error("artifact {key} holds {found}, not {expected}")]
    WrongTable {
        key: ArtifactKey,
        expected: String,
        found: String,
    },
    #[error("artifact {key}: {source}")]
    Column { key: ArtifactKey, source: ColumnError },
    #[error("cannot encode artifact {key}: {source}")]
    Encode { key: ArtifactKey, source: ParquetError },
    #[error("the process is shutting down; artifact {key} was not dealt with")]
    ShuttingDown { key: ArtifactKey },
}

impl ArtifactError {
    /// Category by which a stage decides about another try.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::Storage(error) => error.category(),
            // What is stored is at fault, and another try would read the same.
            Self::Unreadable { .. }
            | Self::NoProvenance { .. }
            | Self::WrongTable { .. }
            | Self::Column { .. } => ErrorCategory::Input,
            Self::Encode { .. } => ErrorCategory::Runtime,
            Self::ShuttingDown { .. } => ErrorCategory::Transient,
        }
    }
}
