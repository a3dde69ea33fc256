use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use parkhang_core::domain::StageError;

/// End of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemStatus {
    /// Done in this run.
    Success,
    /// Done by an earlier run.
    Skip,
    /// Failed for good.
    Failure,
}

/// Result of an item without its output.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemReport {
    pub status: ItemStatus,
    /// Tries that the item had in this run; 0 for a skipped one.
    pub attempts: u32,
    /// Time from the first try to the end of the last one, delays included.
    pub duration: Duration,
    /// The last error; present only for a failure.
    pub error: Option<StageError>,
    /// Fields that the worker adds to the manifest.
    pub manifest: Map<String, Value>,
}

/// Result of an item: its output, made now or by an earlier run, or its last error.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemOutcome<T> {
    pub report: ItemReport,
    pub result: Result<T, StageError>,
}

impl<T> ItemOutcome<T> {
    /// An item whose result stands.
    pub(super) fn skipped(output: T, manifest: Map<String, Value>) -> Self {
        Self {
            report: ItemReport {
                status: ItemStatus::Skip,
                attempts: 0,
                duration: Duration::ZERO,
                error: None,
                manifest,
            },
            result: Ok(output),
        }
    }

    /// An item that was worked on in this run.
    pub(super) fn finished(
        result: Result<T, StageError>,
        attempts: u32,
        duration: Duration,
        manifest: Map<String, Value>,
    ) -> Self {
        let status = if result.is_ok() {
            ItemStatus::Success
        } else {
            ItemStatus::Failure
        };
        Self {
            report: ItemReport {
                status,
                attempts,
                duration,
                error: result.as_ref().err().cloned(),
                manifest,
            },
            result,
        }
    }
}

/// Result of a stage run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StageOutcome {
    /// Items of the plan.
    pub total: usize,
    /// Items given to the worker.
    pub scheduled: usize,
    /// Items that an earlier run had done.
    pub skipped: usize,
    pub succeeded: usize,
    /// Items that failed for good.
    pub failed: usize,
    /// The run was drained before all items were dealt with, or went over its error budget.
    pub cancelled: bool,
    /// Milliseconds that the run took.
    pub wall_ms: f64,
    /// Median of the milliseconds that items waited for a free worker.
    pub queue_p50_ms: f64,
    /// Median of the milliseconds from an item's first try to the end of its last.
    pub exec_p50_ms: f64,
    /// 95th percentile of the same.
    pub exec_p95_ms: f64,
    /// The last error of every failed item, in order of delivery.
    pub errors: Vec<StageError>,
}

impl StageOutcome {
    /// Items that were neither skipped nor settled: what another run has left to do.
    pub const fn unfinished(&self) -> usize {
        self.total - self.skipped - self.succeeded - self.failed
    }
}

/// State of a stage run that is under way.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    pub total: usize,
    pub skipped: usize,
    pub succeeded: usize,
    pub failed: usize,
    /// Items in work.
    pub in_flight: usize,
    /// Time to the end at the rate so far, not counting skipped items; `None` before the first item has ended.
    pub remaining: Option<Duration>,
    /// Median of the milliseconds from an item's first try to the end of its last.
    pub exec_p50_ms: f64,
    /// 95th percentile of the same.
    pub exec_p95_ms: f64,
}
