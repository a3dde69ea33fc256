use std::fmt;

use async_trait::async_trait;

use parkhang_core::domain::{AssignReply, Assignment, Fence, PoolInfo};
use parkhang_core::policy::service::ServiceTerms;

/// A pool as the orchestrator knows it, of this process or of another node: it runs one stage, for as many tasks at once
/// as it has slots, and queues nothing.
#[async_trait]
pub trait Executor: Send + Sync + fmt::Debug {
    /// Identity, stage and slots of the pool.
    fn info(&self) -> &PoolInfo;

    /// Terms of a pool that hands its stage over to a service; `None` for one that runs it itself.
    fn terms(&self) -> Option<ServiceTerms> {
        None
    }

    /// Offers a leased assignment, and answers in bounded time. Offering it twice is harmless.
    ///
    /// # Errors
    ///
    /// [`Unreachable`] when there is no answer; the pool may have accepted all the same.
    async fn assign(&self, assignment: Assignment) -> Result<AssignReply, Unreachable>;

    /// Asks the stages that run under these leases to stop at their next checkpoint: their work is no longer wanted.
    fn cancel(&self, _: Vec<Fence>) {}

    /// Asks every running stage to stop at its next checkpoint; nothing new is accepted.
    fn drain(&self);

    /// Notice that the pool did not answer and is assigned nothing more. A pool that can come back is watched from now on, and
    /// registers again when it answers.
    fn probe(&self) {}
}

/// No answer of a pool in time. A pool that accepted all the same learns from its next heartbeat that it has lost the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the pool does not answer")]
pub struct Unreachable;
