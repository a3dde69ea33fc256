use std::time::Duration;

use super::{Progress, StageOutcome};
use parkhang_core::domain::StageError;
use parkhang_core::policy::percentile::percentile;

/// Counts of a run so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    total: usize,
    skipped: usize,
    succeeded: usize,
    failed: usize,
    /// The run was asked to stop.
    pub(super) drained: bool,
    pub(super) over_budget: bool,
    errors: Vec<StageError>,
    /// Milliseconds from submission to the first try, of each item that was given to the worker.
    queue_ms: Vec<f64>,
    /// Milliseconds from the first try to the end of the last one, of each item that succeeded or failed.
    exec_ms: Vec<f64>,
}

impl Counters {
    pub(super) fn new(total: usize) -> Self {
        Self {
            total,
            ..Self::default()
        }
    }

    pub(super) fn skipped(&mut self) {
        self.skipped += 1;
    }

    pub(super) fn started(&mut self, queued: Duration) {
        self.queue_ms.push(milliseconds(queued));
    }

    pub(super) fn finished<T>(&mut self, result: &Result<T, StageError>, duration: Duration) {
        match result {
            Ok(_) => self.succeeded += 1,
            Err(_) => self.failed += 1,
        }
        self.exec_ms.push(milliseconds(duration));
    }

    /// Notes the error of a failed item, in the order of delivery.
    pub(super) fn delivered(&mut self, error: Option<&StageError>) {
        self.errors.extend(error.cloned());
    }

    pub(super) const fn failed(&self) -> usize {
        self.failed
    }

    /// True once no further item is to be started.
    pub(super) const fn is_stopping(&self) -> bool {
        self.drained || self.over_budget
    }

    const fn unfinished(&self) -> usize {
        self.total - self.skipped - self.succeeded - self.failed
    }

    pub(super) fn progress(&self, in_flight: usize, elapsed: Duration) -> Progress {
        let finished = self.succeeded + self.failed;
        let remaining = elapsed.as_secs_f64() * self.unfinished() as f64 / finished as f64;
        Progress {
            total: self.total,
            skipped: self.skipped,
            succeeded: self.succeeded,
            failed: self.failed,
            in_flight,
            // Before the first item has ended this is a division by zero, which gives no duration.
            remaining: Duration::try_from_secs_f64(remaining).ok(),
            exec_p50_ms: percentile(&self.exec_ms, 50.0),
            exec_p95_ms: percentile(&self.exec_ms, 95.0),
        }
    }

    pub(super) fn into_outcome(self, wall: Duration) -> StageOutcome {
        StageOutcome {
            total: self.total,
            scheduled: self.queue_ms.len(),
            skipped: self.skipped,
            succeeded: self.succeeded,
            failed: self.failed,
            cancelled: self.over_budget || (self.drained && self.unfinished() > 0),
            wall_ms: milliseconds(wall),
            queue_p50_ms: percentile(&self.queue_ms, 50.0),
            exec_p50_ms: percentile(&self.exec_ms, 50.0),
            exec_p95_ms: percentile(&self.exec_ms, 95.0),
            errors: self.errors,
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
