use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::pool::PoolHandle;
use crate::orchestrator::OrchestratorHandle;
use parkhang_core::domain::{Fence, LeaseRenewal, LeaseReport, RenewalReply, ReportReply, WorkerId};

/// Whoever gives a node its work and hears what became of it: the orchestrator of this process, or of another node.
#[async_trait]
pub trait ControlPlane: Send + Sync + fmt::Debug {
    /// The pool is ready for work.
    fn register(&self, pool: PoolHandle);

    /// The pool takes no more work; what it holds keeps its leases.
    fn suspend(&self, worker: WorkerId);

    /// The pool is gone for good; its leases end.
    fn deregister(&self, worker: WorkerId);

    /// Returns when the verdict is in the database, or known to be stale. The pool repeats what was not recorded.
    async fn report(&self, report: LeaseReport) -> ReportReply;

    /// Renews leases. When nobody can be asked, none is lost.
    async fn heartbeat(&self, worker: &WorkerId, renewals: Vec<LeaseRenewal>) -> RenewalReply;
}

#[async_trait]
impl ControlPlane for OrchestratorHandle {
    fn register(&self, pool: PoolHandle) {
        Self::register(self, Arc::new(pool));
    }

    fn suspend(&self, worker: WorkerId) {
        Self::suspend(self, worker);
    }

    fn deregister(&self, worker: WorkerId) {
        Self::deregister(self, worker);
    }

    async fn report(&self, report: LeaseReport) -> ReportReply {
        Self::report(self, report).await
    }

    async fn heartbeat(&self, _: &WorkerId, renewals: Vec<LeaseRenewal>) -> RenewalReply {
        let fences: Vec<Fence> = renewals.into_iter().map(|renewal| renewal.fence).collect();
        let statuses = Self::heartbeat(self, fences.clone()).await;
        RenewalReply::new(fences, statuses)
    }
}
