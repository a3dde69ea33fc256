use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{ItemOutcome, Redo, WorkItem};
use parkhang_core::domain::StageError;

/// The work of a stage on one item.
#[async_trait]
pub trait ItemWorker: Send + Sync + 'static {
    /// Result of an item.
    type Output: Send + 'static;

    /// Works on `item`; `attempt` is 1 for the first try. The kernel drops the future when the item's time is up, and
    /// calls this again after a retryable error, so a try must not count on an earlier one having finished or not.
    ///
    /// # Errors
    ///
    /// When this try has failed; the category says whether another one may succeed.
    async fn run(&self, item: &WorkItem, attempt: u32) -> Result<Self::Output, StageError>;

    /// The output of an earlier run, if all of it is still there and was made from the same input with the same
    /// configuration. Asked only when the options say resume and not force. Changes nothing.
    ///
    /// # Errors
    ///
    /// When there is no such output, with the reason.
    async fn resume(&self, item: &WorkItem) -> Result<Self::Output, Redo> {
        let _ = item;
        Err(Redo::Absent)
    }

    /// Notice that `item` is queued: unless the stage is drained, it runs once those before it have. A worker may begin here
    /// with what can be done ahead of the item's turn, such as reading its input; no more items are queued than the options
    /// allow to be in memory.
    fn queued(&self, item: &WorkItem) {
        let _ = item;
    }

    /// Fields of the manifest about `output`, on top of the base fields.
    fn manifest(&self, item: &WorkItem, output: &Self::Output) -> Map<String, Value> {
        let _ = (item, output);
        Map::new()
    }
}

/// Receiver of the outcomes of items, in starting order. While it is busy, no more items are started than the options allow to
/// be in memory.
#[async_trait]
pub trait OutputSink<T: Send + 'static>: Send {
    /// Takes the outcome of an item.
    ///
    /// # Errors
    ///
    /// An error ends the run at once, as its results cannot be kept.
    async fn deliver(&mut self, item: &WorkItem, outcome: ItemOutcome<T>) -> Result<(), StageError>;
}
