//! How work arrives at a node that takes it itself. A [`WorkSource`] leases (task, stage) and records what became of it; a
//! [`Dispatcher`] asks it for as much as the node's pools have room for, and is the pools'
//! [`ControlPlane`](crate::supervisor::ControlPlane), as the orchestrator is where work is pushed. Every state change goes
//! through the one transition table, fenced by the lease, whichever source it is.
//!
//! A source knows neither pools nor stages beyond their names.

mod clock;
#[cfg(test)]
mod conformance;
mod dispatcher;
mod error;
mod member;
mod shards;
mod state_claims;
mod wake;

use std::fmt;

use async_trait::async_trait;
use chrono::TimeDelta;

use parkhang_core::domain::{
    Assignment, Fence, LeaseReport, LeaseStatus, ReportReply, StageVerdict, WorkerId,
};
use parkhang_core::policy::claim::Offer;

pub use clock::{Clock, StoreClock, SystemClock};
pub use dispatcher::{Dispatcher, SourceHealth};
pub use error::SourceError;
pub use shards::{
    InvalidShardSize, JobManifest, ShardDone, ShardError, ShardLease, ShardOptions, ShardOrder, ShardSize,
    ShardState, ShardSurvey, Shards, TaskRecord,
};
pub use state_claims::StateClaims;

/// A stage of a task, leased to the worker that offered to run it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub worker: WorkerId,
    /// Its deadline is one of the source's clock, which this machine's need not agree with.
    pub assignment: Assignment,
    /// Time from the beginning of the call until the lease runs out unless it is renewed.
    pub lasts: TimeDelta,
    /// The volume may kill the process, which is to run nothing beside it.
    pub alone: bool,
}

/// Where leases come from. The source remembers beside a lease's fence whatever it needs to renew or end it, such as the
/// receipt of a message; a process that forgets it loses its leases by their deadlines.
///
/// A lease that is claimed or renewed lasts for at least three quarters of the source's lease time from then on, by the
/// [`Clock`] of the source.
///
/// A call that fails has changed nothing, or what may be repeated. Of any callers in any processes, no two hold leases of one
/// stage of one task at a time, and no two leases ever share a fence.
#[async_trait]
pub trait WorkSource: Send + Sync + fmt::Debug {
    /// Leases work for which the offers have room, and takes over what others have lost. The offers are those of all workers of
    /// this process, the busy ones too: a source may keep hold of more than it hands out, and must know whether that still is
    /// of use. An empty answer means that nothing was found; a source may look for some seconds before it gives it, and go on
    /// from there the next time. Work that is found is handed out soon, though there may be more.
    async fn claim(&self, offers: &[Offer]) -> Result<Vec<Claim>, SourceError>;

    /// Renews leases, answering in the order of the fences.
    async fn renew(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError>;

    /// Writes down how a lease ended. Returns once that is durable, or known to come too late.
    async fn settle(&self, report: LeaseReport) -> Result<ReportReply, SourceError>;

    /// Ends a lease that was not made use of; nothing is charged to the task.
    async fn give_back(&self, fence: Fence) -> Result<ReportReply, SourceError> {
        let verdict = Some(StageVerdict::Interrupted);
        self.settle(LeaseReport { fence, verdict }).await
    }

    /// Lets go of what this process holds beside its leases. Nothing is claimed afterwards.
    async fn leave(&self) -> Result<(), SourceError> {
        Ok(())
    }
}
