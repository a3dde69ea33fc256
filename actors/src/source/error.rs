use std::sync::Arc;

use super::ShardError;
use parkhang_core::domain::StageName;
use parkhang_queue::QueueError;
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
    /// A queue does not answer, or refuses.
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("the receive from the queue of stage {0} ended in a panic")]
    ReceiveEnded(StageName),
    #[error("the transaction of a report ended in a panic")]
    ReportEnded,
    /// Failure that several requests met which were carried out together.
    #[error(transparent)]
    Shared(Arc<Self>),
}
