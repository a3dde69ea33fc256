use std::fmt;

use async_trait::async_trait;

use parkhang_core::domain::{AssignReply, Assignment, Fence, PoolInfo};

/// A pool as the orchestrator knows it, of this process or of another node: it runs one stage, for as many tasks at once
/// as it has slots, and queues nothing.
#[async_trait]
pub trait Executor: Send + Sync + fmt::Debug {
    fn info(&self) -> &PoolInfo;

    /// Offers a leased assignment. Offering it twice is harmless. Answers in bounded time.
    async fn assign(&self, assignment: Assignment) -> Result<AssignReply, Unreachable>;

    /// Asks the stages that run under these leases to stop at their next checkpoint: their work is no longer wanted.
    fn cancel(&self, _: Vec<Fence>) {}

    /// Asks every running stage to stop at its next checkpoint; nothing new is accepted.
    fn drain(&self);

    /// The pool did not answer and is assigned nothing more. One that can come back registers again when it is there.
    fn probe(&self) {}
}

/// No answer of a pool in time. One that took the assignment all the same learns at its next heartbeat that it lost the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the pool does not answer")]
pub struct Unreachable;
