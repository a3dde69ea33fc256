//! Contract of the store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use parkhang_core::domain::{
    Adjustment, Expense, Fence, Generation, Job, JobId, JobKey, LeaseStatus, NewJob, NodeRecord,
    ScalingRecord, Spending, StageName, StageRun, Task, TaskCount, TaskId, VolumeId, VolumeResults, WorkerId,
};
use parkhang_core::policy::autoscale::StageBacklog;
use parkhang_core::policy::claim::Offer;
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::rerun::Rerun;

use crate::{
    Change, JobTaskCount, Leases, NodeSnapshot, Outcome, Ready, RerunResult, StageStatistics, StateError,
};

/// Request of workers that take work themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Free slots, by stage and worker.
    pub offers: Vec<Offer>,
    /// Time at which the new leases run out unless they are renewed.
    pub until: DateTime<Utc>,
    /// Number of leases lost in a row after which a volume is set aside.
    pub max_interruptions: i32,
    /// True if leases that have run out are ended.
    pub ends_leases: bool,
}

/// Store of jobs, tasks, leases and their history. Every method may be repeated without harm.
///
/// # Errors
///
/// Every method that asks a database may fail with [`StateError::Unavailable`], after which it may be tried again, or with
/// [`StateError::Corrupt`]. The methods name the errors that come on top of these two.
#[async_trait]
pub trait StateStore: Send + Sync + fmt::Debug {
    /// Time of the one clock that all users of the store share.
    async fn now(&self) -> Result<DateTime<Utc>, StateError> {
        Ok(Utc::now())
    }

    /// Writes the job, which runs from then on, its volumes and one pending task for each of them, all or nothing.
    ///
    /// # Errors
    ///
    /// [`StateError::JobExists`] if the key is taken, and those of every method.
    async fn create_job(&self, job: &NewJob, now: DateTime<Utc>) -> Result<Job, StateError>;

    /// Takes the existing job named by `job.key` up again: it runs once more, with this pipeline and configuration, and with
    /// tasks for volumes that it did not have. What its tasks have reached stays.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`], [`StateError::Forbidden`] if the job is cancelled, and those of every method.
    async fn reopen_job(&self, job: &NewJob) -> Result<Job, StateError>;

    /// Returns the job of that key.
    async fn job(&self, key: &JobKey) -> Result<Option<Job>, StateError>;

    /// Returns the job of that id.
    async fn job_by_id(&self, id: JobId) -> Result<Option<Job>, StateError>;

    /// Adds tasks for volumes that the job does not have yet; returns the number of tasks added.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`], and those of every method.
    async fn add_volumes(&self, id: JobId, volumes: &[VolumeId]) -> Result<u64, StateError>;

    /// Returns all jobs, in the order of their ids.
    async fn jobs(&self) -> Result<Vec<Job>, StateError>;

    /// Returns the jobs that hand out work, in the order of their ids.
    async fn running_jobs(&self) -> Result<Vec<Arc<Job>>, StateError>;

    /// Counts the tasks of one job, or of each of all jobs, by position and status, in no order.
    async fn job_task_counts(&self, job: Option<JobId>) -> Result<Vec<JobTaskCount>, StateError>;

    /// Carries an action out on a job, if [`parkhang_core::policy::job_action`] allows it; returns the job's new state. Leases of a job
    /// that is cancelled are left to the next reconciler pass to end.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`], [`StateError::Forbidden`] if the job's status does not allow the action, and those of every
    /// method.
    async fn act_on_job(&self, id: JobId, action: JobAction) -> Result<Job, StateError>;

    /// Changes limits of a job. A new number of tries holds for every task that has not failed for good; one that waits for
    /// another try still gets that one.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`], [`StateError::Forbidden`] if the adjustment is a revision and the job is not at rest,
    /// [`StateError::Config`] if the configuration would not be valid, and those of every method.
    async fn adjust_job(&self, id: JobId, adjustment: &Adjustment) -> Result<Job, StateError>;

    /// Sends tasks back to a stage, each in one transaction with the reopening of its job; the tasks of a large job take several
    /// transactions. Workers that hold leases on them are fenced off.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`], [`StateError::Forbidden`] if the job's status does not allow a rerun, and those of every
    /// method. Tasks sent back before an error stay sent back.
    async fn rerun(&self, id: JobId, rerun: &Rerun, now: DateTime<Utc>) -> Result<RerunResult, StateError>;

    /// Returns the tasks of a job, in the order of their ids.
    async fn tasks(&self, job: JobId) -> Result<Vec<Task>, StateError>;

    /// Returns the tasks of these ids, in the order of their ids, each once; ids without a task are passed over.
    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StateError>;

    /// Returns one task.
    async fn task(&self, id: TaskId) -> Result<Option<Task>, StateError> {
        Ok(self.tasks_by_id(&[id]).await?.pop())
    }

    /// Returns the leases of all jobs at `now`: those in force as counts, those that ran out as tasks.
    async fn leases(&self, now: DateTime<Utc>) -> Result<Leases, StateError>;

    /// Returns the tasks that are leased to the worker, in task order, whether the lease is in force or has run out.
    async fn leased_to(&self, worker: &WorkerId) -> Result<Vec<Task>, StateError>;

    /// Returns tasks of running jobs that may begin one of these stages at `now`: of each job and stage at least the first
    /// `room`, in task order, if there are so many.
    async fn ready_tasks(
        &self,
        room: &BTreeMap<StageName, usize>,
        now: DateTime<Utc>,
    ) -> Result<Ready, StateError>;

    /// Returns the work that running jobs have for their stages, by job and then in the order of the pipeline. Stages without
    /// any are left out.
    async fn backlog(&self) -> Result<Vec<StageBacklog>, StateError>;

    /// Counts the tasks of jobs that are not over by position and status, in no order.
    async fn count_tasks(&self) -> Result<Vec<TaskCount>, StateError>;

    /// Applies the changes in one transaction, each fenced by itself; returns outcomes in the order of the changes. Where the
    /// database refuses a change, no other one fails with it. If that one would have ended a lease, the stage has failed instead.
    ///
    /// # Errors
    ///
    /// [`StateError::Deposed`] if the store belongs to a leader that was replaced, and those of every method. No change was
    /// applied then, unless the answer to the commit itself was lost.
    async fn commit(&self, changes: &[Change], now: DateTime<Utc>) -> Result<Vec<Outcome>, StateError>;

    /// Leases as many tasks as the offers have room for, for workers that take work themselves; returns the tasks as leased.
    /// Leases that ran out, or whose job was cancelled, are ended first, whatever their stage. No two callers get the same
    /// task; a caller may get less than there is while others look at it.
    async fn claim(
        &self,
        request: &ClaimRequest,
        now: DateTime<Utc>,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError>;

    /// Notifies those that wait for work that there is some for this stage. A hint, which may get lost.
    async fn announce_work(&self, stage: &StageName) -> Result<(), StateError> {
        let _ = stage;
        Ok(())
    }

    /// Moves the deadlines of the leases that are still in force and wanted to `until`, never backwards; answers in the order of
    /// the fences.
    async fn renew_leases(
        &self,
        fences: &[Fence],
        until: DateTime<Utc>,
    ) -> Result<Vec<LeaseStatus>, StateError>;

    /// Notes how many pages of their volumes leases have finished, those of earlier leases included. The losses of a volume that has
    /// [got on](parkhang_core::policy::poison::got_on) since this last was so, or since the stage began, are no row any more.
    async fn note_progress(&self, finished: &[(Fence, i32)]) -> Result<(), StateError>;

    /// Writes what was spent under a lease so far, whether the lease is in force or over: the larger of what was written before and of
    /// this stands. Returns whether the job may spend more. An expense of nothing asks for somebody who would spend something: a running job
    /// whose budget is used up is paused then, and not sooner, as it may have come to its end.
    async fn spend(&self, expense: &Expense) -> Result<bool, StateError>;

    /// Returns what one job, or each of all jobs, has spent, by job and service.
    async fn spending(&self, job: Option<JobId>) -> Result<Vec<Spending>, StateError>;

    /// Completes or fails the running jobs whose tasks are all finished, and finishes the cancelled ones that hold no lease any
    /// more; returns the jobs that changed.
    async fn finish_jobs(&self, now: DateTime<Utc>) -> Result<Vec<Job>, StateError>;

    /// Returns the history of a task: one row for each lease, in the order in which they began.
    async fn stage_runs(&self, task: TaskId) -> Result<Vec<StageRun>, StateError>;

    /// Returns the results that came with the success of the task's last stage.
    async fn volume_results(&self, task: TaskId) -> Result<Option<VolumeResults>, StateError>;

    /// Finished tasks of jobs whose [layout](parkhang_core::domain::LayoutName::has_markers) has markers, where the end they have come
    /// to is not marked yet, in task order; those behind `after` only, and so many at most.
    async fn volumes_to_mark(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError>;

    /// Notes that the ends of these tasks are marked, each in the generation in which it was found.
    async fn volumes_marked(&self, ends: &[(TaskId, Generation)]) -> Result<(), StateError>;

    /// Sums up the runs of a job by stage, in the order of the stages' names.
    async fn stage_statistics(&self, job: JobId) -> Result<Vec<StageStatistics>, StateError>;

    /// Writes the nodes that take part in the cluster.
    ///
    /// # Errors
    ///
    /// [`StateError::Deposed`] if the store belongs to a leader that was replaced, and those of every method.
    async fn record_nodes(&self, snapshot: &NodeSnapshot) -> Result<(), StateError>;

    /// Returns the nodes that have not been deleted, by name.
    async fn nodes(&self) -> Result<Vec<NodeRecord>, StateError>;

    /// Writes the autoscaler's decision, replacing the one before it for the same hardware.
    ///
    /// # Errors
    ///
    /// [`StateError::Deposed`] if the store belongs to a leader that was replaced, and those of every method.
    async fn record_scaling(&self, record: &ScalingRecord) -> Result<(), StateError>;

    /// Returns the autoscaler's latest decisions, by hardware.
    async fn scaling(&self) -> Result<Vec<ScalingRecord>, StateError>;
}
