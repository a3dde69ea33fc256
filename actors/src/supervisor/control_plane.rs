use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::pool::PoolHandle;
use crate::orchestrator::OrchestratorHandle;
use crate::stage::ExpenseRecorder;
use parkhang_core::domain::{
    Expense, Fence, LeaseRenewal, LeaseReport, RenewalReply, ReportReply, SpendReply, WorkerId,
};
use parkhang_core::policy::poison::ADVANCE;

/// Source of a node's work and receiver of its reports: the orchestrator of this process or of another node, or the dispatcher
/// of a node that takes its work itself.
#[async_trait]
pub trait ControlPlane: ExpenseRecorder + fmt::Debug {
    /// Registers a pool that is ready for work.
    fn register(&self, pool: PoolHandle);

    /// Takes a pool out of assignment; the stages that it runs keep their leases.
    fn suspend(&self, worker: WorkerId);

    /// Takes out a pool that is gone for good, and ends its leases.
    fn deregister(&self, worker: WorkerId);

    /// Reports the end of a lease. Returns when the verdict is in the store, or known to be stale; the pool repeats a report that
    /// was not recorded.
    async fn report(&self, report: LeaseReport) -> ReportReply;

    /// Renews leases. None is lost for the reason that nobody can be asked.
    async fn heartbeat(&self, worker: &WorkerId, renewals: Vec<LeaseRenewal>) -> RenewalReply;
}

/// Numbers of pages whose results stand, by lease, of those that have some.
pub(crate) fn progress_of(renewals: &[LeaseRenewal]) -> Vec<(Fence, i32)> {
    let of_lease = |renewal: &LeaseRenewal| {
        let progress = renewal.progress?;
        let pages = i32::try_from(progress.succeeded + progress.skipped).unwrap_or(i32::MAX);
        (pages >= ADVANCE).then(|| (renewal.fence.clone(), pages))
    };
    renewals.iter().filter_map(of_lease).collect()
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
        self.note_progress(progress_of(&renewals));
        let fences: Vec<Fence> = renewals.into_iter().map(|renewal| renewal.fence).collect();
        let statuses = Self::heartbeat(self, fences.clone()).await;
        RenewalReply::new(fences, statuses)
    }
}

#[async_trait]
impl ExpenseRecorder for OrchestratorHandle {
    async fn record_expense(&self, expense: &Expense) -> SpendReply {
        self.spend(expense).await
    }
}
