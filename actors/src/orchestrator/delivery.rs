//! What becomes of a lease that has been written: its pool takes it, or it is given back.

use chrono::{DateTime, Utc};
use tracing::debug;

use super::executor::{AssignReply, Executor};
use super::mirror::{Mirror, MirrorGone};
use crate::domain::{ErrorCategory, StageError};
use crate::failpoint::Failpoint;
use crate::policy::retry;
use crate::policy::transition::Event;
use crate::stage::Assignment;
use crate::state::{Change, Expected};

/// Seconds before a task that a node refused is tried again; the delay doubles with each try.
const REFUSED_BACKOFF_S: f64 = 1.0;

/// How a delivery ended, as far as the orchestrator must act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Taken,
    /// The lease has been given back, for the pool had no room after all.
    Returned,
    /// As `Returned`, and the pool will take nothing more.
    PoolDrains,
    /// As `Returned`, and nobody knows whether the pool is still there.
    PoolSilent,
    /// The task has been charged with a failed try.
    Refused,
    /// Another orchestrator leads. Nothing has been written.
    Deposed,
}

impl Delivery {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "accepted",
            Self::Returned => "busy",
            Self::PoolDrains => "draining",
            Self::PoolSilent => "silent",
            Self::Refused => "refused",
            Self::Deposed => "deposed",
        }
    }
}

pub(super) async fn deliver(
    mirror: &Mirror,
    executor: &dyn Executor,
    assignment: Assignment,
    now: DateTime<Utc>,
) -> Result<Delivery, MirrorGone> {
    let fence = assignment.fence.clone();
    let (delivery, event) = match executor.assign(assignment).await {
        AssignReply::Accepted => {
            Failpoint::AssignmentTaken.pass();
            return Ok(Delivery::Taken);
        }
        AssignReply::Deposed => return Ok(Delivery::Deposed),
        AssignReply::Busy => (Delivery::Returned, Event::Released),
        AssignReply::Draining => (Delivery::PoolDrains, Event::Released),
        AssignReply::Unreachable => (Delivery::PoolSilent, Event::Released),
        AssignReply::Refused(reason) => {
            let mut error = StageError::new(fence.stage.as_str(), ErrorCategory::Config, reason);
            // Another node, or this one after an upgrade, may be able to run it.
            error.retryable = true;
            let attempt = u32::try_from(fence.attempt.0).unwrap_or(1);
            let delay = retry::backoff(REFUSED_BACKOFF_S, attempt, 0.0);
            let not_before = Some(now + delay);
            (Delivery::Refused, Event::Failed { error, not_before })
        }
    };
    debug!(task = %fence.task, stage = %fence.stage, worker = %executor.worker(), ?delivery, "assignment not taken");
    mirror.commit(Change::new(Expected::Lease(fence), event)).await?;
    Ok(delivery)
}
