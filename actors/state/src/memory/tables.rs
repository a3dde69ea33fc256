//! Rows of the memory store, and the methods that change them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::inbox::Requests;
use super::index::Index;
use super::nodes::Nodes;
use super::outbox::Messages;
use super::services::Services;
use super::spending::Expenses;
use crate::backlog::waiting_for;
use crate::change::apply;
use crate::{Change, JobTaskCount, Outcome, StateError};
use parkhang_core::domain::{
    DocumentKey, Fence, Generation, Hardware, Job, JobId, JobStatus, Position, ScalingRecord, StageRun, Task,
    TaskId, TaskStatus, VolumeId, VolumeResults,
};
use parkhang_core::policy::autoscale::StageBacklog;
use parkhang_core::policy::poison::got_on;
use parkhang_core::policy::transition::is_terminal;

/// Rows of all kinds, and the index over the tasks.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub last_job: i64,
    last_task: i64,
    pub jobs: BTreeMap<JobId, Arc<Job>>,
    pub tasks: BTreeMap<TaskId, Task>,
    /// Places of the documents of volumes, which are the same for all jobs.
    pub documents: HashMap<VolumeId, DocumentKey>,
    pub stage_runs: HashMap<TaskId, Vec<StageRun>>,
    pub volume_results: HashMap<TaskId, VolumeResults>,
    /// Generations in which finished tasks were marked.
    pub marked: HashMap<TaskId, Generation>,
    pub inbox: Requests,
    pub outbox: Messages,
    pub services: Services,
    pub spending: Expenses,
    /// Pages that a stage had finished when the row of losses of its task last ended by progress.
    pages_done: HashMap<TaskId, i32>,
    pub nodes: Nodes,
    pub scaling: BTreeMap<Hardware, ScalingRecord>,
    pub index: Index,
}

impl Tables {
    /// True if a job has the key.
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

    /// Sets the status of a job; a new one takes its end away.
    pub(super) fn set_status(&mut self, id: JobId, status: JobStatus) -> Result<Job, StateError> {
        let job = self.job_mut(id)?;
        if job.status != status {
            job.status = status;
            job.finished_at = None;
        }
        Ok(job.clone())
    }

    /// Jobs that hand out work, in the order of their ids.
    pub(super) fn running_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.values().filter(|job| job.status == JobStatus::Running)
    }

    /// Tasks of a job, in the order of their ids.
    pub(super) fn job_tasks(&self, id: JobId) -> impl Iterator<Item = &Task> {
        self.tasks.values().filter(move |task| task.job_id == id)
    }

    /// Adds tasks for volumes that the job does not have yet; returns the number of tasks added.
    pub(super) fn add_tasks(&mut self, id: JobId, volumes: &[VolumeId], max_attempts: i32) -> u64 {
        let mut known: HashSet<VolumeId> = self.job_tasks(id).map(|task| task.volume.clone()).collect();
        let mut added = 0;
        for volume in volumes {
            if known.insert(volume.clone()) {
                self.last_task += 1;
                let document = self.documents.get(volume).cloned();
                let task = Task {
                    document,
                    ..Task::fresh(TaskId(self.last_task), id, volume.clone(), max_attempts)
                };
                self.put(task);
                added += 1;
            }
        }
        added
    }

    /// Work that running jobs have for their stages.
    pub(super) fn backlog(&self) -> Vec<StageBacklog> {
        let mut backlog = Vec::new();
        for job in self.running_jobs() {
            for stage in job.pipeline.stages() {
                let waiting: Vec<Vec<&Task>> = waiting_for(&job.pipeline, stage)
                    .iter()
                    .map(|place| {
                        self.index
                            .at(job.id, place)
                            .filter_map(|task| self.tasks.get(&task))
                            .filter(|task| !is_terminal(task, job.config.retry_scope))
                            .collect()
                    })
                    .collect();
                // The first task of a place stands for all of it, as it does in the database, which looks up one by the index.
                let oldest = waiting
                    .iter()
                    .filter_map(|tasks| tasks.first())
                    .map(|task| self.last_end(task.id).unwrap_or(job.created_at))
                    .min();
                let running = (Position::At(stage.clone()), TaskStatus::Running);
                let one = StageBacklog {
                    job: job.id,
                    stage: stage.clone(),
                    waiting: waiting.iter().map(|tasks| tasks.len() as u64).sum(),
                    running: self.index.at(job.id, &running).count() as u64,
                    oldest,
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

    /// Counts of the tasks of one job, or of all jobs, by position and status.
    pub(super) fn counts(&self, job: Option<JobId>) -> Result<Vec<JobTaskCount>, StateError> {
        let mut counts: HashMap<_, u64> = HashMap::new();
        for task in self.tasks.values() {
            if job.is_none_or(|job| task.job_id == job) {
                let scope = self.job(task.job_id)?.config.retry_scope;
                let kind = (task.job_id, &task.position, task.status, is_terminal(task, scope));
                *counts.entry(kind).or_default() += 1;
            }
        }
        Ok(counts
            .into_iter()
            .map(|((job, position, status, terminal), tasks)| JobTaskCount {
                job,
                position: position.clone(),
                status,
                terminal,
                tasks,
            })
            .collect())
    }

    /// Applies changes in their order, each to the row as those before it left it.
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
                if after.interruptions == 0 {
                    self.pages_done.remove(&id);
                }
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

    /// Ends the row of losses of the tasks that have got on.
    pub(super) fn note_progress(&mut self, finished: &[(Fence, i32)]) {
        for (fence, pages) in finished {
            let before = self.pages_done.get(&fence.task).copied().unwrap_or(0);
            let held = self.tasks.get(&fence.task);
            let held = held.filter(|task| task.fence().as_ref() == Some(fence));
            let has_lost = |task: &&Task| task.interruptions > 0 || before > 0;
            if let Some(task) = held.filter(has_lost).filter(|_| got_on(before, *pages)) {
                let after = Task {
                    interruptions: 0,
                    ..task.clone()
                };
                self.pages_done.insert(fence.task, *pages);
                self.put(after);
            }
        }
    }

    /// Writes a row and keeps the index in step.
    fn put(&mut self, task: Task) {
        let before = self.tasks.remove(&task.id);
        self.index.moved(before.as_ref(), &task);
        self.tasks.insert(task.id, task);
    }

    /// Writes a history row, in place of the one of the same lease if there is one.
    fn record(&mut self, run: StageRun) {
        let runs = self.stage_runs.entry(run.fence.task).or_default();
        match runs.iter_mut().find(|known| known.fence == run.fence) {
            Some(known) => *known = run,
            None => runs.push(run),
        }
    }
}
