use std::time::Duration;

use super::{Progress, StageOutcome};
use crate::domain::StageError;
use crate::policy::percentile::percentile;

/// The counts of a run so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) total: usize,
    pub(super) scheduled: usize,
    pub(super) skipped: usize,
    pub(super) succeeded: usize,
    pub(super) failed: usize,
    /// The run was asked to stop.
    pub(super) drained: bool,
    pub(super) over_budget: bool,
    pub(super) errors: Vec<StageError>,
    queue_ms: Vec<f64>,
    exec_ms: Vec<f64>,
}

impl Tally {
    pub(super) fn new(total: usize) -> Self {
        Self {
            total,
            ..Self::default()
        }
    }

    pub(super) fn started(&mut self, queued: Duration) {
        self.scheduled += 1;
        self.queue_ms.push(milliseconds(queued));
    }

    pub(super) fn settled<T>(&mut self, result: &Result<T, StageError>, duration: Duration) {
        match result {
            Ok(_) => self.succeeded += 1,
            Err(_) => self.failed += 1,
        }
        self.exec_ms.push(milliseconds(duration));
    }

    /// Whether no further item is to be started.
    pub(super) const fn is_stopping(&self) -> bool {
        self.drained || self.over_budget
    }

    const fn unfinished(&self) -> usize {
        self.total - self.skipped - self.succeeded - self.failed
    }

    pub(super) fn progress(&self, in_flight: usize, elapsed: Duration) -> Progress {
        let settled = self.succeeded + self.failed;
        let items_per_s = settled as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let left = self.unfinished();
        let remaining = Duration::try_from_secs_f64(left as f64 / items_per_s);
        Progress {
            total: self.total,
            skipped: self.skipped,
            succeeded: self.succeeded,
            failed: self.failed,
            in_flight,
            items_per_s,
            remaining: remaining.ok().filter(|_| settled > 0),
            exec_p50_ms: percentile(&self.exec_ms, 50.0),
            exec_p95_ms: percentile(&self.exec_ms, 95.0),
        }
    }

    pub(super) fn into_outcome(self, wall: Duration) -> StageOutcome {
        StageOutcome {
            total: self.total,
            scheduled: self.scheduled,
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
