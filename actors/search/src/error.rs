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
    #[error("search index: {0}")]
    Engine(#[from] tantivy::TantivyError),
}

impl SearchError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
