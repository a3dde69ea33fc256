use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tracing::{info, warn};

use super::decision::{Decision, Here, decide};
use super::receives::Receives;
use super::{StageQueues, TaskMessage};
use crate::source::{Claim, Clock, SourceError, StateClaims, WorkSource};
use parkhang_core::domain::{
    Assignment, Fence, Job, JobId, LeaseReport, LeaseStatus, ReportReply, StageName, StageVerdict, Task,
    WorkerId,
};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::claim::{Offer, give, is_idle, run_out};
use parkhang_core::policy::placement::next_fence;
use parkhang_core::policy::poison::is_suspect;
use parkhang_core::policy::transition::Event;
use parkhang_queue::{Delivery, Extended, Extension, Receipt, TaskQueue};
use parkhang_state::{Change, Expected, Outbox, StateStore};

/// Times of a source of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    /// Time for which a message is invisible to others when it is received or extended. It is extended when a third of it is over.
    pub visibility: Duration,
    /// Time from the receive after which a message is extended no more.
    pub visibility_max_total: Duration,
    /// Time that a receive waits for a message.
    pub wait: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            visibility: Duration::from_secs(600),
            visibility_max_total: Duration::from_secs(4 * 60 * 60),
            wait: Duration::from_secs(20),
        }
    }
}

impl QueueOptions {
    /// Visibility that the message of a lease is to get now, so long after it was received and after its visibility was last set;
    /// `None` if there is no need yet, or no more time.
    pub fn extension(&self, age: Duration, set: Duration) -> Option<Duration> {
        let left = self.visibility_max_total.saturating_sub(age);
        let is_due = set >= self.visibility / 3;
        (is_due && !left.is_zero()).then(|| self.visibility.min(left))
    }
}

/// Message of a lease.
#[derive(Debug, Clone)]
struct Held {
    receipt: Receipt,
    /// Latest time from which its visibility counts.
    extended: Instant,
}

/// Source of work from the queues of stages, with the state in a store: a worker needs its queue and the database, and no leader.
#[derive(Debug)]
pub struct QueueClaims {
    store: Arc<dyn StateStore>,
    outbox: Arc<dyn Outbox>,
    /// Renews and records leases, which are those of the state store.
    leases: StateClaims,
    clock: Arc<dyn Clock>,
    lease: TimeDelta,
    max_interruptions: i32,
    queues: StageQueues,
    options: QueueOptions,
    held: Mutex<HashMap<Fence, Held>>,
    receives: Receives,
}

impl QueueClaims {
    /// A source whose leases last for `lease` by `clock` unless they are renewed. Stages without a queue get no work.
    pub fn new<S: StateStore + Outbox + 'static>(
        store: Arc<S>,
        clock: Arc<dyn Clock>,
        lease: TimeDelta,
        max_interruptions: i32,
        queues: StageQueues,
        options: QueueOptions,
    ) -> Self {
        Self {
            leases: StateClaims::new(store.clone(), clock.clone(), lease, max_interruptions),
            outbox: store.clone(),
            store,
            clock,
            lease,
            max_interruptions,
            queues,
            options,
            held: Mutex::default(),
            receives: Receives::default(),
        }
    }

    /// True if it may hold messages that no claim has returned.
    #[cfg(test)]
    pub(in crate::source) fn has_receives_under_way(&self) -> bool {
        self.receives.are_under_way()
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Fence, Held>> {
        // Entries are written and removed whole, so a panic elsewhere leaves none half done.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, stage: &StageName) -> Result<&Arc<dyn TaskQueue>, SourceError> {
        self.queues
            .get(stage)
            .ok_or_else(|| SourceError::NoQueue(stage.clone()))
    }

    /// Acts on one message: leases its task to a worker of `offers`, or says why not.
    async fn take(
        &self,
        stage: &StageName,
        delivery: Delivery,
        offers: &mut [Offer],
        jobs: &mut HashMap<JobId, Job>,
        now: DateTime<Utc>,
    ) -> Result<Option<Claim>, SourceError> {
        let queue = self.queue(stage)?;
        let message = match TaskMessage::read(&delivery.body) {
            Ok(message) => message,
            Err(error) => {
                warn!(queue = queue.name(), message = %delivery.id, %error, "message put aside");
                queue.dead_letter(&delivery, &error.to_string()).await?;
                return Ok(None);
            }
        };
        let fence = message.fence(stage);
        let known = self.known(&fence, jobs).await?;
        let suited = known.as_ref().and_then(|(_, job)| {
            let free = |offer: &&Offer| offer.pool.stage == *stage && offer.free > 0 && offer.pool.suits(job);
            offers.iter().find(free).map(|offer| offer.pool.worker.clone())
        });
        let here = Here {
            is_free: offers
                .iter()
                .any(|offer| offer.pool.stage == *stage && offer.free > 0),
            is_suited: suited.is_some(),
            has_place: known
                .as_ref()
                .is_none_or(|(task, _)| !is_suspect(task) || is_idle(offers)),
        };
        let decision = decide(&fence, known.as_ref().map(|(task, job)| (task, job)), here, now);
        let (leased, job, worker) = match (decision, known, suited) {
            (Decision::Lease, Some((task, job)), Some(worker)) => {
                (self.lease(task, stage, &worker, now).await?, job, worker)
            }
            (Decision::TakeOver, Some((task, job)), Some(worker)) => (
                self.take_over(task, &job, stage, &worker, now).await?,
                job,
                worker,
            ),
            (decision, ..) => return self.pass_on(queue, &delivery, &fence, decision, now).await,
        };
        // Another worker was faster, by another message of the task, or it was set aside: this message leads nowhere.
        let Some(task) = leased else {
            return self
                .pass_on(queue, &delivery, &fence, Decision::Obsolete, now)
                .await;
        };
        give(offers, &worker, &task);
        let alone = is_suspect(&task);
        let Some(assignment) = Assignment::of(task, &job) else {
            return Ok(None);
        };
        let held = Held {
            receipt: delivery.receipt,
            extended: Instant::now(),
        };
        self.held().insert(assignment.fence.clone(), held);
        Ok(Some(Claim {
            worker,
            assignment,
            lasts: self.lease,
            alone,
        }))
    }

    /// Task and job of a message.
    async fn known(
        &self,
        fence: &Fence,
        jobs: &mut HashMap<JobId, Job>,
    ) -> Result<Option<(Task, Job)>, SourceError> {
        let Some(task) = self.store.task(fence.task).await? else {
            return Ok(None);
        };
        let job = match jobs.get(&task.job_id) {
            Some(job) => job.clone(),
            None => match self.store.job_by_id(task.job_id).await? {
                Some(job) => jobs.entry(job.id).or_insert(job).clone(),
                None => return Ok(None),
            },
        };
        Ok(Some((task, job)))
    }

    /// Leases the task; `None` if another worker was faster.
    async fn lease(
        &self,
        task: Task,
        stage: &StageName,
        worker: &WorkerId,
        now: DateTime<Utc>,
    ) -> Result<Option<Task>, SourceError> {
        let event = Event::Leased {
            stage: stage.clone(),
            worker: worker.clone(),
            until: now + self.lease,
        };
        let change = Change::new(Expected::of(&task), event);
        let outcome = self.store.commit(&[change], now).await?.pop();
        Failpoint::MessageClaimed.pass();
        Ok(outcome.and_then(|outcome| outcome.applied()))
    }

    /// Ends a lease that has run out, and leases the task anew; `None` if another worker was faster or the loss was one too many.
    async fn take_over(
        &self,
        task: Task,
        job: &Job,
        stage: &StageName,
        worker: &WorkerId,
        now: DateTime<Utc>,
    ) -> Result<Option<Task>, SourceError> {
        let Some(event) = run_out(&task, now, self.max_interruptions) else {
            return Ok(None);
        };
        let change = Change::new(Expected::of(&task), event);
        let outcome = self.store.commit(&[change], now).await?.pop();
        let Some(ended) = outcome.and_then(|outcome| outcome.applied()) else {
            return Ok(None);
        };
        let here = Here {
            is_free: true,
            is_suited: true,
            has_place: !is_suspect(&ended),
        };
        let Some(fence) = next_fence(&ended, job, now) else {
            return Ok(None);
        };
        match decide(&fence, Some((&ended, job)), here, now) {
            Decision::Lease => self.lease(ended, stage, worker, now).await,
            // A suspect that cannot be run alone here: it is published again.
            _ => Ok(None),
        }
    }

    /// Deals with a message whose task is not leased here.
    async fn pass_on(
        &self,
        queue: &Arc<dyn TaskQueue>,
        delivery: &Delivery,
        fence: &Fence,
        decision: Decision,
        now: DateTime<Utc>,
    ) -> Result<Option<Claim>, SourceError> {
        match decision {
            Decision::HeldUntil(until) => {
                let left = (until - now)
                    .to_std()
                    .unwrap_or_default()
                    .max(Duration::from_secs(1));
                queue.extend(&delivery.receipt, left).await?;
            }
            // Decided only with a worker at hand.
            Decision::Lease | Decision::TakeOver => {
                queue.release(&delivery.receipt).await?;
            }
            Decision::Withdraw(until) => {
                // In this order: a crash in between leaves a message too many, and not a task without one.
                self.outbox.withdraw(std::slice::from_ref(fence), until).await?;
                queue.delete(&delivery.receipt).await?;
            }
            Decision::Obsolete => {
                queue.delete(&delivery.receipt).await?;
            }
        }
        Ok(None)
    }

    /// Extends the visibility of messages whose leases are renewed, once a third of it is over.
    async fn extend(&self, fences: &[Fence]) {
        let mut by_stage: BTreeMap<&StageName, Vec<(&Fence, Extension)>> = BTreeMap::new();
        {
            let held = self.held();
            for fence in fences {
                let Some(message) = held.get(fence) else { continue };
                let (age, set) = (message.receipt.received.elapsed(), message.extended.elapsed());
                let Some(visibility) = self.options.extension(age, set) else {
                    continue;
                };
                let extension = Extension {
                    receipt: message.receipt.clone(),
                    visibility,
                };
                by_stage.entry(&fence.stage).or_default().push((fence, extension));
            }
        }
        for (stage, messages) in by_stage {
            let Some(queue) = self.queues.get(stage) else {
                continue;
            };
            let extensions: Vec<Extension> =
                messages.iter().map(|(_, extension)| extension.clone()).collect();
            let answers = queue.extend_all(&extensions).await;
            let mut held = self.held();
            for ((fence, _), answer) in messages.iter().zip(answers) {
                match answer {
                    Ok(Extended::For(_)) => {
                        if let Some(message) = held.get_mut(*fence) {
                            message.extended = Instant::now();
                        }
                    }
                    // The lease in the database holds all the same; whoever receives the message next waits for its end.
                    Ok(Extended::Stale | Extended::AtCap) => {
                        info!(task = %fence.task, stage = %fence.stage, "the message of a lease is back in its queue");
                        held.remove(*fence);
                    }
                    Err(error) => {
                        warn!(task = %fence.task, %error, "cannot extend the visibility of a message")
                    }
                }
            }
        }
    }
}

#[async_trait]
impl WorkSource for QueueClaims {
    async fn claim(&self, offers: &[Offer]) -> Result<Vec<Claim>, SourceError> {
        let mut rooms: BTreeMap<StageName, usize> = BTreeMap::new();
        for offer in offers.iter().filter(|offer| offer.free > 0) {
            *rooms.entry(offer.pool.stage.clone()).or_default() += offer.free;
        }
        let deliveries = self.receives.receive(&rooms, &self.queues, &self.options).await?;
        let now = self.clock.now().await?;
        if deliveries.is_empty() {
            // Leases that ran out end with any claim of the store, also one that offers nothing: there need be no orchestrator to end
            // them.
            self.leases.claim(&[]).await?;
        }
        let (mut offers, mut jobs, mut claims) = (offers.to_vec(), HashMap::new(), Vec::new());
        for (stage, delivery) in deliveries {
            let id = delivery.id.clone();
            // One that fails comes back after its visibility; what was leased before it must be handed out all the same.
            match self.take(&stage, delivery, &mut offers, &mut jobs, now).await {
                Ok(claim) => claims.extend(claim),
                Err(error) => {
                    warn!(message = %id, %stage, %error, "cannot act on a message now; it comes back")
                }
            }
        }
        Ok(claims)
    }

    async fn changed(&self) {
        self.receives.ended().await;
    }

    async fn renew(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError> {
        let statuses = self.leases.renew(fences).await?;
        self.extend(fences).await;
        Ok(statuses)
    }

    async fn complete(&self, report: LeaseReport) -> Result<ReportReply, SourceError> {
        let fence = report.fence.clone();
        let goes_on = matches!(report.verdict, Some(StageVerdict::Interrupted));
        let reply = self.leases.complete(report).await?;
        Failpoint::ResultCommitted.pass();
        // After the commit, and with no say in it: a message that stays finds its task gone on and is deleted then.
        let message = self.held().remove(&fence);
        if let (Some(message), Some(queue)) = (message, self.queues.get(&fence.stage)) {
            let ended = if goes_on {
                queue.release(&message.receipt).await
            } else {
                queue.delete(&message.receipt).await
            };
            if let Err(error) = ended {
                warn!(task = %fence.task, stage = %fence.stage, %error, "a message outlives its lease; it comes back and is deleted");
            }
        }
        Ok(reply)
    }

    async fn leave(&self) -> Result<(), SourceError> {
        for (stage, received) in self.receives.rest().await? {
            let receipts: Vec<Receipt> = received.into_iter().map(|delivery| delivery.receipt).collect();
            for released in self.queue(&stage)?.release_all(&receipts).await {
                released?;
            }
        }
        Ok(())
    }
}
