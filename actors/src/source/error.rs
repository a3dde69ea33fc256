use super::ShardError;
use parkhang_state::StateError;

/// Failure of a source of work.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The state store failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// Objects of a job with manifests cannot be read or written.
    #[error(transparent)]
    Shards(#[from] ShardError),
}
