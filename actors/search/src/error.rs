//! Errors of indexes.

use std::path::{Path, PathBuf};

/// Failure of an index or of a search in it.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("index of {volume}: {reason}")]
    DamagedBundle { volume: String, reason: &'static str },
    #[error("{}: {reason}; delete the folder, and it is made anew", .folder.display())]
    DamagedFolder { folder: PathBuf, reason: String },
    #[error("{}: another process is writing this index", .0.display())]
    Locked(PathBuf),
    #[error("{}", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the thread that was to write the index has ended")]
    Stopped,
    #[error("nobody waits for the answer of this search any more")]
    Cancelled,
    #[error("search index: {0}")]
    Engine(#[from] tantivy::TantivyError),
}

impl SearchError {
    /// True if the same may succeed at another time: the disk, a lock or a thread is at fault, and not what is indexed.
    pub fn may_pass(&self) -> bool {
        use tantivy::TantivyError as Engine;
        match self {
            Self::DamagedBundle { .. } => false,
            Self::DamagedFolder { .. }
            | Self::Locked(_)
            | Self::Io { .. }
            | Self::Stopped
            | Self::Cancelled => true,
            Self::Engine(error) => matches!(
                error,
                Engine::IoError(_)
                    | Engine::OpenDirectoryError(_)
                    | Engine::OpenReadError(_)
                    | Engine::OpenWriteError(_)
                    | Engine::LockFailure(..)
                    | Engine::Poisoned
                    | Engine::ErrorInThread(_)
                    | Engine::SystemError(_)
            ),
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
