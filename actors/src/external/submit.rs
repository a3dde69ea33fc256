//! Submits: work of a lease is sent to its service, under a key made of the fence.

use std::sync::Arc;
use std::time::Duration;

use parkhang_core::domain::{
    ErrorCategory, Expense, FailureKind, Fence, Job, ServiceJob, StageError, StageRun, StageVerdict, Task,
    Usage,
};
use parkhang_core::failpoint::Failpoint;
use parkhang_service::JobFailure;
use parkhang_state::StateError;
use parkhang_store::artifact::ArtifactLayout;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tracing::{debug, error, warn};

use super::before::Before;
use super::context::context;
use super::pages::{Unsubmitted, VolumePages};
use super::result::failed;
use super::{ExternalStages, ServedStage};
use crate::services::{FIRST_WRITE_PAUSE, StageService, WRITES};

/// Longest pause between tries to write a job that is known from one answer alone.
const LONGEST_WRITE_PAUSE: Duration = Duration::from_secs(5);

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
        if !self.shared.begin(&fence) {
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
        shared.end(&self.fence);
        // Another one may have its turn.
        if shared.health.is_limited() {
            shared.health.announce();
        }
    }
}

/// End of a submit.
enum Submitted {
    /// The service has named the job, and that is written.
    Recorded,
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

/// Work of a lease as it is sent.
struct Outgoing {
    /// Bodies, of which each begins a part of the job.
    parts: Vec<String>,
    place: Option<String>,
    usage: Usage,
    /// Right to submit. The expense is written under it, as no more than that may go beyond a budget.
    permit: OwnedSemaphorePermit,
}

enum Prepared {
    Outgoing(Outgoing),
    /// Nothing is to be sent.
    Not(Submitted),
}

/// Job that a service has taken for a lease.
#[derive(Debug)]
pub(super) struct TakenJob {
    /// Id that the service gave it, or those of its parts.
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
    pub(super) async fn carry_out(self: &Arc<Self>, request: Request) {
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
        // The answer to its submit may still be awaited.
        served.shared.until(|under_way| !under_way.contains(fence)).await;
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
    async fn submit(self: &Arc<Self>, submission: Submission) {
        let submission = Arc::new(submission);
        let (fence, is_resumed) = (&submission.fence, submission.is_resumed);
        let knows_keys = submission.served.stage.service.client.knows_keys();
        let submitted = match self.prepare(&submission).await {
            Ok(Prepared::Outgoing(outgoing)) => {
                let transmitted = self.clone().transmit(submission.clone(), outgoing);
                if knows_keys {
                    Ok(transmitted.await)
                } else {
                    // Nobody else could hear of the job, whoever leads by then.
                    Ok(self.keyless.spawn(transmitted).await.unwrap_or_else(|panic| {
                        error!(task = %fence.task, %panic, "a submit ended early");
                        Submitted::Awaited
                    }))
                }
            }
            Ok(Prepared::Not(submitted)) => Ok(submitted),
            Err(error) => Err(error),
        };
        let written = match submitted {
            Ok(Submitted::Recorded | Submitted::Awaited) => Ok(()),
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

    /// Finds out what is to be sent for a lease, and writes that it will be.
    async fn prepare(&self, submission: &Submission) -> Result<Prepared, StateError> {
        let Submission {
            served,
            fence,
            is_resumed,
        } = submission;
        let (service, health) = (&served.stage.service, &served.shared.health);
        if !service.client.knows_keys() {
            // The job of an earlier lease may have the same work in hand, and its name is on the way.
            let is_before = |other: &Fence| {
                let age = |fence: &Fence| (fence.generation, fence.attempt);
                (other.task, &other.stage) == (fence.task, &fence.stage) && age(other) < age(fence)
            };
            served
                .shared
                .until(|under_way| !under_way.iter().any(is_before))
                .await;
        }
        let nothing = Ok(Prepared::Not(Submitted::Nothing));
        // Never closed.
        let Ok(permit) = served.shared.submits.clone().acquire_owned().await else {
            return nothing;
        };
        health.turn().await;
        // Behind the permit, as there may be thousands of leases, and not as many connections to the database.
        if *is_resumed && self.has_job(fence).await {
            return nothing;
        }
        // A neighbour may just have found out that the service takes nothing.
        if !health.pause().is_zero() || !service.is_there(health).await {
            return nothing;
        }
        let store = &self.site.store;
        let task = store.task(fence.task).await?;
        let Some(task) = task.filter(|task| task.fence().as_ref() == Some(fence)) else {
            return nothing;
        };
        let Some(job) = store.job_by_id(task.job_id).await? else {
            return nothing;
        };
        let runs = store.stage_runs(task.id).await?;
        let request = self.request(service, &job, &task, fence, &runs).await;
        let (body, pages) = match request {
            Ok(request) => request,
            // A job that may have been submitted is not given up because the storage is away.
            Err(Unsubmitted::Outage(_)) if *is_resumed => return nothing,
            Err(Unsubmitted::Failed(failure)) if *is_resumed && failure.kind == FailureKind::Retriable => {
                return nothing;
            }
            Err(Unsubmitted::Outage(reason)) => return Ok(Prepared::Not(Submitted::Away(reason))),
            Err(Unsubmitted::Failed(failure)) => return Ok(Prepared::Not(Submitted::Failed(failure))),
        };
        let parts = match service.client.parts(body) {
            Ok(parts) => parts,
            Err(error) => return Ok(Prepared::Not(Submitted::Failed(service.retry.failure(error)))),
        };
        // A submit that may have been sent before may be paid for already, and goes on.
        let is_first = self.site.services.intend_submit(fence, (self.site.now)()).await?;
        Failpoint::SubmitIntended.pass();
        if let Some(pages) = pages.as_ref().filter(|_| !(is_first && job.config.force)) {
            match self.before(served, fence, pages, is_first).await? {
                Before::Taken(job) => {
                    self.record(served, fence, &job, permit).await;
                    return Ok(Prepared::Not(Submitted::Recorded));
                }
                Before::Unsaid => return nothing,
                Before::Unknown if !is_first => return Ok(Prepared::Not(Submitted::Awaited)),
                Before::Unknown => {}
            }
        }
        if is_first && !store.spend(&served.expense(fence, Usage::default())).await? {
            return Ok(Prepared::Not(Submitted::Withheld));
        }
        let (usage, place) = match &pages {
            Some(pages) => (pages.usage(), Some(pages.place().to_owned())),
            None => (Usage::CALL, None),
        };
        Ok(Prepared::Outgoing(Outgoing {
            parts,
            place,
            usage,
            permit,
        }))
    }

    /// Sends the work of a lease, and writes each part of the job as soon as it has a name.
    async fn transmit(self: Arc<Self>, submission: Arc<Submission>, outgoing: Outgoing) -> Submitted {
        let Submission { served, fence, .. } = &*submission;
        let (service, health) = (&served.stage.service, &served.shared.health);
        let Outgoing {
            parts,
            place,
            usage,
            permit,
        } = outgoing;
        let mut permit = Some(permit);
        let mut taken: Option<TakenJob> = None;
        for part in parts {
            match (service.submit(health, &key(fence), part).await, &mut taken) {
                (Ok(id), Some(taken)) => taken.id = format!("{} {id}", taken.id),
                (Ok(id), None) => {
                    let place = place.clone();
                    taken = Some(TakenJob { id, place, usage });
                }
                // What was taken is paid for. The pages of this part are asked for again alone, as those that fail are.
                (Err(error), Some(_)) => {
                    warn!(task = %fence.task, %error, "a part of a job could not be begun beside others");
                    continue;
                }
                (Err(error), None) if !service.client.knows_keys() && error.leaves_open() => {
                    warn!(task = %fence.task, stage = %fence.stage, %error, "whether the service has taken the work is not known");
                    return Submitted::Awaited;
                }
                (Err(error), None) if error.is_of_this_machine() => return Submitted::Nothing,
                (Err(error), None) => return Submitted::Failed(service.retry.failure(error)),
            }
            if let Some(taken) = &taken
                && !self.record(served, fence, taken, permit.take()).await
            {
                break;
            }
        }
        Submitted::Recorded
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

    /// Writes the job of a lease, and tries again for a while, or as long as this process lives if the service knows no keys: without it
    /// the work would be submitted again. The permit is released as soon as the expense is written. Returns whether the lease is in force.
    async fn record(
        &self,
        served: &ServedStage,
        fence: &Fence,
        taken: &TakenJob,
        permit: impl Into<Option<OwnedSemaphorePermit>>,
    ) -> bool {
        let expense = served.expense(fence, taken.usage);
        let job = ServiceJob {
            place: taken.place.clone(),
            ..ServiceJob::new(fence.clone(), taken.id.as_str(), (self.site.now)())
        };
        let may_give_up = served.stage.service.client.knows_keys();
        let mut permit: Option<OwnedSemaphorePermit> = permit.into();
        let (mut pause, mut writes) = (FIRST_WRITE_PAUSE, 0);
        loop {
            // First, as a job that is recorded is not submitted again.
            let spent = self.site.store.spend(&expense).await;
            let recorded = match spent {
                Ok(_) => {
                    drop(permit.take());
                    self.site.services.record_service_job(&job).await
                }
                Err(error) => Err(error),
            };
            match recorded {
                Ok(true) => return true,
                Ok(false) => {
                    debug!(task = %fence.task, job = job.job, "the lease ended while its work was submitted");
                    return false;
                }
                Err(error) => warn!(%error, "the job of a service is not recorded now"),
            }
            writes += 1;
            if may_give_up && writes >= WRITES {
                return false;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_WRITE_PAUSE);
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
