use std::sync::Arc;

use super::joined::Joined;
use super::reach::Reach;
use super::reports::Reports;
use super::{Claim, Clock, SourceError, WorkSource};
use crate::orchestrator::spend_in;
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use parkhang_core::domain::{Assignment, Expense, Fence, LeaseReport, LeaseStatus, ReportReply, SpendReply};
use parkhang_core::policy::claim::Offer;
use parkhang_core::policy::poison::is_suspect;
use parkhang_state::{ClaimRequest, StateStore};
use tracing::debug;

/// Source of work straight from the state store: workers lease tasks for themselves, and no orchestrator is needed. One that is
/// there does the same to the same rows, and each is fenced off where the other was first.
#[derive(Debug)]
pub struct StateClaims {
    store: Arc<dyn StateStore>,
    clock: Arc<dyn Clock>,
    lease: TimeDelta,
    max_interruptions: i32,
    reports: Joined<Reports>,
    reach: Reach,
}

impl StateClaims {
    /// A source whose leases last for `lease` by `clock` unless they are renewed; a volume that loses `max_interruptions` in a
    /// row is set aside. The clock has to be the same for all that lease from the store: [`StoreClock`](super::StoreClock).
    pub fn new(
        store: Arc<dyn StateStore>,
        clock: Arc<dyn Clock>,
        lease: TimeDelta,
        max_interruptions: i32,
    ) -> Self {
        Self {
            reports: Joined::new(Reports::new(store.clone(), clock.clone(), max_interruptions)),
            store,
            clock,
            lease,
            max_interruptions,
            reach: Reach::default(),
        }
    }

    /// Time of the clock, and whether leases that have run out may be ended.
    pub(super) async fn now(&self) -> Result<(DateTime<Utc>, bool), SourceError> {
        let now = self.reach.heard(self.clock.now().await)?;
        Ok((now, self.reach.may_end(now, self.lease)))
    }
}

#[async_trait]
impl WorkSource for StateClaims {
    async fn claim(&self, offers: &[Offer]) -> Result<Vec<Claim>, SourceError> {
        let (now, ends_leases) = self.now().await?;
        let request = ClaimRequest {
            offers: offers.to_vec(),
            until: now + self.lease,
            max_interruptions: self.max_interruptions,
            ends_leases,
        };
        let claimed = self.reach.heard(self.store.claim(&request, now).await)?;
        if claimed.is_empty() {
            // The node that recorded a job's last task may have died before it finished the job.
            self.store.finish_jobs(now).await?;
        }
        let claims = claimed.into_iter().filter_map(|(task, job)| {
            let worker = task.lease.as_ref()?.worker.clone();
            let alone = is_suspect(&task);
            let assignment = Assignment::of(task, &job)?;
            Some(Claim {
                worker,
                assignment,
                lasts: self.lease,
                alone,
            })
        });
        Ok(claims.collect())
    }

    async fn renew(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError> {
        let until = self.reach.heard(self.clock.now().await)? + self.lease;
        let renewed = self.store.renew_leases(fences, until).await;
        Ok(self.reach.heard(renewed)?)
    }

    async fn note_progress(&self, finished: &[(Fence, i32)]) {
        if let Err(error) = self.store.note_progress(finished).await {
            debug!(%error, "cannot note the progress of volumes now; their next heartbeats tell it");
        }
    }

    async fn complete(&self, report: LeaseReport) -> Result<ReportReply, SourceError> {
        let reply = self.reports.ask(report).await.ok_or(SourceError::ReportEnded)?;
        self.reach.heard(reply)
    }

    async fn spend(&self, expense: &Expense) -> SpendReply {
        spend_in(&*self.store, expense).await
    }
}
