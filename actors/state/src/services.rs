//! Services that do stages: the jobs that they have taken for leases, and how they are doing.
//!
//! Between a submit and its record a process may die. The lease stands then and has no job, so the next leader submits it again, with the
//! same key, and the service answers with the job that it has.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::StateError;
use parkhang_core::domain::{
    Fence, ServiceJob, ServiceLease, ServiceMessage, ServiceRecord, TaskId, WorkerId,
};

/// Part of a state store that remembers what services have in hand.
///
/// # Errors
///
/// Every method may fail as those of [`StateStore`](super::StateStore) do, and may then be repeated.
#[async_trait]
pub trait ServiceStore: Send + Sync + fmt::Debug {
    /// Writes that the work of a lease is about to be sent to its service. Returns true the first time: nothing was sent before.
    ///
    /// # Errors
    ///
    /// [`StateError::Deposed`] if the store belongs to a leader that was replaced, and those of every method.
    async fn intend_submit(&self, lease: &Fence, at: DateTime<Utc>) -> Result<bool, StateError>;

    /// Writes the job of a lease, also of one that is over and by a leader that was replaced: what a service has taken stays known. Returns
    /// true if the lease is in force and this is its job. The first job that is written stays, unless the id of this one
    /// [continues](ServiceJob::continues) that of the other.
    async fn record_service_job(&self, job: &ServiceJob) -> Result<bool, StateError>;

    /// Returns leases of a service at a stage, in task order: those that have no job, and those of the others that began by then; those
    /// behind `after` only, and so many at most.
    async fn service_leases(
        &self,
        worker: &WorkerId,
        begun_by: DateTime<Utc>,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<ServiceLease>, StateError>;

    /// Returns the jobs that services have had for a task, in the order in which they were submitted.
    async fn service_jobs(&self, task: TaskId) -> Result<Vec<ServiceJob>, StateError>;

    /// Notes that a service was asked about the jobs of these leases.
    async fn note_polls(&self, leases: &[Fence], at: DateTime<Utc>) -> Result<(), StateError>;

    /// Notes that a service has told of the job of a lease by itself; the first time stays.
    async fn note_message(&self, lease: &Fence, at: DateTime<Utc>) -> Result<(), StateError>;

    /// Keeps a message for the leader; a repetition of one that is there is none.
    async fn keep_message(&self, message: &ServiceMessage) -> Result<(), StateError>;

    /// Returns the first messages that are kept, each with its number, in the order in which they came.
    async fn kept_messages(&self, after: i64, limit: usize)
    -> Result<Vec<(i64, ServiceMessage)>, StateError>;

    /// Deletes messages that are carried out.
    async fn drop_messages(&self, numbers: &[i64]) -> Result<(), StateError>;

    /// Writes how a service is doing, in place of what was written before.
    ///
    /// # Errors
    ///
    /// [`StateError::Deposed`] if the store belongs to a leader that was replaced, and those of every method.
    async fn record_service(&self, record: &ServiceRecord) -> Result<(), StateError>;

    /// Takes the next turn of a submit to a service, of which all who ask together have `rate` in a second. Returns the time until then.
    async fn take_turn(&self, service: &str, rate: NonZeroU32) -> Result<Duration, StateError>;

    /// Returns how the services are doing, by name.
    async fn services(&self) -> Result<Vec<ServiceRecord>, StateError>;
}
