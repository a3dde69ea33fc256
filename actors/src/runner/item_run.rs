use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::item_clock::ItemClock;
use super::{ItemWorker, WorkItem};
use parkhang_core::domain::{ErrorCategory, StageError, StageName};
use parkhang_core::policy::retry::RetryPolicy;

/// Source of numbers from -1 to 1.
pub(super) type Jitter = dyn Fn() -> f64 + Send + Sync;

/// Everything that the tries of all items of a run have in common.
pub(super) struct ItemRun<W> {
    pub(super) stage: StageName,
    pub(super) worker: Arc<W>,
    pub(super) timeout: Option<Duration>,
    pub(super) retry: RetryPolicy,
    pub(super) jitter: Arc<Jitter>,
    /// Once cancelled, no item waits for another try.
    pub(super) drain: CancellationToken,
}

/// End of an item.
pub(super) struct Ended<T> {
    /// `None` when the stage was drained while the item waited for another try.
    pub(super) result: Option<Result<T, StageError>>,
    pub(super) attempts: u32,
    pub(super) duration: Duration,
}

impl<W: ItemWorker> ItemRun<W> {
    /// Tries `item` until it succeeds, fails for good, or the stage is drained.
    pub(super) async fn run(&self, item: &WorkItem) -> Ended<W::Output> {
        let started = Instant::now();
        let mut attempts = 1;
        let result = loop {
            let error = match self.attempt(item, attempts).await {
                Ok(output) => break Some(Ok(output)),
                Err(error) => error,
            };
            let Some(delay) = self.retry.delay_after(attempts, &error, (self.jitter)()) else {
                break Some(Err(error));
            };
            tracing::debug!(stage = %self.stage, item = item.item_id, attempt = attempts, %error, "item will be retried");
            tokio::select! {
                biased;
                // The item has no result rather than its last error: it has tries left, and the next run gives it them.
                () = self.drain.cancelled() => break None,
                () = sleep(delay) => attempts += 1,
            }
        };
        Ended {
            result,
            attempts,
            duration: started.elapsed(),
        }
    }

    async fn attempt(&self, item: &WorkItem, attempt: u32) -> Result<W::Output, StageError> {
        let work = self.worker.run(item, attempt);
        let Some(limit) = self.timeout else {
            return work.await.map_err(|error| named(error, item));
        };
        let clock = ItemClock::start();
        tokio::select! {
            // A result that came in the same instant as the timeout is kept.
            biased;
            result = clock.clone().measure(work) => result.map_err(|error| named(error, item)),
            () = clock.has_counted(limit) => {
                let message = format!("no result within {} s of work", limit.as_secs_f64());
                let error = StageError::new(self.stage.as_str(), ErrorCategory::Timeout, message);
                Err(error.at_item(&item.item_id))
            }
        }
    }
}

/// The error, with its item added if the worker named none.
fn named(error: StageError, item: &WorkItem) -> StageError {
    match error.item_id {
        Some(_) => error,
        None => error.at_item(&item.item_id),
    }
}
