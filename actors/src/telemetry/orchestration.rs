//! Events of the leading orchestrator.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::catalogue::{
    ADVANCE_SECONDS, ASSIGN_SECONDS, ASSIGNMENTS, JOBS_SETTLED, JOBS_WITHOUT_MODEL, LEASES, LEASES_LOST,
    MIRROR_BATCH, MIRROR_REFUSED, MIRROR_SECONDS, NODE_OUTAGES, PASS_SECONDS, POOL_SLOTS, POOLS, REPORTS,
    SERVICE_OUTAGES, STAGES_DESERTED, STORAGE_OUTAGES, TASKS,
};
use parkhang_core::domain::{ErrorCategory, Job, StageName, Task, TaskCount, TaskId, TaskStatus, WorkerId};

/// Clock of the time from the report of a stage to the start of the next one. Holds as many tasks as wait for a next stage.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdvanceClock(Arc<Mutex<HashMap<TaskId, Instant>>>);

impl AdvanceClock {
    /// Starts the time of a task, whose stage has been reported a success.
    pub(crate) fn reported(&self, task: TaskId) {
        self.with(|reports| reports.insert(task, Instant::now()));
    }

    /// Drops the time of a task that has no next stage, or whose report changed nothing.
    pub(crate) fn forget(&self, task: TaskId) {
        self.with(|reports| reports.remove(&task));
    }

    /// Records the time of a task, whose next stage a pool has accepted.
    pub(crate) fn advanced(&self, task: TaskId, stage: &StageName) {
        if let Some(reported) = self.with(|reports| reports.remove(&task)) {
            ADVANCE_SECONDS.record(reported.elapsed().as_secs_f64(), [stage.as_str()]);
        }
    }

    /// Works on the map. Every change of it is a single step, so a panic of another thread leaves it whole.
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<TaskId, Instant>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A reconciler pass is over.
pub(crate) struct PassEnded<'a> {
    pub took: Duration,
    pub error: Option<&'a dyn std::fmt::Display>,
}

impl PassEnded<'_> {
    pub(crate) fn emit(self) {
        let result = if self.error.is_none() { "done" } else { "cut short" };
        PASS_SECONDS.record(self.took.as_secs_f64(), [result]);
        match self.error {
            None => debug!(took = ?self.took, "pass ended"),
            Some(error) => warn!(took = ?self.took, %error, "pass cut short"),
        }
    }
}

/// A pool has answered an assignment, or not in time. To be emitted inside the span of the assignment.
pub(crate) struct AssignmentAnswered<'a> {
    pub stage: &'a StageName,
    pub answer: &'static str,
    pub accepted: bool,
    /// Time since the decision.
    pub took: Duration,
}

impl AssignmentAnswered<'_> {
    pub(crate) fn emit(self) {
        ASSIGNMENTS.add(1, [self.stage.as_str(), self.answer]);
        if self.accepted {
            ASSIGN_SECONDS.record(self.took.as_secs_f64(), [self.stage.as_str()]);
        }
        debug!(answer = self.answer, took = ?self.took, "assignment answered");
    }
}

/// A report has been answered. To be emitted inside the span of its lease.
pub(crate) struct ReportAnswered<'a> {
    pub stage: &'a StageName,
    pub verdict: &'static str,
    /// `recorded`, `fenced`, `illegal` or `unrecorded`.
    pub recording: &'static str,
}

impl ReportAnswered<'_> {
    pub(crate) fn emit(self) {
        REPORTS.add(1, [self.stage.as_str(), self.verdict, self.recording]);
        match self.recording {
            "recorded" => info!(verdict = self.verdict, "report recorded"),
            "fenced" => info!(verdict = self.verdict, "a stale report changed nothing"),
            recording => warn!(verdict = self.verdict, recording, "report not recorded"),
        }
    }
}

/// A lease ended without a report.
pub(crate) struct LeaseLost<'a>(
    /// The task after that, still at the stage that it was at.
    pub &'a Task,
);

impl LeaseLost<'_> {
    pub(crate) fn emit(self) {
        let task = self.0;
        LEASES_LOST.add(1, [task.position.as_str()]);
        warn!(task = %task.id, volume = %task.volume, stage = %task.position, status = task.status.as_str(), "lease lost");
    }
}

/// A report has been recorded. Only a stage that ended because of the storage or its node is worth a line here.
pub(crate) struct TaskReported<'a>(
    /// The task after that.
    pub &'a Task,
);

impl TaskReported<'_> {
    pub(crate) fn emit(self) {
        let task = self.0;
        if let Some(error) = task.last_error.as_ref().filter(|_| task.outages > 0) {
            if error.category == ErrorCategory::Pending {
                // Nothing is wrong.
                debug!(task = %task.id, volume = %task.volume, stage = %task.position, %error, "the volume waits for another job");
                return;
            }
            let (counter, what) = match error.category {
                ErrorCategory::Node => (
                    NODE_OUTAGES,
                    "a node is out of order; the volume waits for another",
                ),
                ErrorCategory::Service => (SERVICE_OUTAGES, "a service is away; the volume waits for it"),
                _ => (STORAGE_OUTAGES, "the storage is unavailable; the volume waits"),
            };
            counter.add(1, [task.position.as_str()]);
            error!(task = %task.id, volume = %task.volume, stage = %task.position, not_before = ?task.not_before, %error, "{what}");
        }
    }
}

/// A job came to its end.
pub(crate) struct JobFinished<'a>(pub &'a Job);

impl JobFinished<'_> {
    pub(crate) fn emit(self) {
        let Job { key, status, .. } = self.0;
        JOBS_SETTLED.add(1, [status.as_str()]);
        info!(job = %key, status = status.as_str(), "job finished");
    }
}

/// A transaction of state changes is in the database.
pub(crate) struct BatchCommitted {
    pub changes: usize,
    pub took: Duration,
}

impl BatchCommitted {
    pub(crate) fn emit(self) {
        MIRROR_BATCH.record(self.changes as f64, []);
        MIRROR_SECONDS.record(self.took.as_secs_f64(), []);
        debug!(changes = self.changes, took = ?self.took, "batch committed");
    }
}

/// A transaction of state changes is not in the database.
pub(crate) struct BatchRefused<'a> {
    pub changes: usize,
    pub error: &'a dyn std::fmt::Display,
    pub retry_in: Duration,
}

impl BatchRefused<'_> {
    pub(crate) fn emit(self) {
        MIRROR_REFUSED.add(1, []);
        warn!(changes = self.changes, error = %self.error, retry_in = ?self.retry_in, "state store refused a batch");
    }
}

/// A pool offers its slots.
pub(crate) struct PoolJoined<'a> {
    pub worker: &'a WorkerId,
    pub stage: &'a StageName,
    pub slots: usize,
}

impl PoolJoined<'_> {
    pub(crate) fn emit(self) {
        info!(worker = %self.worker, stage = %self.stage, slots = self.slots, "pool joined");
    }
}

/// A pool is gone for good.
pub(crate) struct PoolLeft<'a> {
    pub worker: &'a WorkerId,
}

impl PoolLeft<'_> {
    pub(crate) fn emit(self) {
        warn!(worker = %self.worker, "pool left; ending its leases");
    }
}

/// Tasks wait for a stage, and no pool is there to run it.
pub(crate) struct StageDeserted<'a> {
    pub stage: &'a StageName,
}

impl StageDeserted<'_> {
    pub(crate) fn emit(self) {
        STAGES_DESERTED.set(1, [self.stage.as_str()]);
        error!(stage = %self.stage, "work waits for a stage that no node runs");
    }
}

/// A stage is served again, or nothing waits for it.
pub(crate) struct StageServed<'a> {
    pub stage: &'a StageName,
}

impl StageServed<'_> {
    pub(crate) fn emit(self) {
        STAGES_DESERTED.set(0, [self.stage.as_str()]);
        info!(stage = %self.stage, "a node runs the stage again, or no work waits for it any more");
    }
}

/// Sets the levels of pools and slots. A stage that has lost its last pool is set to zero.
pub(crate) fn pools_registered<'a>(
    pools: impl Iterator<Item = (&'a StageName, usize)>,
    gone: Option<&StageName>,
) {
    let mut by_stage: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    // A gauge keeps its last value, so the stage of a pool that is gone is set even where it was the last one.
    if let Some(gone) = gone {
        by_stage.insert(gone.as_str(), (0, 0));
    }
    for (stage, slots) in pools {
        let (count, sum) = by_stage.entry(stage.as_str()).or_default();
        *count += 1;
        *sum += slots;
    }
    for (stage, (count, slots)) in by_stage {
        POOLS.set(count, [stage]);
        POOL_SLOTS.set(slots, [stage]);
    }
}

/// Jobs that wait for a model that no node has loaded, by the stage of the model. Remembers the stages, so that one with no such
/// job any more is set to zero.
#[derive(Debug, Default)]
pub struct ModelsMissed {
    published: BTreeMap<StageName, usize>,
}

impl ModelsMissed {
    /// Sets the levels, with an alarm for each new stage.
    pub fn publish(&mut self, jobs: BTreeMap<StageName, usize>) {
        for stage in self.published.keys().filter(|stage| !jobs.contains_key(*stage)) {
            JOBS_WITHOUT_MODEL.set(0, [stage.as_str()]);
            info!(%stage, "every model that jobs wait for has been loaded by a node again");
        }
        for (stage, count) in &jobs {
            JOBS_WITHOUT_MODEL.set(*count, [stage.as_str()]);
            if !self.published.contains_key(stage) {
                error!(%stage, jobs = count, "work waits for a model that no node has loaded");
            }
        }
        self.published = jobs;
    }
}

impl Drop for ModelsMissed {
    /// Sets the levels to zero: the next leader sets them on its own node.
    fn drop(&mut self) {
        self.publish(BTreeMap::new());
    }
}

/// Levels of tasks and leases, as the database counts them. Remembers them, so that one with no tasks any more is set to zero.
#[derive(Debug, Default)]
pub struct TaskLevels {
    published: BTreeSet<(String, &'static str)>,
}

impl TaskLevels {
    /// Sets the levels.
    pub fn publish(&mut self, counts: &[TaskCount]) {
        let now: BTreeSet<(String, &'static str)> = counts
            .iter()
            .map(|count| (count.position.as_str().to_owned(), count.status.as_str()))
            .collect();
        for (stage, status) in self.published.difference(&now) {
            set(stage, status, 0);
        }
        for count in counts {
            let tasks = usize::try_from(count.tasks).unwrap_or(usize::MAX);
            set(count.position.as_str(), count.status.as_str(), tasks);
        }
        self.published = now;
    }
}

impl Drop for TaskLevels {
    /// Sets the levels to zero: the next leader sets them on its own node.
    fn drop(&mut self) {
        self.publish(&[]);
    }
}

fn set(stage: &str, status: &'static str, tasks: usize) {
    TASKS.set(tasks, [stage, status]);
    // A task is running exactly while it is leased.
    if status == TaskStatus::Running.as_str() {
        LEASES.set(tasks, [stage]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::testing::Measured;
    use parkhang_core::domain::{Position, testing};

    fn count(stage: &str, status: TaskStatus, tasks: u64) -> TaskCount {
        TaskCount {
            position: stage.parse::<Position>().unwrap(),
            status,
            tasks,
        }
    }

    #[test]
    fn levels_that_are_no_more_are_told_as_zero() {
        let measured = Measured::begin();
        let mut levels = TaskLevels::default();
        levels.publish(&[
            count("ocr", TaskStatus::Running, 2),
            count("pending", TaskStatus::Pending, 5),
        ]);
        measured.assert_has(&[
            "parkhang_leases{stage=ocr} 2",
            "parkhang_tasks{stage=ocr,status=running} 2",
            "parkhang_tasks{stage=pending,status=pending} 5",
        ]);
        levels.publish(&[count("pending", TaskStatus::Pending, 4)]);
        measured.assert_has(&[
            "parkhang_leases{stage=ocr} 0",
            "parkhang_tasks{stage=ocr,status=running} 0",
            "parkhang_tasks{stage=pending,status=pending} 4",
        ]);
        drop(levels);
        measured.assert_has(&["parkhang_tasks{stage=pending,status=pending} 0"]);
    }

    #[test]
    fn jobs_that_miss_a_model_are_counted_until_they_do_not() {
        let measured = Measured::begin();
        let stage = testing::stage("ocr");
        let mut missed = ModelsMissed::default();
        missed.publish(BTreeMap::from([(stage, 2)]));
        measured.assert_has(&["parkhang_jobs_without_model{stage=ocr} 2"]);
        drop(missed);
        measured.assert_has(&["parkhang_jobs_without_model{stage=ocr} 0"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_advance_is_timed_once_and_only_for_a_success() {
        let measured = Measured::begin();
        let clock = AdvanceClock::default();
        let stage = testing::stage("reduce");
        clock.advanced(TaskId(1), &stage);
        clock.reported(TaskId(1));
        clock.advanced(TaskId(1), &stage);
        clock.advanced(TaskId(1), &stage);
        clock.reported(TaskId(2));
        clock.forget(TaskId(2));
        clock.advanced(TaskId(2), &stage);
        measured.assert_has(&["parkhang_stage_advance_seconds{stage=reduce} 1"]);
    }

    #[test]
    fn pools_of_a_stage_are_counted_and_those_of_a_deserted_one_are_none() {
        let measured = Measured::begin();
        let (ocr, reduce) = (testing::stage("ocr"), testing::stage("reduce"));
        pools_registered([(&ocr, 2), (&ocr, 1)].into_iter(), Some(&reduce));
        measured.assert_has(&[
            "parkhang_pools{stage=ocr} 2",
            "parkhang_pool_slots{stage=ocr} 3",
            "parkhang_pools{stage=reduce} 0",
        ]);
    }
}
