//! Sources of work for nodes that take it themselves, instead of being assigned it by an orchestrator. A [`WorkSource`] leases
//! stages of tasks and records their ends; a [`Dispatcher`] asks it for as much as the node's pools have room for, and is the
//! pools' [`ControlPlane`](crate::supervisor::ControlPlane), as the orchestrator is where work is pushed. Every state change goes
//! through the one transition table, fenced by the lease, whichever source it is.
//!
//! There are three sources. [`StateClaims`] takes tasks from the database, so that a node needs a connection to Postgres and no
//! leader. [`QueueClaims`] takes them from queues, whose messages name tasks of the database. [`Shards`] takes them from manifests in
//! the artifact store, where there is no database at all. All are held by one conformance suite to one promise: no two processes hold one stage of a volume at a time. Deadlines go by one [`Clock`] for all
//! users of a source, as the clocks of machines may be minutes apart; and leases are durable before they are handed out, since
//! one that a crash of the database undoes could be handed out again with the same fence.
//!
//! A source knows neither pools nor stages beyond their names, and a dispatcher does not know where its source keeps things.

mod clock;
#[cfg(test)]
mod conformance;
mod dispatcher;
mod error;
mod joined;
mod member;
mod reach;
mod reports;
mod shards;
mod sqs;
mod state_claims;
mod wake;

use std::fmt;

use async_trait::async_trait;
use chrono::TimeDelta;

use parkhang_core::domain::{
    Assignment, Expense, Fence, LeaseReport, LeaseStatus, ReportReply, SpendReply, StageVerdict, WorkerId,
};
use parkhang_core::policy::claim::Offer;

pub use clock::{Clock, StoreClock, SystemClock};
pub use dispatcher::{Dispatcher, SourceHealth};
pub use error::SourceError;
pub use shards::{
    InvalidShardSize, JobManifest, ShardDone, ShardError, ShardLease, ShardOptions, ShardOrder, ShardSize,
    ShardState, ShardSurvey, Shards, TaskRecord,
};
pub use sqs::{
    DeadLetters, MalformedMessage, PublishError, Publisher, QueueClaims, QueueOptions, QueueWatch,
    StageQueues, TaskMessage, WatchLimits, count_dead_letters,
};
pub use state_claims::StateClaims;

/// A stage of a task, leased to the worker that offered to run it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Worker whose offer the claim answers.
    pub worker: WorkerId,
    /// The lease. Its deadline is one of the source's clock, which this machine's need not agree with.
    pub assignment: Assignment,
    /// Time from the beginning of the call until the lease expires, unless it is renewed.
    pub lasts: TimeDelta,
    /// True if the volume may kill the process, which is to run nothing beside it.
    pub alone: bool,
}

/// Source of leases. It remembers beside a lease's fence whatever it needs to renew or end it; a process that forgets that loses
/// its leases at their deadlines.
///
/// A lease that is claimed or renewed lasts for at least three quarters of the source's lease time from then on, by the
/// [`Clock`] of the source.
///
/// Leases that have run out are not ended before their holders had half a lease to renew them, where the store was away.
///
/// A call that fails has changed nothing, or what may be repeated. Of any callers in any processes, no two hold leases of one
/// stage of one task at a time, and no two leases ever share a fence.
#[async_trait]
pub trait WorkSource: Send + Sync + fmt::Debug {
    /// Leases work for which the offers have room, and takes over what others have lost. The offers are those of all workers of
    /// this process, the busy ones too: a source may keep hold of more than it hands out, and must know whether that is still
    /// of use. An empty answer means that nothing was found; a source may search for some seconds before it answers so, and go
    /// on from there the next time. Work that is found is handed out soon, though there may be more.
    ///
    /// # Errors
    ///
    /// When nothing could be leased because the source does not answer.
    async fn claim(&self, offers: &[Offer]) -> Result<Vec<Claim>, SourceError>;

    /// Waits until the source has learned by itself that a claim may find something; for ever, if it learns only when it is asked.
    async fn changed(&self) {
        std::future::pending().await
    }

    /// Renews leases and returns the status of each, in the order of the fences.
    ///
    /// # Errors
    ///
    /// When the source does not answer; the leases may have been renewed or not.
    async fn renew(&self, fences: &[Fence]) -> Result<Vec<LeaseStatus>, SourceError>;

    /// Notes how many pages leases have finished, those of earlier leases included. A source without a database counts no progress.
    async fn note_progress(&self, finished: &[(Fence, i32)]) {
        let _ = finished;
    }

    /// Records the end of a lease. Returns once that is durable, or known to come too late.
    ///
    /// # Errors
    ///
    /// When the source does not answer; the report may be repeated.
    async fn complete(&self, report: LeaseReport) -> Result<ReportReply, SourceError>;

    /// Writes what was spent under a lease so far. A source without a database counts no costs, and knows no budgets.
    async fn spend(&self, expense: &Expense) -> SpendReply {
        let _ = expense;
        SpendReply::Recorded
    }

    /// Releases a lease that was not made use of; no try is counted.
    ///
    /// # Errors
    ///
    /// Those of [`WorkSource::complete`].
    async fn release(&self, fence: Fence) -> Result<ReportReply, SourceError> {
        let verdict = Some(StageVerdict::Interrupted);
        self.complete(LeaseReport { fence, verdict }).await
    }

    /// Releases whatever this process holds beside its leases. Nothing is claimed afterwards.
    ///
    /// # Errors
    ///
    /// When some of it is not released; others wait for its deadline then.
    async fn leave(&self) -> Result<(), SourceError> {
        Ok(())
    }
}
