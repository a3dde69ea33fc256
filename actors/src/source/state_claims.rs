use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use tracing::{debug, info, warn};

use super::{Claim, Clock, SourceError, WorkSource};
use crate::telemetry::TaskReported;
use parkhang_core::domain::{Assignment, Fence, JobStatus, LeaseReport, LeaseStatus, ReportReply};
use parkhang_core::policy::claim::Offer;
use parkhang_core::policy::placement::due_stage;
use parkhang_core::policy::poison::is_suspect;
use parkhang_core::policy::transition::is_finished;
use parkhang_state::{ClaimRequest, Outcome, StateStore, change_for};

/// Source of work straight from the state store: workers lease tasks for themselves, and no orchestrator is needed. One that is
/// there does the same to the same rows, and each is fenced off where the other was first.
#[derive(Debug)]
pub struct StateClaims {
    store: Arc<dyn StateStore>,
    clock: Arc<dyn Clock>,
    lease: TimeDelta,
    max_interruptions: i32,
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
            store,
            clock,
            lease,
            max_interruptions,
        }
    }
}

#[async_trait]
impl WorkSource for StateClaims {
    async fn claim(&self, offers: &[Offer]) -> Result<Vec<Claim>, SourceError> {
        let now = self.clock.now().await?;
        let request = ClaimRequest {
            offers: offers.to_vec(),
            until: now + self.lease,
            max_interruptions: self.max_interruptions,
        };
        let claimed = self.store.claim(&request, now).await?;
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
        let until = self.clock.now().await? + self.lease;
        Ok(self.store.renew_leases(fences, until).await?)
    }

    async fn complete(&self, report: LeaseReport) -> Result<ReportReply, SourceError> {
        let now = self.clock.now().await?;
        let fence = report.fence.clone();
        let jitter = rand::random_range(-1.0..=1.0);
        let change = change_for(&*self.store, report, self.max_interruptions, jitter, now).await?;
        let outcome = self.store.commit(&[change], now).await?.pop();
        let task = match outcome {
            Some(Outcome::Applied(task)) => task,
            Some(Outcome::Illegal(reason)) => {
                warn!(task = %fence.task, reason, "a report asked for an illegal transition");
                return Ok(ReportReply::Fenced);
            }
            Some(Outcome::Fenced(_)) | None => {
                info!(task = %fence.task, stage = %fence.stage, "a stale report changed nothing");
                return Ok(ReportReply::Fenced);
            }
        };
        TaskReported(&task).emit();
        // The job was deleted since the report was recorded, and nobody waits for its end.
        let Some(job) = self.store.job_by_id(task.job_id).await? else {
            return Ok(ReportReply::Recorded);
        };
        if is_finished(&task, job.config.retry_scope) {
            for job in self.store.finish_jobs(now).await? {
                info!(job = %job.key, status = job.status.as_str(), "job finished");
            }
        } else if job.status == JobStatus::Running
            && let Some(stage) = due_stage(&task, &job, now)
            && let Err(error) = self.store.announce_work(stage).await
        {
            debug!(%error, "cannot announce a runnable task; nodes find it with their next poll");
        }
        Ok(ReportReply::Recorded)
    }
}
