use std::time::Duration;

use parkhang_core::domain::{JobConfig, SchedulingOrder};
use parkhang_core::policy::retry::RetryPolicy;

/// Settings of a stage run.
#[derive(Debug, Clone, PartialEq)]
pub struct StageOptions {
    /// Items in work at once; 0 counts as one.
    pub workers: usize,
    /// Seconds that the work of one try of an item may take, without what it [waits for](super::off_the_clock); 0 is for ever.
    pub per_item_timeout_s: f64,
    /// Tries after the first one, on retryable errors only.
    pub retries: u32,
    /// Seconds before the first retry.
    pub retry_backoff_s: f64,
    /// Failed items that do not stop the stage; 0 means any number.
    pub error_budget: usize,
    /// Items submitted beside those in work: with the workers, the bound on items whose output is in memory. 0 is none.
    pub max_queue: usize,
    /// Permission to skip the items that the worker recognises as done.
    pub resume: bool,
    /// Demand to do every item again, whatever `resume` says.
    pub force: bool,
    /// Seconds between progress reports; 0 means never.
    pub diagnostics_interval_s: f64,
    pub order: SchedulingOrder,
    /// Cost that a place in the plan outweighs; see [`starting_order`](parkhang_core::policy::order::starting_order).
    pub ageing: f64,
}

impl Default for StageOptions {
    fn default() -> Self {
        Self {
            workers: 4,
            per_item_timeout_s: 0.0,
            retries: 0,
            retry_backoff_s: 1.0,
            error_budget: 0,
            max_queue: 0,
            resume: false,
            force: false,
            diagnostics_interval_s: 30.0,
            order: SchedulingOrder::Fifo,
            ageing: 0.0,
        }
    }
}

impl StageOptions {
    /// The options that a job asks for, with resuming on; `offered_workers` is the node's own number, which applies where the
    /// job names none.
    pub fn of_job(config: &JobConfig, offered_workers: usize) -> Self {
        let workers = if config.workers == 0 {
            offered_workers
        } else {
            config.workers
        };
        Self {
            workers,
            per_item_timeout_s: config.timeout_s,
            retries: config.retries,
            retry_backoff_s: config.retry_backoff_s,
            error_budget: config.error_budget,
            max_queue: config.max_queue,
            resume: true,
            force: config.force,
            diagnostics_interval_s: config.diagnostics_interval_s,
            order: config.order,
            ageing: config.ageing,
        }
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        positive_seconds(self.per_item_timeout_s)
    }

    pub(super) fn diagnostics_interval(&self) -> Option<Duration> {
        positive_seconds(self.diagnostics_interval_s)
    }

    pub(super) fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            retries: self.retries,
            backoff_s: self.retry_backoff_s,
        }
    }

    /// Items that may be submitted and not yet delivered.
    pub(super) fn window(&self) -> usize {
        match self.max_queue {
            0 => usize::MAX,
            queue => queue.saturating_add(self.workers.max(1)),
        }
    }
}

/// The duration; `None` for 0, and for numbers that are no duration, such as negative ones.
fn positive_seconds(seconds: f64) -> Option<Duration> {
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (!duration.is_zero()).then_some(duration)
}
