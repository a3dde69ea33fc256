//! Inbox of the memory store.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::MemoryStore;
use super::tables::Tables;
use crate::inbox::KNOWN_FOR;
use crate::{Change, Expected, Inbox, OpenRequests, Outcome, Settled, StateError, Taken, VolumeRequest};
use parkhang_core::domain::{DocumentKey, Job, JobId, StageRun, StageRunStatus, Task, TaskId, VolumeId};
use parkhang_core::policy::job_action::{self, JobAction};
use parkhang_core::policy::request::{self, Arrival};

/// Requests by job and message.
pub(super) type Requests = BTreeMap<(JobId, String), Request>;

/// Row of the inbox.
#[derive(Debug, Clone)]
pub(super) struct Request {
    task: TaskId,
    is_open: bool,
    taken_at: DateTime<Utc>,
}

impl Tables {
    fn task_of(&self, job: JobId, volume: &VolumeId) -> Option<&Task> {
        self.job_tasks(job).find(|task| task.volume == *volume)
    }

    /// Takes one request; returns its effect.
    fn take(&mut self, job: &Job, request: &VolumeRequest, now: DateTime<Utc>) -> Result<Taken, StateError> {
        let id = (job.id, request.message.clone());
        if self.inbox.contains_key(&id) {
            return Ok(Taken::Repeated);
        }
        let known = self.task_of(job.id, &request.volume).cloned();
        let arrival = request::on_arrival(known.as_ref(), job);
        let taken = match (arrival, &known) {
            (Arrival::Retry, Some(task)) => {
                let change = Change::new(Expected::of(task), request::again(job));
                self.commit(&[change], now);
                Taken::Retried
            }
            (Arrival::Add, _) => {
                let volumes = std::slice::from_ref(&request.volume);
                self.add_tasks(job.id, volumes, job.config.max_attempts);
                Taken::Added
            }
            (Arrival::Retry | Arrival::Open | Arrival::Known, _) => Taken::Known,
        };
        if let Some(document) = &request.document {
            self.place(&request.volume, document);
        }
        let task = self.task_of(job.id, &request.volume);
        let missing = || StateError::Corrupt(format!("{} was not kept", request.volume));
        let row = Request {
            task: task.ok_or_else(missing)?.id,
            is_open: arrival == Arrival::Open,
            taken_at: now,
        };
        self.inbox.insert(id, row);
        Ok(taken)
    }

    /// Sets the place of a volume's document, which is one for all jobs.
    fn place(&mut self, volume: &VolumeId, document: &DocumentKey) {
        self.documents.insert(volume.clone(), document.clone());
        for task in self.tasks.values_mut().filter(|task| task.volume == *volume) {
            task.document = Some(document.clone());
        }
    }

    /// Version of the volume that the first stage of its task has read last.
    fn version_read(&self, task: TaskId, job: &Job) -> Option<String> {
        let is_read =
            |run: &&StageRun| run.fence.stage == *job.pipeline.first() && run.status == StageRunStatus::Done;
        let runs = self.stage_runs.get(&task)?;
        let version = runs.iter().rfind(is_read)?.metrics.get("version")?;
        version.as_str().map(str::to_owned)
    }
}

#[async_trait]
impl Inbox for MemoryStore {
    async fn take_in(
        &self,
        job: JobId,
        requests: &[VolumeRequest],
        now: DateTime<Utc>,
    ) -> Result<Vec<Taken>, StateError> {
        let mut tables = self.tables();
        let job = tables.job(job)?.clone();
        if !job.standing {
            return Err(StateError::NotStanding(job.key.clone()));
        }
        tables
            .inbox
            .retain(|(of, _), row| *of != job.id || row.is_open || row.taken_at >= now - KNOWN_FOR);
        requests
            .iter()
            .map(|request| tables.take(&job, request, now))
            .collect()
    }

    async fn open_requests(
        &self,
        job: JobId,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<OpenRequests>, StateError> {
        let tables = self.tables();
        let Some(job) = tables.jobs.get(&job) else {
            return Ok(Vec::new());
        };
        let mut until: BTreeMap<TaskId, DateTime<Utc>> = BTreeMap::new();
        for ((of, _), row) in &tables.inbox {
            if *of == job.id && row.is_open && after.is_none_or(|after| row.task > after) {
                let latest = until.entry(row.task).or_insert(row.taken_at);
                *latest = row.taken_at.max(*latest);
            }
        }
        Ok(until
            .into_iter()
            .filter_map(|(id, until)| {
                Some(OpenRequests {
                    task: tables.tasks.get(&id)?.clone(),
                    read: tables.version_read(id, job),
                    until,
                })
            })
            .take(limit)
            .collect())
    }

    async fn settle(&self, job: JobId, settled: &[Settled], now: DateTime<Utc>) -> Result<u64, StateError> {
        let mut tables = self.tables();
        let job = tables.job(job)?.clone();
        let status = job_action::after(job.status, JobAction::Rerun)?;
        let mut sent_back = 0;
        for Settled { requests, again } in settled {
            if *again {
                let change = Change::new(Expected::of(&requests.task), request::again(&job));
                let outcome = tables.commit(&[change], now).pop();
                if !matches!(outcome, Some(Outcome::Applied(_))) {
                    continue;
                }
                sent_back += 1;
            }
            for ((of, _), row) in &mut tables.inbox {
                if *of == job.id && row.task == requests.task.id && row.taken_at <= requests.until {
                    row.is_open = false;
                }
            }
        }
        if sent_back > 0 {
            tables.set_status(job.id, status)?;
        }
        Ok(sent_back)
    }
}
