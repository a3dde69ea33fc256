//! What the history of a job's runs amounts to.

use serde::Serialize;

use crate::domain::{StageName, StageRun, StageRunStatus};
use crate::runner::percentile;

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
            pages: done.map(|run| number(run, "read") + number(run, "failed")).sum(),
        })
    }
}
