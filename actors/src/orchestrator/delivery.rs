//! Delivery of a lease that has been written: its pool accepts it, or the lease is released.

use std::sync::Arc;

use chrono::TimeDelta;
use ractor::ActorRef;
use tokio::time::Instant;
use tracing::{Instrument, debug};

use super::actor::OrchestratorMsg;
use super::committer::{GroupCommitter, GroupCommitterGone};
use super::executor::Executor;
use crate::orchestrator::Unreachable;
use crate::telemetry::{AdvanceClock, AssignmentAnswered, assign_span};
use parkhang_core::domain::{AssignReply, Assignment, ErrorCategory, StageError};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, StateStore};

/// Time before a task that a pool refused is offered to another one.
const REFUSED_BACKOFF: TimeDelta = TimeDelta::seconds(1);

/// Answer of a pool to the assignment that it was offered. Unless it accepted, its lease has been released; under a stale epoch nothing has
/// been written.
pub(super) type Delivered = Result<AssignReply, Unreachable>;

/// Name of an answer in metrics and logs.
const fn answer_name(answer: &Delivered) -> &'static str {
    match answer {
        Ok(AssignReply::Accepted) => "accepted",
        Ok(AssignReply::Busy) => "busy",
        Ok(AssignReply::Draining) => "draining",
        Ok(AssignReply::Refused { .. }) => "refused",
        Ok(AssignReply::StaleEpoch { .. }) => "deposed",
        Err(Unreachable) => "silent",
    }
}

/// Offers a leased assignment to its pool, and releases the lease if the pool does not take it.
///
/// # Errors
///
/// When the group committer has stopped; the lease then runs out.
async fn deliver(
    committer: &GroupCommitter,
    executor: &dyn Executor,
    assignment: Assignment,
    store: &dyn StateStore,
) -> Result<Delivered, GroupCommitterGone> {
    let fence = assignment.fence.clone();
    let answer = executor.assign(assignment).await;
    let event = match &answer {
        Ok(AssignReply::Accepted) => {
            Failpoint::AssignmentTaken.pass();
            return Ok(answer);
        }
        // A later leader answers for the task; whatever this one wrote about it would be fenced.
        Ok(AssignReply::StaleEpoch { .. }) => return Ok(answer),
        Ok(AssignReply::Busy | AssignReply::Draining) | Err(Unreachable) => Event::Released,
        Ok(AssignReply::Refused { reason }) => {
            let message = format!("{} refuses it: {reason}", executor.info().worker);
            // Not charged: another node, or this one after an upgrade, may be able to run it.
            Event::Deferred {
                error: StageError::new(fence.stage.as_str(), ErrorCategory::Config, message),
                // A store that does not tell the time does not take the change either, for as long as that takes.
                not_before: store.now().await.ok().map(|now| now + REFUSED_BACKOFF),
            }
        }
    };
    debug!(task = %fence.task, stage = %fence.stage, worker = %executor.info().worker, ?answer, "assignment not taken");
    committer
        .commit(Change::new(Expected::Lease(fence), event))
        .await?;
    Ok(answer)
}

/// A lease on its way to its pool.
pub(super) struct Handover {
    pub committer: GroupCommitter,
    pub orchestrator: ActorRef<OrchestratorMsg>,
    pub pool: Arc<dyn Executor>,
    /// Time of the decision.
    pub decided: Instant,
    pub advances: AdvanceClock,
    pub store: Arc<dyn StateStore>,
}

impl Handover {
    /// Offers the lease to its pool, and sends the answer to the orchestrator.
    pub(super) async fn assign(self, assignment: Assignment) {
        let span = assign_span(&assignment, &self.pool.info().worker);
        let (task, stage) = (assignment.fence.task, assignment.fence.stage.clone());
        let (job, fence) = (assignment.job.clone(), assignment.fence.clone());
        let assigned = async move {
            // Without a group committer the orchestrator is stopping, and the lease expires.
            let Ok(answer) = deliver(&self.committer, self.pool.as_ref(), assignment, &*self.store).await
            else {
                return;
            };
            AssignmentAnswered {
                stage: &stage,
                answer: answer_name(&answer),
                accepted: answer == Ok(AssignReply::Accepted),
                took: self.decided.elapsed(),
            }
            .emit();
            if answer == Ok(AssignReply::Accepted) {
                self.advances.advanced(task, &stage);
            }
            let worker = self.pool.info().worker.clone();
            // Fails only when the orchestrator has stopped.
            let _ = self
                .orchestrator
                .cast(OrchestratorMsg::Delivered(worker, job, fence, answer));
        };
        assigned.instrument(span).await;
    }
}

#[cfg(test)]
mod tests;
