//! The dispatcher as the pools of its node see it.

use async_trait::async_trait;
use tracing::warn;

use super::{Dispatcher, DispatcherMsg};
use crate::source::member::PoolHeartbeat;
use crate::stage::ExpenseRecorder;
use crate::supervisor::{ControlPlane, PoolHandle, progress_of};
use parkhang_core::domain::{
    Expense, Fence, LeaseRenewal, LeaseReport, RenewalReply, ReportReply, SpendReply, WorkerId,
};

#[async_trait]
impl ControlPlane for Dispatcher {
    fn register(&self, pool: PoolHandle) {
        self.send(DispatcherMsg::Register(pool));
    }

    fn suspend(&self, worker: WorkerId) {
        self.send(DispatcherMsg::Suspend(worker));
    }

    fn deregister(&self, worker: WorkerId) {
        self.send(DispatcherMsg::Deregister(worker));
    }

    async fn report(&self, report: LeaseReport) -> ReportReply {
        let fence = report.fence.clone();
        match self.source.complete(report).await {
            Ok(answer) => {
                self.send(DispatcherMsg::Ended(vec![fence]));
                answer
            }
            Err(error) => {
                warn!(task = %fence.task, stage = %fence.stage, %error, "cannot record a report now");
                ReportReply::Unrecorded
            }
        }
    }

    async fn heartbeat(&self, worker: &WorkerId, renewals: Vec<LeaseRenewal>) -> RenewalReply {
        let heartbeat = PoolHeartbeat::of(&renewals);
        let finished = progress_of(&renewals);
        let fences: Vec<Fence> = renewals.into_iter().map(|renewal| renewal.fence).collect();
        let statuses = match self.source.renew(&fences).await {
            Ok(statuses) => statuses,
            // None is lost for certain, so no stage is stopped.
            Err(error) => {
                warn!(%worker, %error, "cannot renew leases now");
                return RenewalReply::default();
            }
        };
        if !finished.is_empty() {
            self.source.note_progress(&finished).await;
        }
        self.send(DispatcherMsg::Heartbeat(worker.clone(), heartbeat));
        let renewal = RenewalReply::new(fences, statuses);
        if !renewal.lost.is_empty() {
            self.send(DispatcherMsg::Ended(renewal.lost.clone()));
        }
        renewal
    }
}

#[async_trait]
impl ExpenseRecorder for Dispatcher {
    async fn record_expense(&self, expense: &Expense) -> SpendReply {
        self.source.spend(expense).await
    }
}
