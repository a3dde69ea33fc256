mod index;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use self::index::Index;
use super::backlog::waiting_for;
use super::change::apply;
use super::{Change, Heartbeat, Leases, Outcome, Ready, StateError, StateStore, TaskCount};
use crate::domain::{
    Generation, Job, JobId, JobKey, JobStatus, NewJob, Position, StageName, StageRun, Task, TaskId,
    TaskStatus, VolumeId, VolumeResults, WorkerId,
};
use crate::policy::transition::is_terminal;

/// A [`StateStore`] that lives as long as the process, for tests. One lock makes every method a transaction.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    last_job: i64,
    last_task: i64,
    jobs: BTreeMap<JobId, JobRow>,
    tasks: BTreeMap<TaskId, Task>,
    stage_runs: HashMap<TaskId, Vec<StageRun>>,
    volume_results: HashMap<TaskId, VolumeResults>,
    index: Index,
}

#[derive(Debug)]
struct JobRow {
    job: Arc<Job>,
    max_attempts: i32,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Every method writes only once nothing can fail any more, so a panic elsewhere leaves no half change behind.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn has_key(&self, key: &str) -> bool {
        self.jobs.values().any(|row| row.job.key.as_str() == key)
    }

    fn job_tasks(&self, id: JobId) -> impl Iterator<Item = &Task> {
        self.tasks.values().filter(move |task| task.job_id == id)
    }

    fn add_tasks(&mut self, id: JobId, volumes: &[VolumeId], max_attempts: i32) -> u64 {
        let mut known: HashSet<VolumeId> = self.job_tasks(id).map(|task| task.volume.clone()).collect();
        let mut added = 0;
        for volume in volumes {
            if known.insert(volume.clone()) {
                self.last_task += 1;
                let task = new_task(TaskId(self.last_task), id, volume.clone(), max_attempts);
                self.put(task);
                added += 1;
            }
        }
        added
    }

    fn put(&mut self, task: Task) {
        let before = self.tasks.remove(&task.id);
        self.index.moved(before.as_ref(), &task);
        self.tasks.insert(task.id, task);
    }

    fn record(&mut self, run: StageRun) {
        let runs = self.stage_runs.entry(run.fence.task).or_default();
        match runs.iter_mut().find(|known| known.fence == run.fence) {
            Some(known) => *known = run,
            None => runs.push(run),
        }
    }
}

fn new_task(id: TaskId, job_id: JobId, volume: VolumeId, max_attempts: i32) -> Task {
    Task {
        id,
        job_id,
        volume,
        position: Position::Pending,
        status: TaskStatus::Pending,
        attempts: 0,
        max_attempts,
        allowance: max_attempts,
        stage_attempts: 0,
        generation: Generation(0),
        interruptions: 0,
        not_before: None,
        lease: None,
        last_error: None,
        started_at: None,
        done_at: None,
    }
}

#[async_trait]
impl StateStore for MemoryStore {
    async fn create_job(&self, new: &NewJob, now: DateTime<Utc>) -> Result<Job, StateError> {
        let mut tables = self.tables();
        let key = match &new.key {
            Some(key) if tables.has_key(key.as_str()) => return Err(StateError::JobExists(key.clone())),
            Some(key) => {
                tables.last_job += 1;
                key.clone()
            }
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
            created_at: now,
            finished_at: None,
        };
        let row = JobRow {
            job: Arc::new(job.clone()),
            max_attempts: new.max_attempts,
        };
        tables.jobs.insert(job.id, row);
        tables.add_tasks(job.id, &new.volumes, new.max_attempts);
        Ok(job)
    }

    async fn reopen_job(&self, new: &NewJob) -> Result<Job, StateError> {
        let mut tables = self.tables();
        let named = |row: &&mut JobRow| Some(&row.job.key) == new.key.as_ref();
        let unknown = || StateError::NoSuchJob(new.key.as_ref().map(ToString::to_string).unwrap_or_default());
        let row = tables.jobs.values_mut().find(named).ok_or_else(unknown)?;
        let job = Job {
            operation: new.operation.clone(),
            pipeline: new.pipeline.clone(),
            config: new.config.clone(),
            status: JobStatus::Running,
            finished_at: None,
            ..(*row.job).clone()
        };
        *row = JobRow {
            job: Arc::new(job.clone()),
            max_attempts: new.max_attempts,
        };
        tables.add_tasks(job.id, &new.volumes, new.max_attempts);
        Ok(job)
    }

    async fn job(&self, key: &JobKey) -> Result<Option<Job>, StateError> {
        let tables = self.tables();
        let row = tables.jobs.values().find(|row| row.job.key == *key);
        Ok(row.map(|row| (*row.job).clone()))
    }

    async fn job_by_id(&self, id: JobId) -> Result<Option<Job>, StateError> {
        Ok(self.tables().jobs.get(&id).map(|row| (*row.job).clone()))
    }

    async fn add_volumes(&self, id: JobId, volumes: &[VolumeId]) -> Result<u64, StateError> {
        let mut tables = self.tables();
        let max_attempts = match tables.jobs.get(&id) {
            Some(row) => row.max_attempts,
            None => return Err(StateError::NoSuchJob(id.to_string())),
        };
        Ok(tables.add_tasks(id, volumes, max_attempts))
    }

    async fn set_job_status(
        &self,
        id: JobId,
        status: JobStatus,
        now: DateTime<Utc>,
    ) -> Result<(), StateError> {
        let mut tables = self.tables();
        let row = tables
            .jobs
            .get_mut(&id)
            .ok_or_else(|| StateError::NoSuchJob(id.to_string()))?;
        if row.job.status != status {
            let job = Arc::make_mut(&mut row.job);
            job.status = status;
            job.finished_at = status.is_final().then_some(now);
        }
        Ok(())
    }

    async fn tasks(&self, job: JobId) -> Result<Vec<Task>, StateError> {
        Ok(self.tables().job_tasks(job).cloned().collect())
    }

    async fn task(&self, id: TaskId) -> Result<Option<Task>, StateError> {
        Ok(self.tables().tasks.get(&id).cloned())
    }

    async fn leases(&self, now: DateTime<Utc>) -> Result<Leases, StateError> {
        let tables = self.tables();
        let (held, expired) = tables.index.leases(now);
        let expired = expired.iter().filter_map(|id| tables.tasks.get(id).cloned());
        Ok(Leases {
            held,
            expired: expired.collect(),
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
        let tables = self.tables();
        let mut ready = Ready::default();
        let running = tables.jobs.values().map(|row| &row.job);
        for job in running.filter(|job| job.status == JobStatus::Running) {
            let places = room.iter().flat_map(|(stage, room)| {
                waiting_for(&job.pipeline, stage)
                    .into_iter()
                    .zip(std::iter::repeat(room))
            });
            for (place, room) in places {
                let mut found = 0;
                for id in tables.index.at(job.id, &place) {
                    let Some(task) = tables.tasks.get(&id) else {
                        continue;
                    };
                    match task.not_before {
                        _ if is_terminal(task, job.config.retry_scope) => {}
                        Some(due) if due > now => {
                            ready.next_due = Some(ready.next_due.map_or(due, |first| first.min(due)));
                        }
                        _ if found < *room => {
                            ready.tasks.push((task.clone(), Arc::clone(job)));
                            found += 1;
                        }
                        _ if place.1 != TaskStatus::Failed => break,
                        _ => {}
                    }
                }
            }
        }
        ready.tasks.sort_by_key(|(task, _)| task.id);
        Ok(ready)
    }

    async fn count_tasks(&self) -> Result<Vec<TaskCount>, StateError> {
        let tables = self.tables();
        let mut counts: HashMap<(&Position, TaskStatus), u64> = HashMap::new();
        for task in tables.tasks.values() {
            let job = tables.jobs.get(&task.job_id);
            if job.is_some_and(|row| !row.job.status.is_final()) {
                *counts.entry((&task.position, task.status)).or_default() += 1;
            }
        }
        let counts = counts.into_iter().map(|((position, status), tasks)| TaskCount {
            position: position.clone(),
            status,
            tasks,
        });
        Ok(counts.collect())
    }

    async fn commit(&self, changes: &[Change], now: DateTime<Utc>) -> Result<Vec<Outcome>, StateError> {
        let mut tables = self.tables();
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let id = change.expected.task();
            let row = tables
                .tasks
                .get(&id)
                .and_then(|task| Some((task, &tables.jobs.get(&task.job_id)?.job)));
            let Some((task, job)) = row else {
                outcomes.push(Outcome::Fenced(None));
                continue;
            };
            let (outcome, run) = apply(task, job, change, now);
            if let Outcome::Applied(after) = &outcome {
                tables.put(after.clone());
                if let Some(results) = &change.results {
                    tables.volume_results.insert(id, results.clone());
                }
            }
            if let Some(run) = run {
                tables.record(run);
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    async fn renew_leases(&self, beats: &[Heartbeat]) -> Result<Vec<bool>, StateError> {
        let mut tables = self.tables();
        let Tables { tasks, index, .. } = &mut *tables;
        let renewed = beats.iter().map(|beat| {
            let task = tasks.get_mut(&beat.fence.task);
            let Some(task) = task.filter(|task| task.fence().as_ref() == Some(&beat.fence)) else {
                return false;
            };
            if let Some(lease) = &mut task.lease {
                lease.until = lease.until.max(beat.until);
                index.renewed(beat.fence.task, &lease.worker, lease.until);
            }
            true
        });
        Ok(renewed.collect())
    }

    async fn settle_jobs(&self, now: DateTime<Utc>) -> Result<Vec<Job>, StateError> {
        let mut tables = self.tables();
        let Tables {
            jobs, tasks, index, ..
        } = &mut *tables;
        let mut settled = Vec::new();
        for row in jobs
            .values_mut()
            .filter(|row| row.job.status == JobStatus::Running)
        {
            let (id, scope) = (row.job.id, row.job.config.retry_scope);
            let has_failed = |task: &Task| task.job_id == id && is_terminal(task, scope);
            if index.unfinished(id, |task| tasks.get(&task).is_some_and(has_failed)) {
                continue;
            }
            let job = Arc::make_mut(&mut row.job);
            job.status = if tasks.values().any(has_failed) {
                JobStatus::Failed
            } else {
                JobStatus::Completed
            };
            job.finished_at = Some(now);
            settled.push(job.clone());
        }
        Ok(settled)
    }

    async fn stage_runs(&self, task: TaskId) -> Result<Vec<StageRun>, StateError> {
        Ok(self.tables().stage_runs.get(&task).cloned().unwrap_or_default())
    }

    async fn volume_results(&self, task: TaskId) -> Result<Option<VolumeResults>, StateError> {
        Ok(self.tables().volume_results.get(&task).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::conformance;

    #[tokio::test]
    async fn passes_the_conformance_suite() {
        conformance::suite(async || Arc::new(MemoryStore::new()) as Arc<dyn StateStore>).await;
    }
}
