use super::ShardError;
use parkhang_state::StateError;

/// Why a source of work could not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Shards(#[from] ShardError),
}
