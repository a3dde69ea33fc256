//! The memory store, with counts of the statements that Postgres would have had to execute in its place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;

use parkhang_core::domain::{
    Adjustment, Expense, Fence, Generation, Job, JobId, JobKey, LeaseStatus, NewJob, NodeRecord,
    ScalingRecord, Spending, StageName, StageRun, Task, TaskCount, TaskId, VolumeId, VolumeResults, WorkerId,
};
use parkhang_core::policy::autoscale::StageBacklog;
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::placement::Held;
use parkhang_core::policy::rerun::Rerun;
use parkhang_state::{
    Change, ClaimRequest, JobTaskCount, Leases, MemoryStore, NodeSnapshot, Outcome, Ready, RerunResult,
    StageStatistics, StateError, StateStore,
};

/// Traffic with the database. With the begin and the end of each transaction, statements are round trips.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Statements, without the begins and ends of transactions.
    pub statements: u64,
    /// Transactions.
    pub transactions: u64,
    /// Transactions that wait for the disk.
    pub commits: u64,
    /// State changes that were applied.
    pub changes: u64,
    /// Rows that the statements returned.
    pub rows_read: u64,
    /// Rows that the statements inserted or updated.
    pub rows_written: u64,
    /// Renewals of leases, one for each pool that holds any.
    pub heartbeats: u64,
}

impl Traffic {
    /// Number of messages to the server that wait for an answer.
    pub fn round_trips(&self) -> u64 {
        // The begin and the end of a transaction are messages, too.
        self.statements + 2 * self.transactions
    }

    fn add(&mut self, statements: u64, rows_read: usize, rows_written: usize) {
        self.statements += statements;
        self.rows_read += rows_read as u64;
        self.rows_written += rows_written as u64;
    }
}

/// Memory store that counts the statements of Postgres.
#[derive(Debug, Default)]
pub(super) struct MeteredStore {
    inner: MemoryStore,
    meter: Mutex<Meter>,
}

#[derive(Debug, Default)]
struct Meter {
    traffic: Traffic,
    inside: Duration,
}

impl MeteredStore {
    pub(super) fn traffic(&self) -> Traffic {
        self.meter().traffic
    }

    /// Real time spent in the store so far.
    pub(super) fn inside(&self) -> Duration {
        self.meter().inside
    }

    /// Leases in force, for the audit, without counting a statement.
    pub(super) async fn unmetered_leases(&self, now: DateTime<Utc>) -> Result<Vec<Held>, StateError> {
        Ok(self.inner.leases(now).await?.held)
    }

    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count<T>(&self, began: Instant, answer: &Result<T, StateError>, count: impl FnOnce(&mut Traffic, &T)) {
        let mut meter = self.meter();
        meter.inside += began.elapsed();
        if let Ok(answer) = answer {
            count(&mut meter.traffic, answer);
        }
    }
}

/// The numbers of statements are those of `state::postgres`, which a test compares.
#[async_trait]
impl StateStore for MeteredStore {
    async fn leases(&self, now: DateTime<Utc>) -> Result<Leases, StateError> {
        let began = Instant::now();
        let answer = self.inner.leases(now).await;
        self.count(began, &answer, |traffic, leases| {
            let tasks = leases.expired.len() + leases.unwanted.len();
            traffic.add(2, leases.held.len() + tasks, 0);
        });
        answer
    }

    async fn leased_to(&self, worker: &WorkerId) -> Result<Vec<Task>, StateError> {
        let began = Instant::now();
        let answer = self.inner.leased_to(worker).await;
        self.count(began, &answer, |traffic, tasks| traffic.add(1, tasks.len(), 0));
        answer
    }

    async fn ready_tasks(
        &self,
        room: &BTreeMap<StageName, usize>,
        now: DateTime<Utc>,
    ) -> Result<Ready, StateError> {
        let began = Instant::now();
        let answer = self.inner.ready_tasks(room, now).await;
        self.count(began, &answer, |traffic, ready| {
            traffic.add(3, ready.tasks.len() + 2, 0)
        });
        answer
    }

    async fn commit(&self, changes: &[Change], now: DateTime<Utc>) -> Result<Vec<Outcome>, StateError> {
        let began = Instant::now();
        let answer = self.inner.commit(changes, now).await;
        self.count(began, &answer, |traffic, outcomes| {
            let moved = outcomes
                .iter()
                .filter(|outcome| matches!(outcome, Outcome::Applied(_)))
                .count();
            let results = changes.iter().filter(|change| change.results.is_some()).count();
            let writes = match (moved, results) {
                // Where no change applies, Postgres is sent no writes either.
                (0, _) => 0,
                // Tasks and their history.
                (_, 0) => 2,
                _ => 3,
            };
            // The epoch, the rows, their jobs, and what is written.
            traffic.add(3 + writes, changes.len() + 2, 2 * moved + results);
            traffic.transactions += 1;
            traffic.commits += 1;
            traffic.changes += moved as u64;
        });
        answer
    }

    async fn note_progress(&self, finished: &[(Fence, i32)]) -> Result<(), StateError> {
        self.inner.note_progress(finished).await
    }

    async fn renew_leases(
        &self,
        fences: &[Fence],
        until: DateTime<Utc>,
    ) -> Result<Vec<LeaseStatus>, StateError> {
        let began = Instant::now();
        let answer = self.inner.renew_leases(fences, until).await;
        self.count(began, &answer, |traffic, held| {
            let renewed = held.iter().filter(|status| **status == LeaseStatus::Held).count();
            traffic.add(1, renewed, renewed);
            traffic.transactions += 1;
            traffic.heartbeats += 1;
        });
        answer
    }

    async fn spend(&self, expense: &Expense) -> Result<bool, StateError> {
        self.inner.spend(expense).await
    }

    async fn spending(&self, job: Option<JobId>) -> Result<Vec<Spending>, StateError> {
        self.inner.spending(job).await
    }

    async fn finish_jobs(&self, now: DateTime<Utc>) -> Result<Vec<Job>, StateError> {
        let began = Instant::now();
        let answer = self.inner.finish_jobs(now).await;
        self.count(began, &answer, |traffic, settled| {
            let writes = u64::from(!settled.is_empty());
            traffic.add(2 + writes, settled.len(), settled.len());
            traffic.transactions += 1;
        });
        answer
    }

    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StateError> {
        let began = Instant::now();
        let answer = self.inner.tasks_by_id(ids).await;
        self.count(began, &answer, |traffic, tasks| traffic.add(1, tasks.len(), 0));
        answer
    }

    async fn job_by_id(&self, id: JobId) -> Result<Option<Job>, StateError> {
        let began = Instant::now();
        let answer = self.inner.job_by_id(id).await;
        self.count(began, &answer, |traffic, _| traffic.add(1, 1, 0));
        answer
    }

    async fn stage_runs(&self, task: TaskId) -> Result<Vec<StageRun>, StateError> {
        let began = Instant::now();
        let answer = self.inner.stage_runs(task).await;
        self.count(began, &answer, |traffic, runs| traffic.add(1, runs.len(), 0));
        answer
    }

    async fn claim(
        &self,
        request: &ClaimRequest,
        now: DateTime<Utc>,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
        self.inner.claim(request, now).await
    }

    async fn volumes_to_mark(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
        self.inner.volumes_to_mark(after, limit).await
    }

    async fn volumes_marked(&self, ends: &[(TaskId, Generation)]) -> Result<(), StateError> {
        self.inner.volumes_marked(ends).await
    }

    async fn stage_statistics(&self, job: JobId) -> Result<Vec<StageStatistics>, StateError> {
        self.inner.stage_statistics(job).await
    }

    async fn record_nodes(&self, snapshot: &NodeSnapshot) -> Result<(), StateError> {
        self.inner.record_nodes(snapshot).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, StateError> {
        self.inner.nodes().await
    }

    async fn record_scaling(&self, record: &ScalingRecord) -> Result<(), StateError> {
        self.inner.record_scaling(record).await
    }

    async fn scaling(&self) -> Result<Vec<ScalingRecord>, StateError> {
        self.inner.scaling().await
    }

    async fn create_job(&self, job: &NewJob, now: DateTime<Utc>) -> Result<Job, StateError> {
        self.inner.create_job(job, now).await
    }

    async fn reopen_job(&self, job: &NewJob) -> Result<Job, StateError> {
        self.inner.reopen_job(job).await
    }

    async fn job(&self, key: &JobKey) -> Result<Option<Job>, StateError> {
        self.inner.job(key).await
    }

    async fn add_volumes(&self, id: JobId, volumes: &[VolumeId]) -> Result<u64, StateError> {
        self.inner.add_volumes(id, volumes).await
    }

    async fn jobs(&self) -> Result<Vec<Job>, StateError> {
        self.inner.jobs().await
    }

    async fn running_jobs(&self) -> Result<Vec<Arc<Job>>, StateError> {
        self.inner.running_jobs().await
    }

    async fn job_task_counts(&self, job: Option<JobId>) -> Result<Vec<JobTaskCount>, StateError> {
        self.inner.job_task_counts(job).await
    }

    async fn backlog(&self) -> Result<Vec<StageBacklog>, StateError> {
        let began = Instant::now();
        let answer = self.inner.backlog().await;
        self.count(began, &answer, |traffic, backlog| {
            traffic.add(2, 1 + backlog.len(), 0);
        });
        answer
    }

    async fn count_tasks(&self) -> Result<Vec<TaskCount>, StateError> {
        self.inner.count_tasks().await
    }

    async fn act_on_job(&self, id: JobId, action: JobAction) -> Result<Job, StateError> {
        self.inner.act_on_job(id, action).await
    }

    async fn adjust_job(&self, id: JobId, adjustment: &Adjustment) -> Result<Job, StateError> {
        self.inner.adjust_job(id, adjustment).await
    }

    async fn rerun(&self, id: JobId, rerun: &Rerun, now: DateTime<Utc>) -> Result<RerunResult, StateError> {
        self.inner.rerun(id, rerun, now).await
    }

    async fn tasks(&self, job: JobId) -> Result<Vec<Task>, StateError> {
        self.inner.tasks(job).await
    }

    async fn volume_results(&self, task: TaskId) -> Result<Option<VolumeResults>, StateError> {
        self.inner.volume_results(task).await
    }
}

#[cfg(test)]
mod tests;
