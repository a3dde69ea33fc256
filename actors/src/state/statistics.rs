//! What the history of a job's runs amounts to.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::domain::{StageName, StageRun, StageRunStatus};
use crate::policy::forecast::Pace;
use crate::runner::percentile;

/// Where durations are divided to be counted, in seconds: about three steps to a power of ten, at figures that people know.
pub const DURATION_BOUNDS_S: [f64; 11] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0];
/// How long the stages of a job should take.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Paces {
    /// Those that something is known of.
    pub stages: BTreeMap<StageName, Pace>,
    /// Half of the volumes have no more.
    pub pages_of_a_volume: Option<f64>,
}

/// The runs of one stage over all tasks of a job. Durations and pages are those of the runs that are done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageStatistics {
    pub stage: StageName,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub interrupted: u64,
    /// Nearest-rank percentiles of the duration, in seconds; absent while no run is done.
    pub p50_s: Option<f64>,
    pub p95_s: Option<f64>,
    /// Sum of the durations.
    pub seconds: f64,
    /// Runs shorter than the first of [`DURATION_BOUNDS_S`], those from there to the next one, and so on; the last are not
    /// shorter than any.
    pub durations: Vec<u64>,
    /// Pages that were made, failed ones included, those whose result stood aside.
    pub pages: u64,
}

impl StageStatistics {
    /// What one slot of the stage makes in a second.
    pub fn pages_per_slot_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.pages as f64 / self.seconds)
    }

    /// Of the runs of one stage, if there are any.
    pub(super) fn of(runs: &[&StageRun]) -> Option<Self> {
        let stage = &runs.first()?.fence.stage;
        let count = |status| runs.iter().filter(|run| run.status == status).count() as u64;
        let done = runs.iter().filter(|run| run.status == StageRunStatus::Done);
        let seconds: Vec<f64> = done
            .clone()
            .filter_map(|run| run.ended_at.map(|ended| ended - run.started_at))
            .map(|took| took.as_seconds_f64())
            .collect();
        let percentile = |percent| (!seconds.is_empty()).then(|| percentile(&seconds, percent));
        let number = |run: &StageRun, key: &str| run.metrics[key].as_u64().unwrap_or_default();
        Some(Self {
            stage: stage.clone(),
            running: count(StageRunStatus::Running),
            done: count(StageRunStatus::Done),
            failed: count(StageRunStatus::Failed),
            interrupted: count(StageRunStatus::Interrupted),
            p50_s: percentile(50.0),
            p95_s: percentile(95.0),
            seconds: seconds.iter().sum(),
            durations: spread(seconds.iter().map(|duration| (*duration, 1))),
            pages: done.map(|run| number(run, "read") + number(run, "failed")).sum(),
        })
    }
}

/// How many runs lie between the bounds, given durations and how many runs took each of them.
fn spread(durations: impl IntoIterator<Item = (f64, u64)>) -> Vec<u64> {
    let mut counts = vec![0; DURATION_BOUNDS_S.len() + 1];
    for (seconds, runs) in durations {
        counts[DURATION_BOUNDS_S.partition_point(|bound| *bound <= seconds)] += runs;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_above_the_bound_that_it_reaches() {
        let counts = spread([(0.0, 1), (0.1, 2), (0.29, 3), (3599.0, 4), (3600.0, 5), (1e9, 6)]);
        assert_eq!(counts, [1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 4, 11]);
    }
}
