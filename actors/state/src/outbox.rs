//! Outbox of queues: which tasks are to be published, and which have been.
//!
//! A task that may begin a stage is itself the durable intention to publish it, written in the transaction that made it so; the
//! outbox adds which message stands for it. So there is no moment at which a task is runnable and nothing says that it has to be
//! published, and no code path that makes tasks runnable has to know of queues.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StateError;
use parkhang_core::domain::{Fence, Job, JobId, JobKey, Publication, StageName, VolumeId};

/// Message that is to be sent, or was sent, for the next lease of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Fence of the lease that a worker gets by the message.
    pub fence: Fence,
    /// Number of deliberate repetitions so far.
    pub repetition: i32,
    pub job: JobId,
    pub job_key: JobKey,
    pub volume: VolumeId,
    /// Number of the volume's row.
    pub volume_number: i64,
}

/// Outbox of a state store.
///
/// # Errors
///
/// Every method may fail as those of [`StateStore`](super::StateStore) do, and may then be repeated.
#[async_trait]
pub trait Outbox: Send + Sync + fmt::Debug {
    /// Writes the intention to publish tasks of running jobs that may begin one of the stages at `now`, and returns what is to be
    /// sent: these, and what an earlier call returned and [`published`](Self::published) was not told of. At most `limit` of each
    /// stage, in task order. A job that limits its running tasks has no more messages out than its limit has room for.
    async fn outgoing(
        &self,
        stages: &[StageName],
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Outgoing>, StateError>;

    /// Notes that these were sent. One whose task has moved on meanwhile is left alone.
    async fn published(&self, sent: &[(Fence, i32)], now: DateTime<Utc>) -> Result<(), StateError>;

    /// Withdraws messages that nobody could work on: each is published again from `until` on, if its task still waits then.
    async fn withdraw(&self, fences: &[Fence], until: DateTime<Utc>) -> Result<(), StateError>;

    /// Lets messages of a stage be sent again that were published before `before` and whose tasks still wait; returns their number.
    /// For a queue that has lost its messages: one that still has them would have them twice, which costs a receive and no more.
    async fn republish(&self, stage: &StageName, before: DateTime<Utc>) -> Result<u64, StateError>;

    /// Returns the state of the message for the next lease of a task of the job, which waits.
    async fn publication(
        &self,
        job: &Job,
        fence: &Fence,
        now: DateTime<Utc>,
    ) -> Result<Publication, StateError>;

    /// Returns the times at which the oldest messages of stages were published whose tasks still wait and whose jobs run. Stages
    /// without one are left out.
    async fn oldest(&self, stages: &[StageName]) -> Result<BTreeMap<StageName, DateTime<Utc>>, StateError>;

    /// Drops messages of a stage that were published before `before` and whose tasks are done, so that the next look for the
    /// [`oldest`](Self::oldest) does not go over them; returns their number.
    async fn forget_done(&self, stage: &StageName, before: DateTime<Utc>) -> Result<u64, StateError>;
}

/// Numbers of messages that are out and of leases in force, by job and stage.
pub(super) type Out = HashMap<(JobId, StageName), usize>;

/// Number of further messages for a stage of a job that may be out, at most `limit`.
pub(super) fn room(job: &Job, stage: &StageName, out: &Out, limit: usize) -> usize {
    let of_job = out.iter().filter(|((id, _), _)| *id == job.id);
    let (in_all, here) = of_job.fold((0, 0), |(in_all, here), ((_, at), count)| {
        (in_all + count, here + if at == stage { *count } else { 0 })
    });
    // 0 is no limit.
    let left = |most: usize, now: usize| {
        if most == 0 {
            usize::MAX
        } else {
            most.saturating_sub(now)
        }
    };
    limit
        .min(left(job.config.max_running, in_all))
        .min(left(job.config.max_running_per_stage, here))
}
