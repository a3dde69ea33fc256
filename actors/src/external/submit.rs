//! Submits: work of a lease is sent to its service, under a key made of the fence.

use std::sync::Arc;

use parkhang_core::domain::{
    ErrorCategory, Expense, FailureKind, Fence, Job, ServiceJob, StageError, StageRun, StageVerdict, Task,
    Usage,
};
use parkhang_core::failpoint::Failpoint;
use parkhang_service::JobFailure;
use parkhang_state::StateError;
use parkhang_store::artifact::ArtifactLayout;
use tokio::sync::SemaphorePermit;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::before::Before;
use super::context::context;
use super::pages::{Unsubmitted, VolumePages};
use super::result::failed;
use super::{ExternalStages, ServedStage};
use crate::services::{FIRST_WRITE_PAUSE, StageService, WRITES};

/// Work that leaves for a service.
#[derive(Debug)]
pub(super) enum Request {
    Submit(Submission),
    /// The jobs of these leases are no longer wanted.
    Cancel(Arc<ServedStage>, Vec<Fence>),
}

/// Lease whose work is to be submitted. There is one of it at a time, until this is dropped.
#[derive(Debug)]
pub(super) struct Submission {
    served: Arc<ServedStage>,
    fence: Fence,
    /// True if it may have been submitted before, by a process that did not record it.
    is_resumed: bool,
}

impl ServedStage {
    /// Requests the submit of a lease, unless it is under way. Returns false if nobody carries out requests any more.
    pub(super) fn request(self: &Arc<Self>, fence: Fence, is_resumed: bool) -> bool {
        if !self.shared.under_way().insert(fence.clone()) {
            return true;
        }
        let submission = Submission {
            served: self.clone(),
            fence,
            is_resumed,
        };
        self.requests.send(Request::Submit(submission)).is_ok()
    }

    /// Expense of a lease, which has one submit however often that is transmitted.
    fn expense(&self, fence: &Fence, usage: Usage) -> Expense {
        Expense {
            fence: fence.clone(),
            service: self.stage.service.name.clone(),
            usage,
            cost: self.stage.price.times(usage.calls, 1),
        }
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        let shared = &self.served.shared;
        shared.under_way().remove(&self.fence);
        // Another one may have its turn.
        if shared.health.is_limited() {
            shared.health.announce();
        }
    }
}

/// End of a submit.
enum Submitted<'a> {
    /// The service has named the job. Its expense is to be written under the permit, as no more than that may go beyond a budget.
    Job(TakenJob, SemaphorePermit<'a>),
    /// The service may have taken the job, and knows no keys: its answers are waited for until the lease runs out, and nothing is sent.
    Awaited,
    /// Nothing was sent now, as the service takes nothing. Something may have been before.
    Nothing,
    /// Nothing was ever sent, as the job has spent its budget.
    Withheld,
    /// Nothing was ever sent, as the storage does not say what to send.
    Away(String),
    Failed(JobFailure),
}

/// Job that a service has taken for a lease.
#[derive(Debug)]
pub(super) struct TakenJob {
    /// Id that the service gave it.
    pub(super) id: String,
    /// Place at which the service writes its answers itself.
    pub(super) place: Option<String>,
    /// Use of the service by the submit of this lease; none where that of another one began the job.
    pub(super) usage: Usage,
}

/// Key of a submit: the same for each transmission of one lease, and no other.
pub(super) fn key(fence: &Fence) -> String {
    let Fence {
        task,
        stage,
        attempt,
        generation,
    } = fence;
    format!("{task}-{stage}-{attempt}-g{generation}")
}

impl ExternalStages {
    pub(super) async fn carry_out(&self, request: Request) {
        match request {
            Request::Submit(submission) => self.submit(submission).await,
            Request::Cancel(served, fences) => {
                for fence in &fences {
                    self.cancel(&served, fence).await;
                }
            }
        }
    }

    /// Tells the service once that the job of a lease is no longer wanted. Whatever it makes of that, the lease is over.
    async fn cancel(&self, served: &ServedStage, fence: &Fence) {
        let jobs = self
            .site
            .services
            .service_jobs(fence.task)
            .await
            .unwrap_or_default();
        let job = jobs.into_iter().find(|job| job.fence == *fence);
        if let Some(ServiceJob { job, .. }) = job
            && let Err(error) = served.stage.service.client.cancel(&job).await
        {
            debug!(job, %error, "the service was not told that a job is cancelled");
        }
    }

    /// Submits the work of a lease, and writes what became of that. What cannot be written is submitted again, under the same key.
    async fn submit(&self, submission: Submission) {
        let (fence, is_resumed) = (&submission.fence, submission.is_resumed);
        let knows_keys = submission.served.stage.service.client.knows_keys();
        let written = match self.send(&submission).await {
            Ok(Submitted::Job(job, permit)) => {
                let expense = submission.served.expense(fence, job.usage);
                self.record(&expense, job, permit).await;
                Ok(())
            }
            Ok(Submitted::Awaited) => Ok(()),
            // It may have the job already: under another key it would do the work twice.
            Ok(Submitted::Nothing) if is_resumed => Ok(()),
            Ok(Submitted::Failed(failure))
                if is_resumed && knows_keys && failure.kind == FailureKind::Retriable =>
            {
                debug!(task = %fence.task, stage = %fence.stage, error = failure.message, "submitted again later");
                Ok(())
            }
            Ok(Submitted::Nothing | Submitted::Withheld) => {
                self.report(fence, StageVerdict::Interrupted).await.map(drop)
            }
            Ok(Submitted::Away(reason)) => {
                let error = StageError::new(fence.stage.as_str(), ErrorCategory::Network, reason);
                self.report(fence, StageVerdict::Failed(error)).await.map(drop)
            }
            Ok(Submitted::Failed(failure)) => {
                let verdict = StageVerdict::Failed(failed(fence, &failure));
                self.report(fence, verdict).await.map(drop)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            warn!(task = %fence.task, stage = %fence.stage, %error, "what became of a submit is not written");
        }
    }

    /// False if it is certain that the job of a lease was not recorded meanwhile.
    async fn has_job(&self, fence: &Fence) -> bool {
        let jobs = self.site.services.service_jobs(fence.task).await;
        // A database that does not answer could not take the job either; the lease is found again.
        jobs.map_or(true, |jobs| jobs.iter().any(|job| job.fence == *fence))
    }

    async fn send<'a>(&self, submission: &'a Submission) -> Result<Submitted<'a>, StateError> {
        let Submission {
            served,
            fence,
            is_resumed,
        } = submission;
        let (service, health) = (&served.stage.service, &served.shared.health);
        // Never closed.
        let Ok(permit) = served.shared.submits.acquire().await else {
            return Ok(Submitted::Nothing);
        };
        health.turn().await;
        // Behind the permit, as there may be thousands of leases, and not as many connections to the database.
        if *is_resumed && self.has_job(fence).await {
            return Ok(Submitted::Nothing);
        }
        // A neighbour may just have found out that the service takes nothing.
        if !health.pause().is_zero() || !service.is_there(health).await {
            return Ok(Submitted::Nothing);
        }
        let store = &self.site.store;
        let task = store.task(fence.task).await?;
        let Some(task) = task.filter(|task| task.fence().as_ref() == Some(fence)) else {
            return Ok(Submitted::Nothing);
        };
        let Some(job) = store.job_by_id(task.job_id).await? else {
            return Ok(Submitted::Nothing);
        };
        let runs = store.stage_runs(task.id).await?;
        let request = self.request(service, &job, &task, fence, &runs).await;
        let (body, pages) = match request {
            Ok(request) => request,
            // A job that may have been submitted is not given up because the storage is away.
            Err(Unsubmitted::Outage(_)) if *is_resumed => return Ok(Submitted::Nothing),
            Err(Unsubmitted::Failed(failure)) if *is_resumed && failure.kind == FailureKind::Retriable => {
                return Ok(Submitted::Nothing);
            }
            Err(Unsubmitted::Outage(reason)) => return Ok(Submitted::Away(reason)),
            Err(Unsubmitted::Failed(failure)) => return Ok(Submitted::Failed(failure)),
        };
        // A submit that may have been sent before may be paid for already, and goes on.
        let is_first = self.site.services.intend_submit(fence, (self.site.now)()).await?;
        Failpoint::SubmitIntended.pass();
        if let Some(pages) = pages.as_ref().filter(|_| !(is_first && job.config.force)) {
            match self.before(served, fence, pages, is_first).await? {
                Before::Taken(job) => return Ok(Submitted::Job(job, permit)),
                Before::Unsaid => return Ok(Submitted::Nothing),
                Before::Unknown if !is_first => return Ok(Submitted::Awaited),
                Before::Unknown => {}
            }
        }
        if is_first && !store.spend(&served.expense(fence, Usage::default())).await? {
            return Ok(Submitted::Withheld);
        }
        let (usage, place) = match &pages {
            Some(pages) => (pages.usage(), Some(pages.place().to_owned())),
            None => (Usage::CALL, None),
        };
        Ok(match service.submit(health, &key(fence), body).await {
            Ok(id) => Submitted::Job(TakenJob { id, place, usage }, permit),
            Err(error) if !service.client.knows_keys() && error.leaves_open() => {
                warn!(task = %fence.task, stage = %fence.stage, %error, "whether the service has taken the work is not known");
                Submitted::Awaited
            }
            Err(error) if error.is_of_this_machine() => Submitted::Nothing,
            Err(error) => Submitted::Failed(service.retry.failure(error)),
        })
    }

    /// Body of a submit, and the pages where the service reads them.
    async fn request(
        &self,
        service: &StageService,
        job: &Job,
        task: &Task,
        fence: &Fence,
        runs: &[StageRun],
    ) -> Result<(String, Option<VolumePages>), Unsubmitted> {
        let Some(reader) = service.reader else {
            let context = context(&self.site, job, task, fence, runs);
            return Ok((service.body(&context)?, None));
        };
        let layout = ArtifactLayout::of(&job.config, &job.key).volume(&task.volume);
        let pages = VolumePages::of(&self.site, &layout, reader).await?;
        Ok((pages.body(), Some(pages)))
    }

    /// Writes the job of a lease, and tries again for a while. Without it the work is submitted again, under the same key. The permit is
    /// released as soon as the expense is written.
    async fn record(&self, expense: &Expense, taken: TakenJob, permit: SemaphorePermit<'_>) {
        let fence = &expense.fence;
        let job = ServiceJob {
            place: taken.place,
            ..ServiceJob::new(fence.clone(), taken.id, (self.site.now)())
        };
        let mut pause = FIRST_WRITE_PAUSE;
        let mut permit = Some(permit);
        for _ in 0..WRITES {
            // First, as a job that is recorded is not submitted again.
            let spent = self.site.store.spend(expense).await;
            let recorded = match spent {
                Ok(_) => {
                    drop(permit.take());
                    self.site.services.record_service_job(&job).await
                }
                Err(error) => Err(error),
            };
            match recorded {
                Ok(true) => return,
                Ok(false) => {
                    debug!(task = %fence.task, job = job.job, "the lease ended while its work was submitted");
                    return;
                }
                Err(error @ StateError::Deposed(_)) => {
                    debug!(%error, "the next leader submits it");
                    return;
                }
                Err(error) => warn!(%error, "the job of a service is not recorded now"),
            }
            sleep(pause).await;
            pause *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::testing::fence;
    use parkhang_core::domain::{Attempt, Generation};

    use super::*;

    #[test]
    fn a_key_is_of_one_lease() {
        let first = fence(7, "proofread");
        assert_eq!(key(&first), "7-proofread-1-g0");
        let again = Fence {
            attempt: Attempt(2),
            generation: Generation(3),
            ..first
        };
        assert_eq!(key(&again), "7-proofread-2-g3");
    }
}
