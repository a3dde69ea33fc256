use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::{ErrorCategory, ItemOrder, JobConfig};
use crate::policy::retry::RetryPolicy;

/// What the items of a stage spend their time on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StagePolicy {
    #[default]
    Io,
    Cpu,
    Gpu,
}

impl StagePolicy {
    /// A queue that keeps `workers` fed: a GPU empties it in batches.
    pub const fn auto_queue(self, workers: usize) -> usize {
        match self {
            Self::Io | Self::Cpu => 2 * workers,
            Self::Gpu => 4 * workers,
        }
    }
}

/// How a stage is run.
#[derive(Debug, Clone, PartialEq)]
pub struct StageOptions {
    pub policy: StagePolicy,
    /// Items in work at once; at least one.
    pub workers: usize,
    /// Seconds that the work of one try of an item may take, without what it [waits for](super::off_the_clock); 0 is for ever.
    pub per_item_timeout_s: f64,
    /// Tries after the first one, on retryable errors only.
    pub retries: u32,
    /// Seconds before the first retry.
    pub retry_backoff_s: f64,
    /// What the stage knows better than the default about which errors are worth another try.
    pub retry_overrides: BTreeMap<ErrorCategory, bool>,
    /// Failed items that do not stop the stage; 0 is any number.
    pub error_budget: usize,
    /// Items submitted beside those in work: with the workers, the bound on items whose output is in memory. 0 is none.
    pub max_queue: usize,
    /// Skip the items that the worker recognises as done.
    pub resume: bool,
    /// Do every item again, whatever `resume` says.
    pub force: bool,
    /// Seconds between progress reports; 0 is never.
    pub diagnostics_interval_s: f64,
    /// Plan only: look which items are done, and run none.
    pub dry_run: bool,
    pub order: ItemOrder,
}

impl Default for StageOptions {
    fn default() -> Self {
        Self {
            policy: StagePolicy::Io,
            workers: 4,
            per_item_timeout_s: 0.0,
            retries: 0,
            retry_backoff_s: 1.0,
            retry_overrides: BTreeMap::new(),
            error_budget: 0,
            max_queue: 0,
            resume: false,
            force: false,
            diagnostics_interval_s: 30.0,
            dry_run: false,
            order: ItemOrder::Fifo,
        }
    }
}

impl StageOptions {
    /// The options that a job asks for, resuming what an earlier attempt has done; `offered_workers` is what the node has
    /// where the job does not say.
    pub fn of_job(config: &JobConfig, policy: StagePolicy, offered_workers: usize) -> Self {
        let workers = if config.workers == 0 {
            offered_workers
        } else {
            config.workers
        };
        Self {
            policy,
            workers,
            per_item_timeout_s: config.timeout_s,
            retries: config.retries,
            retry_backoff_s: config.retry_backoff_s,
            error_budget: config.error_budget,
            max_queue: config.max_queue,
            diagnostics_interval_s: config.diagnostics_interval_s,
            resume: true,
            force: config.force,
            order: config.order,
            ..Self::default()
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
            overrides: self.retry_overrides.clone(),
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

/// `None` for 0, and for what is no duration.
fn positive_seconds(seconds: f64) -> Option<Duration> {
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (!duration.is_zero()).then_some(duration)
}
