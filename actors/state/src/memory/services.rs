//! Services that do stages, in the memory store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::MemoryStore;
use crate::{ServiceStore, StateError};
use parkhang_core::domain::{
    Fence, ServiceJob, ServiceLease, ServiceMessage, ServiceRecord, Task, TaskId, WorkerId,
};

/// Jobs by task, in the order in which they were submitted, and services by name.
#[derive(Debug, Default)]
pub(super) struct Services {
    jobs: HashMap<TaskId, Vec<ServiceJob>>,
    /// Leases whose work was about to be sent.
    intended: HashSet<Fence>,
    records: BTreeMap<String, ServiceRecord>,
    messages: BTreeMap<i64, ServiceMessage>,
    last_message: i64,
    /// Times from which on turns of services are free.
    turns_free_at: HashMap<String, Instant>,
}

impl Services {
    fn job_of(&mut self, fence: &Fence) -> Option<&mut ServiceJob> {
        let jobs = self.jobs.get_mut(&fence.task)?;
        jobs.iter_mut().find(|job| job.fence == *fence)
    }
}

#[async_trait]
impl ServiceStore for MemoryStore {
    async fn intend_submit(&self, lease: &Fence, _: DateTime<Utc>) -> Result<bool, StateError> {
        Ok(self.tables().services.intended.insert(lease.clone()))
    }

    async fn record_service_job(&self, job: &ServiceJob) -> Result<bool, StateError> {
        let mut tables = self.tables();
        let task = job.fence.task;
        let mut runs = tables.stage_runs.get(&task).into_iter().flatten();
        if !runs.any(|run| run.fence == job.fence && run.worker.service().is_some()) {
            return Ok(false);
        }
        let current = tables.tasks.get(&task).and_then(Task::fence);
        let jobs = tables.services.jobs.entry(task).or_default();
        let is_its_job = match jobs.iter_mut().find(|known| known.fence == job.fence) {
            Some(known) if job.continues(known) => {
                known.job.clone_from(&job.job);
                true
            }
            Some(known) => known.job == job.job,
            None => {
                jobs.push(job.clone());
                true
            }
        };
        Ok(is_its_job && current.as_ref() == Some(&job.fence))
    }

    async fn service_leases(
        &self,
        worker: &WorkerId,
        begun_by: DateTime<Utc>,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<ServiceLease>, StateError> {
        let tables = self.tables();
        let mut ids = tables.index.leased_to(worker);
        ids.sort_unstable();
        let behind = ids.into_iter().filter(|id| after.is_none_or(|after| *id > after));
        let tasks = behind.filter_map(|id| tables.tasks.get(&id));
        let leases = tasks.map(|task| {
            let fence = task.fence();
            let mut jobs = tables.services.jobs.get(&task.id).into_iter().flatten();
            let job = jobs.find(|job| Some(&job.fence) == fence.as_ref());
            ServiceLease {
                task: task.clone(),
                job: job.map(|job| job.job.clone()),
            }
        });
        let has_begun = |task: &Task| task.started_at.is_some_and(|started| started <= begun_by);
        let wanted = leases.filter(|lease| lease.job.is_none() || has_begun(&lease.task));
        Ok(wanted.take(limit).collect())
    }

    async fn service_jobs(&self, task: TaskId) -> Result<Vec<ServiceJob>, StateError> {
        Ok(self
            .tables()
            .services
            .jobs
            .get(&task)
            .cloned()
            .unwrap_or_default())
    }

    async fn note_polls(&self, leases: &[Fence], at: DateTime<Utc>) -> Result<(), StateError> {
        let mut tables = self.tables();
        for fence in leases {
            if let Some(job) = tables.services.job_of(fence) {
                job.polls += 1;
                job.polled_at = Some(at);
            }
        }
        Ok(())
    }

    async fn note_message(&self, lease: &Fence, at: DateTime<Utc>) -> Result<(), StateError> {
        if let Some(job) = self.tables().services.job_of(lease) {
            job.told_at.get_or_insert(at);
        }
        Ok(())
    }

    async fn keep_message(&self, message: &ServiceMessage) -> Result<(), StateError> {
        let mut tables = self.tables();
        let is_known = tables.tasks.contains_key(&message.task);
        let services = &mut tables.services;
        if is_known && services.messages.values().all(|kept| kept != message) {
            services.last_message += 1;
            services.messages.insert(services.last_message, message.clone());
        }
        Ok(())
    }

    async fn kept_messages(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<(i64, ServiceMessage)>, StateError> {
        let tables = self.tables();
        let behind = tables.services.messages.range(after + 1..).take(limit);
        Ok(behind
            .map(|(number, message)| (*number, message.clone()))
            .collect())
    }

    async fn drop_messages(&self, numbers: &[i64]) -> Result<(), StateError> {
        let messages = &mut self.tables().services.messages;
        messages.retain(|number, _| !numbers.contains(number));
        Ok(())
    }

    async fn record_service(&self, record: &ServiceRecord) -> Result<(), StateError> {
        let records = &mut self.tables().services.records;
        records.insert(record.name.clone(), record.clone());
        Ok(())
    }

    async fn take_turn(&self, service: &str, rate: NonZeroU32) -> Result<Duration, StateError> {
        let now = Instant::now();
        let free_at = &mut self.tables().services.turns_free_at;
        let turn = free_at.get(service).map_or(now, |free_at| now.max(*free_at));
        free_at.insert(service.to_owned(), turn + Duration::from_secs(1) / rate.get());
        Ok(turn - now)
    }

    async fn services(&self) -> Result<Vec<ServiceRecord>, StateError> {
        Ok(self.tables().services.records.values().cloned().collect())
    }
}
