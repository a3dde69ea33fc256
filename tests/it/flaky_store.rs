//! A state store that refuses some commits after its first, as a database does that is being restarted, and that can be away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parkhang_core::domain::{
    Adjustment, Expense, Fence, Generation, Job, JobId, JobKey, LeaseStatus, NewJob, NodeRecord,
    ScalingRecord, Spending, StageName, StageRun, Task, TaskCount, TaskId, VolumeId, VolumeResults, WorkerId,
};
use parkhang_core::policy::autoscale::StageBacklog;
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::rerun::Rerun;
use parkhang_state::{
    Change, ClaimRequest, JobTaskCount, Leases, MemoryStore, NodeSnapshot, Outcome, Ready, RerunResult,
    StageStatistics, StateError, StateStore,
};

#[derive(Debug)]
pub(crate) struct FlakyStore {
    inner: MemoryStore,
    refusals: usize,
    commits: AtomicUsize,
    is_away: AtomicBool,
}

impl FlakyStore {
    pub(crate) fn new(refusals: usize) -> Self {
        Self {
            inner: MemoryStore::new(),
            refusals,
            commits: AtomicUsize::new(0),
            is_away: AtomicBool::new(false),
        }
    }

    /// From now on no lease can be read, or they can again.
    pub(crate) fn be_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) -> usize {
        self.commits
            .load(Ordering::Relaxed)
            .saturating_sub(1)
            .min(self.refusals)
    }
}

#[async_trait]
impl StateStore for FlakyStore {
    async fn commit(&self, changes: &[Change], now: DateTime<Utc>) -> Result<Vec<Outcome>, StateError> {
        // The first lease goes through; the outage meets what follows.
        let commit = self.commits.fetch_add(1, Ordering::Relaxed);
        if (1..=self.refusals).contains(&commit) {
            return Err(StateError::Unavailable("restarting".to_owned()));
        }
        self.inner.commit(changes, now).await
    }

    async fn claim(
        &self,
        request: &ClaimRequest,
        now: DateTime<Utc>,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
        self.inner.claim(request, now).await
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

    async fn job_by_id(&self, id: JobId) -> Result<Option<Job>, StateError> {
        self.inner.job_by_id(id).await
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

    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StateError> {
        self.inner.tasks_by_id(ids).await
    }

    async fn leases(&self, now: DateTime<Utc>) -> Result<Leases, StateError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(StateError::Unavailable("away".to_owned()));
        }
        self.inner.leases(now).await
    }

    async fn leased_to(&self, worker: &WorkerId) -> Result<Vec<Task>, StateError> {
        self.inner.leased_to(worker).await
    }

    async fn ready_tasks(
        &self,
        room: &BTreeMap<StageName, usize>,
        now: DateTime<Utc>,
    ) -> Result<Ready, StateError> {
        self.inner.ready_tasks(room, now).await
    }

    async fn backlog(&self) -> Result<Vec<StageBacklog>, StateError> {
        self.inner.backlog().await
    }

    async fn count_tasks(&self) -> Result<Vec<TaskCount>, StateError> {
        self.inner.count_tasks().await
    }

    async fn renew_leases(
        &self,
        fences: &[Fence],
        until: DateTime<Utc>,
    ) -> Result<Vec<LeaseStatus>, StateError> {
        self.inner.renew_leases(fences, until).await
    }

    async fn note_progress(&self, finished: &[(Fence, i32)]) -> Result<(), StateError> {
        self.inner.note_progress(finished).await
    }

    async fn spend(&self, expense: &Expense) -> Result<bool, StateError> {
        self.inner.spend(expense).await
    }

    async fn spending(&self, job: Option<JobId>) -> Result<Vec<Spending>, StateError> {
        self.inner.spending(job).await
    }

    async fn finish_jobs(&self, now: DateTime<Utc>) -> Result<Vec<Job>, StateError> {
        self.inner.finish_jobs(now).await
    }

    async fn stage_runs(&self, task: TaskId) -> Result<Vec<StageRun>, StateError> {
        self.inner.stage_runs(task).await
    }

    async fn volume_results(&self, task: TaskId) -> Result<Option<VolumeResults>, StateError> {
        self.inner.volume_results(task).await
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
}
