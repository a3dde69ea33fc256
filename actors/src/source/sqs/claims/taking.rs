//! Messages that were received together: their tasks are read by one query, leased by one transaction, and what is not leased is dealt
//! with in batches. What becomes of one message depends on no other, but for the free slots that they share.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tracing::warn;

use super::QueueClaims;
use crate::source::sqs::TaskMessage;
use crate::source::sqs::decision::{Decision, Here, decide};
use crate::source::{Claim, SourceError};
use parkhang_core::domain::{Assignment, Fence, Job, JobId, StageName, Task, TaskId, WorkerId};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::claim::{Offer, give, is_idle, run_out};
use parkhang_core::policy::placement::next_fence;
use parkhang_core::policy::poison::is_suspect;
use parkhang_core::policy::transition::Event;
use parkhang_queue::{Delivery, Extension, QueueError, Receipt, TaskQueue};
use parkhang_state::{Change, Expected, Outcome};

/// Message that is understood.
struct Message {
    receipt: Receipt,
    fence: Fence,
}

/// Message whose task is to be leased.
struct Chosen {
    message: Message,
    task: Task,
    job: Arc<Job>,
    worker: WorkerId,
}

/// Actions on messages, by what is to be done with each.
#[derive(Default)]
struct Plan {
    leases: Vec<Chosen>,
    /// Those of leases that have run out, which are to be ended first.
    expired: Vec<Chosen>,
    others: Vec<(Message, Decision)>,
}

/// Jobs and tasks of messages.
#[derive(Default)]
struct Known {
    tasks: BTreeMap<TaskId, Task>,
    jobs: BTreeMap<JobId, Arc<Job>>,
}

impl Known {
    fn of(&self, message: &Message) -> Option<(&Task, &Arc<Job>)> {
        let task = self.tasks.get(&message.fence.task)?;
        Some((task, self.jobs.get(&task.job_id)?))
    }
}

/// Plans what becomes of messages of a stage, no two of one task, and takes the slots of those to be leased from the offers.
fn plan(
    stage: &StageName,
    messages: Vec<Message>,
    known: &Known,
    offers: &mut [Offer],
    (now, may_end): (DateTime<Utc>, bool),
) -> Plan {
    let mut plan = Plan::default();
    for message in messages {
        let known = known.of(&message);
        let free: Vec<&Offer> = offers
            .iter()
            .filter(|offer| offer.pool.stage == *stage && offer.free > 0)
            .collect();
        let suited = known.and_then(|(_, job)| {
            let suited = free.iter().find(|offer| offer.pool.suits(job))?;
            Some(suited.pool.worker.clone())
        });
        let here = Here {
            is_free: !free.is_empty(),
            is_suited: suited.is_some(),
            may_end,
            has_place: known.is_none_or(|(task, _)| !is_suspect(task) || is_idle(offers)),
        };
        let decision = decide(&message.fence, known.map(|(task, job)| (task, &**job)), here, now);
        let (Decision::Lease | Decision::TakeOver, Some((task, job)), Some(worker)) =
            (decision, known, suited)
        else {
            plan.others.push((message, decision));
            continue;
        };
        let chosen = Chosen {
            message,
            task: task.clone(),
            job: job.clone(),
            worker,
        };
        if decision == Decision::Lease {
            give(offers, &chosen.worker, task);
            plan.leases.push(chosen);
        } else {
            // A suspect whose lease has run out is not leased again by this message, and so takes no slot.
            if !is_suspect(task) {
                give(offers, &chosen.worker, task);
            }
            plan.expired.push(chosen);
        }
    }
    plan
}

/// Takes the first message of each task; returns these and the others.
fn one_of_each_task(messages: Vec<Message>) -> (Vec<Message>, Vec<Message>) {
    let mut seen = HashSet::new();
    messages
        .into_iter()
        .partition(|message| seen.insert(message.fence.task))
}

impl QueueClaims {
    /// Acts on messages of one stage: leases their tasks to workers of `offers`, or passes the messages on. One that cannot be acted
    /// on now comes back after its visibility; what was leased beside it is handed out all the same. Leases that have run out are ended if
    /// `may_end` is true.
    pub(super) async fn take(
        &self,
        stage: &StageName,
        deliveries: Vec<Delivery>,
        offers: &mut [Offer],
        (now, may_end): (DateTime<Utc>, bool),
    ) -> Vec<Claim> {
        let Some(queue) = self.queues.get(stage) else {
            return Vec::new();
        };
        let mut waiting = understood(queue.as_ref(), stage, deliveries).await;
        let mut claims = Vec::new();
        // Of two messages of one task the second is decided on what the first has made of it.
        while !waiting.is_empty() {
            let (messages, others) = one_of_each_task(waiting);
            waiting = others;
            let number = messages.len();
            match self.known(&messages).await {
                Ok(known) => {
                    let plan = plan(stage, messages, &known, offers, (now, may_end));
                    claims.extend(self.carry_out(queue.as_ref(), stage, plan, now).await);
                }
                Err(error) => {
                    warn!(messages = number, %stage, %error, "cannot act on messages now; they come back")
                }
            }
        }
        claims
    }

    /// Tasks and jobs of messages.
    async fn known(&self, messages: &[Message]) -> Result<Known, SourceError> {
        let ids: Vec<TaskId> = messages.iter().map(|message| message.fence.task).collect();
        let mut known = Known::default();
        for task in self.store.tasks_by_id(&ids).await? {
            if !known.jobs.contains_key(&task.job_id)
                && let Some(job) = self.store.job_by_id(task.job_id).await?
            {
                known.jobs.insert(job.id, Arc::new(job));
            }
            known.tasks.insert(task.id, task);
        }
        Ok(known)
    }

    async fn carry_out(
        &self,
        queue: &dyn TaskQueue,
        stage: &StageName,
        plan: Plan,
        now: DateTime<Utc>,
    ) -> Vec<Claim> {
        let Plan {
            mut leases,
            expired,
            mut others,
        } = plan;
        self.end_expired(expired, &mut leases, &mut others, now).await;
        let claims = self.lease(stage, leases, &mut others, now).await;
        self.pass_on(queue, others, now).await;
        claims
    }

    /// Ends leases that have run out. Those whose tasks may be leased anew join `leases`. The messages of the others lead nowhere:
    /// another worker was faster, the loss was one too many, or the task is a suspect now, which is published again.
    async fn end_expired(
        &self,
        expired: Vec<Chosen>,
        leases: &mut Vec<Chosen>,
        others: &mut Vec<(Message, Decision)>,
        now: DateTime<Utc>,
    ) {
        let mut ending = Vec::new();
        let mut changes = Vec::new();
        for chosen in expired {
            match run_out(&chosen.task, now, self.max_interruptions) {
                Some(event) => {
                    changes.push(Change::new(Expected::of(&chosen.task), event));
                    ending.push(chosen);
                }
                None => others.push((chosen.message, Decision::Obsolete)),
            }
        }
        let outcomes = match self.store.commit(&changes, now).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                warn!(leases = changes.len(), %error, "cannot end leases now; their messages come back");
                return;
            }
        };
        for (chosen, outcome) in ending.into_iter().zip(outcomes) {
            let ended = outcome.applied();
            match ended.filter(|task| may_be_leased(task, &chosen.job, now)) {
                Some(task) => leases.push(Chosen { task, ..chosen }),
                None => others.push((chosen.message, Decision::Obsolete)),
            }
        }
    }

    /// Leases tasks, and returns the leases. A task that is not as it was read belongs to another worker, who had another message of
    /// it, or was set aside: its message leads nowhere.
    async fn lease(
        &self,
        stage: &StageName,
        chosen: Vec<Chosen>,
        others: &mut Vec<(Message, Decision)>,
        now: DateTime<Utc>,
    ) -> Vec<Claim> {
        let change = |chosen: &Chosen| {
            let event = Event::Leased {
                stage: stage.clone(),
                worker: chosen.worker.clone(),
                until: now + self.lease,
            };
            Change::new(Expected::of(&chosen.task), event)
        };
        let changes: Vec<Change> = chosen.iter().map(change).collect();
        let outcomes = match self.store.commit(&changes, now).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                warn!(tasks = changes.len(), %error, "cannot lease tasks now; their messages come back");
                return Vec::new();
            }
        };
        if !changes.is_empty() {
            Failpoint::MessageClaimed.pass();
        }
        let mut claims = Vec::new();
        for (chosen, outcome) in chosen.into_iter().zip(outcomes) {
            let Chosen {
                message, job, worker, ..
            } = chosen;
            let task = match outcome {
                Outcome::Applied(task) => task,
                Outcome::Fenced(_) | Outcome::Illegal(_) => {
                    others.push((message, Decision::Obsolete));
                    continue;
                }
                Outcome::Refused(reason) => {
                    warn!(task = %message.fence.task, reason, "cannot lease a task; its message comes back");
                    continue;
                }
            };
            let alone = is_suspect(&task);
            let Some(assignment) = Assignment::of(task, &job) else {
                continue;
            };
            self.held.insert(assignment.fence.clone(), message.receipt);
            claims.push(Claim {
                worker,
                assignment,
                lasts: self.lease,
                alone,
            });
        }
        claims
    }

    /// Deals with messages whose tasks are not leased here.
    async fn pass_on(&self, queue: &dyn TaskQueue, messages: Vec<(Message, Decision)>, now: DateTime<Utc>) {
        if messages.is_empty() {
            return;
        }
        let mut extensions = Vec::new();
        let mut deletions = Vec::new();
        let mut withdrawals: BTreeMap<DateTime<Utc>, Vec<Message>> = BTreeMap::new();
        for (message, decision) in messages {
            let receipt = message.receipt.clone();
            match decision {
                Decision::HeldUntil(until) => {
                    let left = (until - now).to_std().unwrap_or_default();
                    let visibility = left.max(Duration::from_secs(1));
                    extensions.push(Extension { receipt, visibility });
                }
                // Decided only with a worker at hand.
                Decision::Lease | Decision::TakeOver => {
                    let visibility = Duration::ZERO;
                    extensions.push(Extension { receipt, visibility });
                }
                Decision::Withdraw(until) => withdrawals.entry(until).or_default().push(message),
                Decision::Obsolete => deletions.push(receipt),
            }
        }
        for (until, messages) in withdrawals {
            let fences: Vec<Fence> = messages.iter().map(|message| message.fence.clone()).collect();
            // In this order: a crash in between leaves a message too many, and not a task without one.
            match self.outbox.withdraw(&fences, until).await {
                Ok(()) => deletions.extend(messages.into_iter().map(|message| message.receipt)),
                Err(error) => {
                    warn!(messages = fences.len(), %error, "cannot withdraw messages now; they come back")
                }
            }
        }
        let (extended, deleted) =
            futures::future::join(queue.extend_all(&extensions), queue.delete_all(&deletions)).await;
        let failed = extended.into_iter().filter_map(Result::err);
        for error in failed.chain(deleted.into_iter().filter_map(Result::err)) {
            warn!(queue = queue.name(), %error, "cannot pass a message on now; it comes back");
        }
    }
}

/// True for a task whose lease was ended here, and which may be leased again by the same message.
fn may_be_leased(ended: &Task, job: &Job, now: DateTime<Utc>) -> bool {
    let here = Here {
        may_end: true,
        is_free: true,
        is_suited: true,
        has_place: !is_suspect(ended),
    };
    next_fence(ended, job, now)
        .is_some_and(|fence| decide(&fence, Some((ended, job)), here, now) == Decision::Lease)
}

/// Messages that can be understood; the others are put aside at once.
async fn understood(queue: &dyn TaskQueue, stage: &StageName, deliveries: Vec<Delivery>) -> Vec<Message> {
    let mut messages = Vec::new();
    for delivery in deliveries {
        match TaskMessage::read(&delivery.body) {
            Ok(message) => messages.push(Message {
                fence: message.fence(stage),
                receipt: delivery.receipt,
            }),
            Err(error) => {
                warn!(queue = queue.name(), message = %delivery.id, %error, "message put aside");
                if let Err(error) = put_aside(queue, &delivery, &error.to_string()).await {
                    warn!(queue = queue.name(), message = %delivery.id, %error, "cannot put a message aside now; it comes back");
                }
            }
        }
    }
    messages
}

async fn put_aside(queue: &dyn TaskQueue, delivery: &Delivery, reason: &str) -> Result<(), QueueError> {
    queue.dead_letter(delivery, reason).await.map(drop)
}
