//! The rows of the memory store, and what a change does to them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::index::Index;
use super::nodes::Nodes;
use crate::domain::{
    Generation, Hardware, Job, JobId, JobStatus, Position, ScalingRecord, StageRun, Task, TaskId, TaskStatus,
    VolumeId, VolumeResults,
};
use crate::policy::autoscale::StageBacklog;
use crate::policy::transition::is_terminal;
use crate::state::backlog::waiting_for;
use crate::state::change::apply;
use crate::state::{Change, JobTaskCount, Outcome, StateError};

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub last_job: i64,
    last_task: i64,
    pub jobs: BTreeMap<JobId, Arc<Job>>,
    pub tasks: BTreeMap<TaskId, Task>,
    pub stage_runs: HashMap<TaskId, Vec<StageRun>>,
    pub volume_results: HashMap<TaskId, VolumeResults>,
    /// Generations in which finished tasks were marked.
    pub marked: HashMap<TaskId, Generation>,
    pub nodes: Nodes,
    pub scaling: BTreeMap<Hardware, ScalingRecord>,
    pub index: Index,
}

impl Tables {
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.jobs.values().any(|job| job.key.as_str() == key)
    }

    pub(super) fn job(&self, id: JobId) -> Result<&Arc<Job>, StateError> {
        let unknown = || StateError::NoSuchJob(id.to_string());
        self.jobs.get(&id).ok_or_else(unknown)
    }

    pub(super) fn job_mut(&mut self, id: JobId) -> Result<&mut Job, StateError> {
        let unknown = || StateError::NoSuchJob(id.to_string());
        self.jobs.get_mut(&id).map(Arc::make_mut).ok_or_else(unknown)
    }

    pub(super) fn set_status(&mut self, id: JobId, status: JobStatus) -> Result<Job, StateError> {
        let job = self.job_mut(id)?;
        if job.status != status {
            job.status = status;
            job.finished_at = None;
        }
        Ok(job.clone())
    }

    pub(super) fn running_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        let jobs = self.jobs.values();
        jobs.filter(|job| job.status == JobStatus::Running)
    }

    pub(super) fn job_tasks(&self, id: JobId) -> impl Iterator<Item = &Task> {
        self.tasks.values().filter(move |task| task.job_id == id)
    }

    pub(super) fn add_tasks(&mut self, id: JobId, volumes: &[VolumeId], max_attempts: i32) -> u64 {
        let mut known: HashSet<VolumeId> = self.job_tasks(id).map(|task| task.volume.clone()).collect();
        let mut added = 0;
        for volume in volumes {
            if known.insert(volume.clone()) {
                self.last_task += 1;
                let task = Task::fresh(TaskId(self.last_task), id, volume.clone(), max_attempts);
                self.put(task);
                added += 1;
            }
        }
        added
    }

    pub(super) fn backlog(&self) -> Vec<StageBacklog> {
        let mut backlog = Vec::new();
        for job in self.running_jobs() {
            for stage in job.pipeline.stages() {
                let places = waiting_for(&job.pipeline, stage).into_iter().map(|place| {
                    let tasks = self.index.at(job.id, &place);
                    let tasks = tasks.filter_map(|task| self.tasks.get(&task));
                    let open = tasks.filter(|task| !is_terminal(task, job.config.retry_scope));
                    open.collect::<Vec<&Task>>()
                });
                let waiting: Vec<Vec<&Task>> = places.collect();
                let since = |task: &&Task| self.last_end(task.id).unwrap_or(job.created_at);
                let firsts = waiting.iter().filter_map(|tasks| tasks.first());
                let running = (Position::At(stage.clone()), TaskStatus::Running);
                let one = StageBacklog {
                    job: job.id,
                    stage: stage.clone(),
                    waiting: waiting.iter().map(|tasks| tasks.len() as u64).sum(),
                    running: self.index.at(job.id, &running).count() as u64,
                    oldest: firsts.map(since).min(),
                };
                backlog.extend((one.waiting + one.running > 0).then_some(one));
            }
        }
        backlog
    }

    fn last_end(&self, task: TaskId) -> Option<DateTime<Utc>> {
        let runs = self.stage_runs.get(&task)?;
        runs.iter().filter_map(|run| run.ended_at).max()
    }

    pub(super) fn counts(&self, job: Option<JobId>) -> Result<Vec<JobTaskCount>, StateError> {
        let mut counts: HashMap<_, u64> = HashMap::new();
        for task in self.tasks.values() {
            if job.is_none_or(|job| task.job_id == job) {
                let scope = self.job(task.job_id)?.config.retry_scope;
                let kind = (task.job_id, &task.position, task.status, is_terminal(task, scope));
                *counts.entry(kind).or_default() += 1;
            }
        }
        let counts = counts
            .into_iter()
            .map(|((job, position, status, terminal), tasks)| JobTaskCount {
                job,
                position: position.clone(),
                status,
                terminal,
                tasks,
            });
        Ok(counts.collect())
    }

    pub(super) fn commit(&mut self, changes: &[Change], now: DateTime<Utc>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let id = change.expected.task();
            let row = self
                .tasks
                .get(&id)
                .and_then(|task| Some((task, self.jobs.get(&task.job_id)?)));
            let Some((task, job)) = row else {
                outcomes.push(Outcome::Fenced(None));
                continue;
            };
            let (outcome, run) = apply(task, job, change, now);
            if let Outcome::Applied(after) = &outcome {
                self.put(after.clone());
                if let Some(results) = &change.results {
                    self.volume_results.insert(id, results.clone());
                }
            }
            if let Some(run) = run {
                self.record(run);
            }
            outcomes.push(outcome);
        }
        outcomes
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
