//! Inbox of queues: which messages of other programs asked for which volumes of a standing job.
//!
//! A message is taken in the transaction that adds its task, so it may be deleted from its queue from then on, and one that comes
//! again changes nothing, whenever it comes and however often: it is known by its id and not by its age.

use std::fmt;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use super::StateError;
use parkhang_core::domain::{DocumentKey, JobId, Task, TaskId, VolumeId};

/// Time for which a message is known after its request was settled. No queue keeps a message for longer than fourteen days.
pub(super) const KNOWN_FOR: TimeDelta = TimeDelta::days(15);

/// Request for a volume, made by a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRequest {
    /// Id of the message, which is the same however often it comes.
    pub message: String,
    pub volume: VolumeId,
    /// PDF that the volume's pages come from, which counts from now on; `None` leaves what is known of that.
    pub document: Option<DocumentKey>,
}

/// Effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The job has a task more.
    Added,
    /// The volume had failed for good and is done again.
    Retried,
    /// The job had the volume.
    Known,
    /// The message was taken before.
    Repeated,
}

/// Task for which there are open requests.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenRequests {
    pub task: Task,
    /// Version of the volume that its first stage has read last; `None` if it has read none, or its source has no versions.
    pub read: Option<String>,
    /// Time at which the last of the requests was taken.
    pub until: DateTime<Utc>,
}

/// Open requests that are answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    pub requests: OpenRequests,
    /// True if the volume is to be done again.
    pub again: bool,
}

/// Inbox of a state store.
///
/// # Errors
///
/// Every method may fail as those of [`StateStore`](super::StateStore) do, and may then be repeated.
#[async_trait]
pub trait Inbox: Send + Sync + fmt::Debug {
    /// Takes requests into a standing job, all or none, each message once; answers in their order. What follows from each is
    /// [`request::on_arrival`](parkhang_core::policy::request::on_arrival).
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`], [`StateError::NotStanding`], and those of every method.
    async fn take_in(
        &self,
        job: JobId,
        requests: &[VolumeRequest],
        now: DateTime<Utc>,
    ) -> Result<Vec<Taken>, StateError>;

    /// Returns tasks of the job for which there are open requests, in task order, behind `after` only, and so many at most.
    async fn open_requests(
        &self,
        job: JobId,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<OpenRequests>, StateError>;

    /// Closes requests, and in the same transaction sends those tasks back that are to be done again, and opens their job if it has
    /// ended. Requests for a task that has moved since it was read stay open. Returns the number of tasks that were sent back.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`], [`StateError::Forbidden`] if the job was cancelled, and those of every method.
    async fn settle(&self, job: JobId, settled: &[Settled], now: DateTime<Utc>) -> Result<u64, StateError>;
}
