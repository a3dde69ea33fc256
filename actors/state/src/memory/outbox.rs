//! Outbox of the memory store.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::MemoryStore;
use super::tables::Tables;
use crate::backlog::waiting_for;
use crate::outbox::{Out, room};
use crate::{Outbox, Outgoing, StateError};
use parkhang_core::domain::{
    Fence, Job, JobStatus, MOST_IN_FRONT, Position, Publication, StageName, Task, TaskId,
};
use parkhang_core::policy::placement::next_fence;

/// Messages by task.
pub(super) type Messages = HashMap<TaskId, Message>;

/// Row of the outbox.
#[derive(Debug, Clone)]
pub(super) struct Message {
    fence: Fence,
    repetition: i32,
    not_before: Option<DateTime<Utc>>,
    published_at: Option<DateTime<Utc>>,
}

impl Message {
    fn fresh(fence: Fence) -> Self {
        Self {
            fence,
            repetition: 0,
            not_before: None,
            published_at: None,
        }
    }

    fn is_due(&self, now: DateTime<Utc>) -> bool {
        self.published_at.is_none() && self.not_before.is_none_or(|due| due <= now)
    }

    /// Sends it again, under another deduplication id.
    fn repeat(&mut self, not_before: Option<DateTime<Utc>>) {
        self.repetition += 1;
        self.not_before = not_before;
        self.published_at = None;
    }
}

impl Tables {
    /// Fence of the lease that a message stands for, if its task still waits for it at `now`.
    fn stands_for(&self, message: &Message, now: DateTime<Utc>) -> Option<(&Task, &Job)> {
        let task = self.tasks.get(&message.fence.task)?;
        let job = self.jobs.get(&task.job_id)?;
        (next_fence(task, job, now).as_ref() == Some(&message.fence)).then_some((task, job))
    }

    /// Messages of the stage that were sent and whose tasks still wait, due or not.
    fn waiting(&self, stage: &StageName) -> impl Iterator<Item = (DateTime<Utc>, &Task)> {
        let of_stage = self
            .outbox
            .values()
            .filter(|message| message.fence.stage == *stage);
        of_stage.filter_map(|message| {
            let (task, _) = self.stands_for(message, DateTime::<Utc>::MAX_UTC)?;
            Some((message.published_at?, task))
        })
    }

    /// Messages that are out, and leases.
    fn out(&self, now: DateTime<Utc>) -> Out {
        let mut out = Out::new();
        for task in self.tasks.values().filter(|task| task.lease.is_some()) {
            if let Position::At(stage) = &task.position {
                *out.entry((task.job_id, stage.clone())).or_default() += 1;
            }
        }
        for message in self.outbox.values() {
            if let Some((task, _)) = self.stands_for(message, now) {
                *out.entry((task.job_id, message.fence.stage.clone())).or_default() += 1;
            }
        }
        out
    }

    /// Tasks of the job that wait for the stage and have no message, in task order.
    fn without_message(&self, job: &Job, stage: &StageName, now: DateTime<Utc>) -> Vec<Fence> {
        let places = waiting_for(&job.pipeline, stage);
        let mut waiting: Vec<TaskId> = places
            .iter()
            .flat_map(|place| self.index.at(job.id, place))
            .collect();
        waiting.sort_unstable();
        let fences = waiting
            .iter()
            .filter_map(|id| next_fence(self.tasks.get(id)?, job, now));
        fences
            .filter(|fence| {
                self.outbox
                    .get(&fence.task)
                    .is_none_or(|message| message.fence != *fence)
            })
            .collect()
    }
}

#[async_trait]
impl Outbox for MemoryStore {
    async fn outgoing(
        &self,
        stages: &[StageName],
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Outgoing>, StateError> {
        let mut tables = self.tables();
        let jobs: Vec<_> = tables.running_jobs().cloned().collect();
        let mut out = tables.out(now);
        for stage in stages {
            for job in &jobs {
                let mut fences = tables.without_message(job, stage, now);
                fences.truncate(room(job, stage, &out, limit));
                *out.entry((job.id, stage.clone())).or_default() += fences.len();
                for fence in fences {
                    tables.outbox.insert(fence.task, Message::fresh(fence));
                }
            }
        }
        let due = tables.outbox.values().filter(|message| message.is_due(now));
        let mut outgoing: Vec<Outgoing> = due
            .filter(|message| stages.contains(&message.fence.stage))
            .filter_map(|message| {
                let (task, job) = tables.stands_for(message, now)?;
                jobs.iter().any(|running| running.id == job.id).then(|| Outgoing {
                    fence: message.fence.clone(),
                    repetition: message.repetition,
                    job: job.id,
                    job_key: job.key.clone(),
                    volume: task.volume.clone(),
                    // The store has no rows of volumes; a task has one volume.
                    volume_number: task.id.0,
                })
            })
            .collect();
        outgoing.sort_by_key(|message| message.fence.task);
        outgoing.truncate(limit.saturating_mul(stages.len()));
        Ok(outgoing)
    }

    async fn published(&self, sent: &[(Fence, i32)], now: DateTime<Utc>) -> Result<(), StateError> {
        let mut tables = self.tables();
        for (fence, repetition) in sent {
            let message = tables.outbox.get_mut(&fence.task);
            if let Some(message) = message
                && (&message.fence, message.repetition) == (fence, *repetition)
            {
                message.published_at = Some(now);
            }
        }
        Ok(())
    }

    async fn withdraw(&self, fences: &[Fence], until: DateTime<Utc>) -> Result<(), StateError> {
        let mut tables = self.tables();
        for fence in fences {
            let message = tables.outbox.get_mut(&fence.task);
            if let Some(message) = message
                && message.fence == *fence
                && message.published_at.is_some()
            {
                message.repeat(Some(until));
            }
        }
        Ok(())
    }

    async fn republish(&self, stage: &StageName, before: DateTime<Utc>) -> Result<u64, StateError> {
        let mut tables = self.tables();
        let lost: Vec<TaskId> = tables
            .outbox
            .values()
            .filter(|message| message.fence.stage == *stage)
            .filter(|message| message.published_at.is_some_and(|at| at < before))
            .filter(|message| tables.stands_for(message, DateTime::<Utc>::MAX_UTC).is_some())
            .map(|message| message.fence.task)
            .collect();
        for id in &lost {
            if let Some(message) = tables.outbox.get_mut(id) {
                message.repeat(None);
            }
        }
        Ok(lost.len() as u64)
    }

    async fn publication(
        &self,
        job: &Job,
        fence: &Fence,
        now: DateTime<Utc>,
    ) -> Result<Publication, StateError> {
        let tables = self.tables();
        let own = tables
            .outbox
            .get(&fence.task)
            .filter(|message| message.fence == *fence);
        let Some(at) = own.and_then(|message| message.published_at) else {
            return Ok(Publication::Unsent {
                due: own.and_then(|message| message.not_before),
                has_room: own.is_some() || room(job, &fence.stage, &tables.out(now), 1) > 0,
            });
        };
        let in_front = tables
            .waiting(&fence.stage)
            .filter(|(sent, task)| (*sent, task.id) < (at, fence.task))
            .take(usize::try_from(MOST_IN_FRONT).unwrap_or(usize::MAX))
            .count() as u64;
        Ok(Publication::Sent { at, in_front })
    }

    async fn oldest(&self, stages: &[StageName]) -> Result<BTreeMap<StageName, DateTime<Utc>>, StateError> {
        let tables = self.tables();
        let is_wanted = |task: &Task| {
            let job = tables.jobs.get(&task.job_id);
            job.is_some_and(|job| job.status == JobStatus::Running)
        };
        let oldest = stages.iter().filter_map(|stage| {
            let waiting = tables.waiting(stage).filter(|(_, task)| is_wanted(task));
            Some((stage.clone(), waiting.map(|(sent, _)| sent).min()?))
        });
        Ok(oldest.collect())
    }

    async fn forget_done(&self, stage: &StageName, before: DateTime<Utc>) -> Result<u64, StateError> {
        let mut tables = self.tables();
        let done: Vec<TaskId> = tables
            .outbox
            .values()
            .filter(|message| message.fence.stage == *stage)
            .filter(|message| message.published_at.is_some_and(|at| at < before))
            .map(|message| message.fence.task)
            .filter(|task| {
                let task = tables.tasks.get(task);
                task.is_some_and(|task| task.position == Position::Done)
            })
            .collect();
        for task in &done {
            tables.outbox.remove(task);
        }
        Ok(done.len() as u64)
    }
}
