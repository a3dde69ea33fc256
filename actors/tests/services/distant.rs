//! Store of services at the distance of a database.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parkhang_core::domain::{
    Fence, ServiceJob, ServiceLease, ServiceMessage, ServiceRecord, TaskId, WorkerId,
};
use parkhang_state::{MemoryStore, ServiceStore, StateError};
use tokio::time::sleep;

/// Time that each request to a store takes.
pub(crate) const STORE: Duration = Duration::from_millis(30);
/// Time that a leader takes to find out how the services are doing.
const TAKEOVER: Duration = Duration::from_millis(200);

/// Services in the store, at the distance of a database: whoever asks may die before and behind the effect.
#[derive(Debug)]
pub(crate) struct DistantServices {
    store: Arc<MemoryStore>,
    /// Reads of how the services are doing that fail before one succeeds.
    failing_reads: AtomicUsize,
}

impl DistantServices {
    pub(crate) fn new(store: Arc<MemoryStore>) -> Self {
        Self::failing(store, 0)
    }

    /// Services whose first reads of how they are doing fail.
    pub(crate) fn failing(store: Arc<MemoryStore>, reads: usize) -> Self {
        Self {
            store,
            failing_reads: AtomicUsize::new(reads),
        }
    }

    /// Returns the number of reads that are yet to fail.
    pub(crate) fn yet_to_fail(&self) -> usize {
        self.failing_reads.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ServiceStore for DistantServices {
    async fn intend_submit(&self, lease: &Fence, at: DateTime<Utc>) -> Result<bool, StateError> {
        sleep(STORE).await;
        let intended = self.store.intend_submit(lease, at).await;
        sleep(STORE).await;
        intended
    }

    async fn record_service_job(&self, job: &ServiceJob) -> Result<bool, StateError> {
        sleep(STORE).await;
        let recorded = self.store.record_service_job(job).await;
        sleep(STORE).await;
        recorded
    }

    async fn service_leases(
        &self,
        worker: &WorkerId,
        begun_by: DateTime<Utc>,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<ServiceLease>, StateError> {
        sleep(STORE).await;
        self.store.service_leases(worker, begun_by, after, limit).await
    }

    async fn service_jobs(&self, task: TaskId) -> Result<Vec<ServiceJob>, StateError> {
        sleep(STORE).await;
        self.store.service_jobs(task).await
    }

    async fn note_polls(&self, leases: &[Fence], at: DateTime<Utc>) -> Result<(), StateError> {
        sleep(STORE).await;
        self.store.note_polls(leases, at).await
    }

    async fn note_message(&self, lease: &Fence, at: DateTime<Utc>) -> Result<(), StateError> {
        sleep(STORE).await;
        self.store.note_message(lease, at).await
    }

    async fn keep_message(&self, message: &ServiceMessage) -> Result<(), StateError> {
        sleep(STORE).await;
        self.store.keep_message(message).await
    }

    async fn kept_messages(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<(i64, ServiceMessage)>, StateError> {
        sleep(STORE).await;
        self.store.kept_messages(after, limit).await
    }

    async fn drop_messages(&self, numbers: &[i64]) -> Result<(), StateError> {
        sleep(STORE).await;
        self.store.drop_messages(numbers).await
    }

    async fn record_service(&self, record: &ServiceRecord) -> Result<(), StateError> {
        sleep(STORE).await;
        self.store.record_service(record).await
    }

    async fn take_turn(&self, service: &str, rate: NonZeroU32) -> Result<Duration, StateError> {
        sleep(STORE).await;
        self.store.take_turn(service, rate).await
    }

    async fn services(&self) -> Result<Vec<ServiceRecord>, StateError> {
        sleep(TAKEOVER).await;
        let one_less = |left: usize| left.checked_sub(1);
        let failing = self
            .failing_reads
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        match failing {
            Ok(_) => Err(StateError::Unavailable("no route to host".to_owned())),
            Err(_) => self.store.services().await,
        }
    }
}
