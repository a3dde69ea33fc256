//! Outbox of the memory store.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::MemoryStore;
use super::tables::Tables;
use crate::backlog::waiting_for;
use crate::outbox::{Out, room};
use crate::{Outbox, Outgoing, StateError};
use parkhang_core::domain::{Fence, Job, Position, StageName, Task, TaskId};
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
}
