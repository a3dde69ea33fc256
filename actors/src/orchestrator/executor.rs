use std::fmt;

use async_trait::async_trait;

use crate::domain::{Fence, StageName, WorkerId};
use crate::stage::Assignment;

/// A pool as the orchestrator knows it, of this process or of another node: it runs one stage, for as many tasks at once
/// as it has slots, and queues nothing.
#[async_trait]
pub trait Executor: Send + Sync + fmt::Debug {
    /// Unique per pool, also after a restart.
    fn worker(&self) -> &WorkerId;

    fn stage(&self) -> &StageName;

    /// Tasks that it runs at once.
    fn slots(&self) -> usize;

    /// Names of the models that it keeps loaded.
    fn models(&self) -> &[String];

    /// Offers a leased assignment. Offering it twice is harmless. Answers in bounded time.
    async fn assign(&self, assignment: Assignment) -> AssignReply;

    /// Asks the stages that run under these leases to stop at their next checkpoint: their work is no longer wanted.
    fn cancel(&self, _: Vec<Fence>) {}

    /// Asks every running stage to stop at its next checkpoint; nothing new is accepted.
    fn drain(&self);

    /// The pool did not answer and is assigned nothing more. One that can come back registers again when it is there.
    fn probe(&self) {}
}

/// What a pool says to an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssignReply {
    Accepted,
    /// No free slot, or a lease that has run out.
    Busy,
    /// No answer. A pool that took the assignment all the same learns at its next heartbeat that it lost the lease.
    Unreachable,
    /// The pool takes no more work.
    Draining,
    /// The pool has seen a later leader than the one that assigns.
    Deposed,
    /// The pool cannot run this assignment, and says why.
    Refused(String),
}
