//! State store in memory, the twin of the one on Postgres.
//!
//! It exists so that the reconciler, pools and sources can be tested without a server and in virtual time, by the same trait as
//! in production. It keeps whole rows in maps and, beside them, an index of open tasks and leases, because a simulated pass
//! over a large job must cost what it finds, as it does in the database. What could differ in meaning is not written twice:
//! changes go through the functions of the module `change`, and the conformance suite runs on both stores. Claims are composed
//! of the other methods, with none of the row locks that the database needs for many claimers. There are no epochs, as no two
//! processes share this store, and none of the reads of operators, which are about indexes and totals of the database.

mod inbox;
mod index;
mod nodes;
mod outbox;
mod ready;
mod services;
mod spending;
mod tables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use self::tables::Tables;
use super::change::{may_adjust, rerun_changes, retry_limits};
use super::{
    Change, ClaimRequest, JobTaskCount, Leases, NodeSnapshot, Outcome, Ready, RerunResult, StageStatistics,
    StateError, StateStore,
};
use parkhang_core::domain::{
    Adjustment, Expense, Fence, Generation, Job, JobId, JobKey, JobStatus, LeaseStatus, NewJob, NodeRecord,
    Position, ScalingRecord, Spending, StageName, StageRun, Task, TaskCount, TaskId, TaskStatus, VolumeId,
    VolumeResults, WorkerId,
};
use parkhang_core::policy::autoscale::StageBacklog;
use parkhang_core::policy::job_action::{self, JobAction};
use parkhang_core::policy::rerun::Rerun;
use parkhang_core::policy::transition::{is_finished, is_terminal};

/// [`StateStore`] in memory, which lives as long as the value: for tests and the simulation. One lock makes every method a
/// transaction.
#[derive(Debug)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    clock: fn() -> DateTime<Utc>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::on_clock(Utc::now)
    }
}

impl MemoryStore {
    /// Empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empty store that has this clock.
    pub fn on_clock(clock: fn() -> DateTime<Utc>) -> Self {
        Self {
            tables: Mutex::default(),
            clock,
        }
    }

    /// Locks the tables.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every method writes only once nothing can fail any more, so a panic elsewhere leaves no half change behind a poisoned
        // lock.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl StateStore for MemoryStore {
    async fn now(&self) -> Result<DateTime<Utc>, StateError> {
        Ok((self.clock)())
    }

    async fn create_job(&self, new: &NewJob, now: DateTime<Utc>) -> Result<Job, StateError> {
        let mut tables = self.tables();
        let key = match &new.key {
            Some(key) if tables.has_key(key.as_str()) => return Err(StateError::JobExists(key.clone())),
            Some(key) => {
                tables.last_job += 1;
                key.clone()
            }
            // An operator may have named a job `J{id}` by hand; the next number is tried then.
            None => loop {
                tables.last_job += 1;
                let key = format!("J{}", tables.last_job);
                if !tables.has_key(&key) {
                    break JobKey::new(key).map_err(|error| StateError::Corrupt(error.to_string()))?;
                }
            },
        };
        let job = Job {
            id: JobId(tables.last_job),
            key,
            operation: new.operation.clone(),
            pipeline: new.pipeline.clone(),
            config: new.config.clone(),
            status: JobStatus::Running,
            standing: new.standing,
            created_at: now,
            finished_at: None,
        };
        tables.jobs.insert(job.id, Arc::new(job.clone()));
        tables.add_tasks(job.id, &new.volumes, job.config.max_attempts);
        Ok(job)
    }

    async fn reopen_job(&self, new: &NewJob) -> Result<Job, StateError> {
        let mut tables = self.tables();
        let known = tables
            .jobs
            .values_mut()
            .find(|job| Some(&job.key) == new.key.as_ref());
        let unknown = || StateError::NoSuchJob(new.key.as_ref().map(ToString::to_string).unwrap_or_default());
        let known = known.ok_or_else(unknown)?;
        let job = Job {
            operation: new.operation.clone(),
            pipeline: new.pipeline.clone(),
            config: new.config.clone(),
            status: job_action::after(known.status, JobAction::Reopen)?,
            standing: new.standing,
            finished_at: None,
            ..(**known).clone()
        };
        *known = Arc::new(job.clone());
        tables.add_tasks(job.id, &new.volumes, job.config.max_attempts);
        Ok(job)
    }

    async fn job(&self, key: &JobKey) -> Result<Option<Job>, StateError> {
        let tables = self.tables();
        let job = tables.jobs.values().find(|job| job.key == *key);
        Ok(job.map(|job| (**job).clone()))
    }

    async fn job_by_id(&self, id: JobId) -> Result<Option<Job>, StateError> {
        Ok(self.tables().jobs.get(&id).map(|job| (**job).clone()))
    }

    async fn add_volumes(&self, id: JobId, volumes: &[VolumeId]) -> Result<u64, StateError> {
        let mut tables = self.tables();
        let max_attempts = tables.job(id)?.config.max_attempts;
        Ok(tables.add_tasks(id, volumes, max_attempts))
    }

    async fn jobs(&self) -> Result<Vec<Job>, StateError> {
        Ok(self.tables().jobs.values().map(|job| (**job).clone()).collect())
    }

    async fn running_jobs(&self) -> Result<Vec<Arc<Job>>, StateError> {
        Ok(self.tables().running_jobs().cloned().collect())
    }

    async fn job_task_counts(&self, job: Option<JobId>) -> Result<Vec<JobTaskCount>, StateError> {
        self.tables().counts(job)
    }

    async fn act_on_job(&self, id: JobId, action: JobAction) -> Result<Job, StateError> {
        let mut tables = self.tables();
        let job = tables.job_mut(id)?;
        let status = job_action::after(job.status, action)?;
        job.standing = job_action::stands_after(job.standing, action);
        tables.set_status(id, status)
    }

    async fn adjust_job(&self, id: JobId, adjustment: &Adjustment) -> Result<Job, StateError> {
        let mut tables = self.tables();
        may_adjust(tables.job(id)?, &tables.counts(Some(id))?, adjustment)?;
        let before = tables.job(id)?.config.clone();
        let config = adjustment.apply(before.clone())?;
        let job = tables.job_mut(id)?;
        job.config = config;
        let job = job.clone();
        let (scope, max_attempts) = (job.config.retry_scope, job.config.max_attempts);
        if max_attempts != before.max_attempts {
            let tasks = tables.tasks.values_mut();
            for task in tasks.filter(|task| task.job_id == id && !is_terminal(task, scope)) {
                (task.max_attempts, task.retry_budget) = retry_limits(task, max_attempts);
            }
        }
        Ok(job)
    }

    async fn rerun(&self, id: JobId, rerun: &Rerun, now: DateTime<Utc>) -> Result<RerunResult, StateError> {
        let mut tables = self.tables();
        let job = tables.job(id)?.clone();
        let status = job_action::after(job.status, JobAction::Rerun)?;
        let tasks: Vec<Task> = tables.job_tasks(id).cloned().collect();
        let (changes, not_reached) = rerun_changes(&job, rerun, &tasks);
        let outcomes = tables.commit(&changes, now);
        let mut result = RerunResult::default();
        result
            .tasks
            .extend(outcomes.into_iter().filter_map(Outcome::applied));
        result.not_reached.extend(not_reached);
        if result.tasks.number > 0 {
            tables.set_status(id, status)?;
        }
        Ok(result)
    }

    async fn tasks(&self, job: JobId) -> Result<Vec<Task>, StateError> {
        Ok(self.tables().job_tasks(job).cloned().collect())
    }

    async fn tasks_by_id(&self, ids: &[TaskId]) -> Result<Vec<Task>, StateError> {
        let ids: BTreeSet<&TaskId> = ids.iter().collect();
        let tables = self.tables();
        let tasks = ids.into_iter().filter_map(|id| tables.tasks.get(id));
        Ok(tasks.cloned().collect())
    }

    async fn leases(&self, now: DateTime<Utc>) -> Result<Leases, StateError> {
        let tables = self.tables();
        let (held, expired) = tables.index.leases(now);
        let task = |id: TaskId| tables.tasks.get(&id);
        let is_cancelled = |job: &Arc<Job>| job.status == JobStatus::Cancelled;
        // A lease that both ran out and is of a cancelled job counts as cancelled only, so that no loss is
        // counted.
        let of_cancelled_job = |task: &&Task| tables.jobs.get(&task.job_id).is_some_and(is_cancelled);
        let expired = expired
            .into_iter()
            .filter_map(task)
            .filter(|task| !of_cancelled_job(task))
            .cloned()
            .collect();
        let mut unwanted: Vec<Task> = tables
            .jobs
            .values()
            .filter(|job| is_cancelled(job))
            .flat_map(|job| tables.index.leased(job.id))
            .filter_map(task)
            .cloned()
            .collect();
        unwanted.sort_by_key(|task| task.id);
        Ok(Leases {
            held,
            expired,
            unwanted,
        })
    }

    async fn leased_to(&self, worker: &WorkerId) -> Result<Vec<Task>, StateError> {
        let tables = self.tables();
        let mut ids = tables.index.leased_to(worker);
        ids.sort_unstable();
        Ok(ids
            .iter()
            .filter_map(|id| tables.tasks.get(id).cloned())
            .collect())
    }

    async fn ready_tasks(
        &self,
        room: &BTreeMap<StageName, usize>,
        now: DateTime<Utc>,
    ) -> Result<Ready, StateError> {
        Ok(ready::ready(&self.tables(), room, now))
    }

    async fn backlog(&self) -> Result<Vec<StageBacklog>, StateError> {
        Ok(self.tables().backlog())
    }

    async fn count_tasks(&self) -> Result<Vec<TaskCount>, StateError> {
        let tables = self.tables();
        let mut counts: HashMap<(&Position, TaskStatus), u64> = HashMap::new();
        for task in tables.tasks.values() {
            let job = tables.jobs.get(&task.job_id);
            if job.is_some_and(|job| !job.status.is_final()) {
                *counts.entry((&task.position, task.status)).or_default() += 1;
            }
        }
        Ok(counts
            .into_iter()
            .map(|((position, status), tasks)| TaskCount {
                position: position.clone(),
                status,
                tasks,
            })
            .collect())
    }

    async fn commit(&self, changes: &[Change], now: DateTime<Utc>) -> Result<Vec<Outcome>, StateError> {
        Ok(self.tables().commit(changes, now))
    }

    async fn claim(
        &self,
        request: &ClaimRequest,
        now: DateTime<Utc>,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
        super::claim::claim(self, request, now).await
    }

    async fn renew_leases(
        &self,
        fences: &[Fence],
        until: DateTime<Utc>,
    ) -> Result<Vec<LeaseStatus>, StateError> {
        let mut tables = self.tables();
        let Tables {
            jobs, tasks, index, ..
        } = &mut *tables;
        let is_cancelled = |job: &Arc<Job>| job.status == JobStatus::Cancelled;
        let mut statuses = Vec::with_capacity(fences.len());
        for fence in fences {
            let task = tasks
                .get_mut(&fence.task)
                .filter(|task| task.fence().as_ref() == Some(fence));
            let Some(task) = task else {
                statuses.push(LeaseStatus::Lost);
                continue;
            };
            if jobs.get(&task.job_id).is_none_or(is_cancelled) {
                statuses.push(LeaseStatus::Cancelled);
                continue;
            }
            if let Some(lease) = &mut task.lease {
                // Heartbeats may arrive out of order; an older one must not shorten the lease.
                lease.until = lease.until.max(until);
                index.renewed(fence.task, &lease.worker, lease.until);
            }
            statuses.push(LeaseStatus::Held);
        }
        Ok(statuses)
    }

    async fn note_progress(&self, finished: &[(Fence, i32)]) -> Result<(), StateError> {
        self.tables().note_progress(finished);
        Ok(())
    }

    async fn spend(&self, expense: &Expense) -> Result<bool, StateError> {
        self.tables().spend(expense)
    }

    async fn spending(&self, job: Option<JobId>) -> Result<Vec<Spending>, StateError> {
        Ok(self.tables().spending.of(job))
    }

    async fn finish_jobs(&self, now: DateTime<Utc>) -> Result<Vec<Job>, StateError> {
        let mut tables = self.tables();
        let Tables {
            jobs, tasks, index, ..
        } = &mut *tables;
        let mut finished = Vec::new();
        for job in jobs.values_mut().filter(|job| job.finished_at.is_none()) {
            let (id, scope) = (job.id, job.config.retry_scope);
            let has_failed = |task: &Task| task.job_id == id && is_terminal(task, scope);
            let has_ended = |task: TaskId| tasks.get(&task).is_some_and(has_failed);
            let status = match job.status {
                JobStatus::Running if !job.standing && !index.unfinished(id, has_ended) => {
                    if tasks.values().any(has_failed) {
                        JobStatus::Failed
                    } else {
                        JobStatus::Completed
                    }
                }
                // A cancelled job has not ended while a worker may still hold a lease of it.
                JobStatus::Cancelled if index.leased(id).is_empty() => JobStatus::Cancelled,
                _ => continue,
            };
            let job = Arc::make_mut(job);
            job.status = status;
            job.finished_at = Some(now);
            finished.push(job.clone());
        }
        Ok(finished)
    }

    async fn stage_runs(&self, task: TaskId) -> Result<Vec<StageRun>, StateError> {
        Ok(self.tables().stage_runs.get(&task).cloned().unwrap_or_default())
    }

    async fn volume_results(&self, task: TaskId) -> Result<Option<VolumeResults>, StateError> {
        Ok(self.tables().volume_results.get(&task).cloned())
    }

    async fn volumes_to_mark(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
        let tables = self.tables();
        let mut due = Vec::new();
        for task in tables.tasks.values() {
            let job = tables.job(task.job_id)?;
            if job.config.layout.has_markers()
                && is_finished(task, job.config.retry_scope)
                && tables.marked.get(&task.id) != Some(&task.generation)
                && after.is_none_or(|after| task.id > after)
                && due.len() < limit
            {
                due.push((task.clone(), Arc::clone(job)));
            }
        }
        Ok(due)
    }

    async fn volumes_marked(&self, ends: &[(TaskId, Generation)]) -> Result<(), StateError> {
        self.tables().marked.extend(ends.iter().copied());
        Ok(())
    }

    async fn stage_statistics(&self, job: JobId) -> Result<Vec<StageStatistics>, StateError> {
        let tables = self.tables();
        let mut by_stage: BTreeMap<&str, Vec<&StageRun>> = BTreeMap::new();
        for task in tables.job_tasks(job) {
            for run in tables.stage_runs.get(&task.id).into_iter().flatten() {
                by_stage.entry(run.fence.stage.as_str()).or_default().push(run);
            }
        }
        Ok(by_stage
            .values()
            .filter_map(|runs| StageStatistics::of(runs))
            .collect())
    }

    async fn record_nodes(&self, snapshot: &NodeSnapshot) -> Result<(), StateError> {
        self.tables().nodes.record(snapshot);
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, StateError> {
        Ok(self.tables().nodes.all())
    }

    async fn record_scaling(&self, record: &ScalingRecord) -> Result<(), StateError> {
        self.tables().scaling.insert(record.hardware, record.clone());
        Ok(())
    }

    async fn scaling(&self) -> Result<Vec<ScalingRecord>, StateError> {
        Ok(self.tables().scaling.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[tokio::test]
    async fn passes_the_conformance_suite() {
        conformance::suite(async || Arc::new(MemoryStore::new()) as Arc<dyn StateStore>).await;
        conformance::outbox::suite(async || {
            let store = Arc::new(MemoryStore::new());
            conformance::outbox::Both {
                store: store.clone(),
                outbox: store,
            }
        })
        .await;
        conformance::services::suite(async || {
            let store = Arc::new(MemoryStore::new());
            conformance::services::Both {
                store: store.clone(),
                services: store,
            }
        })
        .await;
        conformance::inbox::suite(async || {
            let store = Arc::new(MemoryStore::new());
            conformance::inbox::Both {
                store: store.clone(),
                inbox: store,
            }
        })
        .await;
    }
}
