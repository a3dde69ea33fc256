use std::io;
use std::path::PathBuf;

use super::ArtifactKey;
use parkhang_core::domain::ErrorCategory;

/// Error for a text that cannot name an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key:?} is not a valid artifact key: {reason}")]
pub struct InvalidKey {
    pub key: String,
    pub reason: &'static str,
}

/// Error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("artifact {key} does not exist")]
    NotFound { key: ArtifactKey },
    #[error("artifact {key} cannot be written: it is a folder of other artifacts, or lies below an artifact")]
    PrefixConflict { key: ArtifactKey },
    #[error("bytes {start}..{end} were asked of artifact {key}, which has {size}")]
    InvalidRange {
        key: ArtifactKey,
        start: u64,
        end: u64,
        size: u64,
    },
    #[error("artifact {key} has {size} bytes, and the limit is {limit}")]
    TooLarge {
        key: ArtifactKey,
        /// Length in bytes, or as much of it as was seen.
        size: u64,
        limit: u64,
    },
    #[error("cannot open the artifact folder {}: {source}", root.display())]
    Open { root: PathBuf, source: io::Error },
    #[error("cannot {action} artifact {key}: {source}")]
    Io {
        action: &'static str,
        key: ArtifactKey,
        source: io::Error,
    },
    #[error("cannot open the bucket {bucket}: {message}")]
    OpenBucket { bucket: String, message: String },
    /// A remote store refused, or could not be reached in `attempts` tries.
    #[error("cannot {action} artifact {key}, tried {attempts} times: {code}: {message}")]
    Remote {
        action: &'static str,
        key: ArtifactKey,
        attempts: u32,
        category: ErrorCategory,
        code: String,
        message: String,
    },
    #[error("the process is shutting down; artifact {key} was not dealt with")]
    ShuttingDown { key: ArtifactKey },
}

impl StorageError {
    /// Category by which a stage decides about another try.
    pub fn category(&self) -> ErrorCategory {
        match self {
            Self::NotFound { .. } | Self::InvalidRange { .. } | Self::TooLarge { .. } => ErrorCategory::Input,
            Self::PrefixConflict { .. } | Self::Open { .. } | Self::OpenBucket { .. } => {
                ErrorCategory::Config
            }
            Self::Remote { category, .. } => *category,
            Self::ShuttingDown { .. } => ErrorCategory::Transient,
            // A full disk, a file system that went away or takes no writes, too many open files: whichever object is asked for, it is
            // the same, and it may pass.
            Self::Io { .. } => ErrorCategory::Network,
        }
    }
}
