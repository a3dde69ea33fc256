//! Evidence about a pool: a stage that returned, or that has read a page.

use ractor::ActorRef;

use super::{Phase, PoolMsg, PoolState, StageVerdict};
use crate::supervisor::node::NodeMsg;
use parkhang_core::domain::{ErrorCategory, Fence};

impl PoolState {
    /// Reports the verdict of a stage that has returned. A lease that was ended before keeps the end that it had.
    pub(super) fn finished(&mut self, fence: Fence, verdict: StageVerdict, myself: &ActorRef<PoolMsg>) {
        if self
            .slots
            .get(&fence)
            .is_none_or(|slot| slot.phase != Phase::Running)
        {
            return;
        }
        if let StageVerdict::Failed(error) = &verdict
            && error.category == ErrorCategory::Node
            && !self.replaced
        {
            let fault = NodeMsg::Faulted(myself.get_id(), error.message.clone());
            // Fails only when the supervisor is ending.
            let _ = self.arguments.supervisor.cast(fault);
        }
        self.end(&fence, Some(verdict), myself);
    }

    /// Tells the supervisor of the first page that this pool has read.
    pub(super) fn prove(&mut self, myself: &ActorRef<PoolMsg>) {
        if self
            .slots
            .values()
            .filter_map(|slot| slot.followed.progress().now())
            .any(|progress| progress.succeeded > 0)
        {
            self.is_proven(myself);
        }
    }

    /// Does the same for a stage that ended before the next heartbeat.
    pub(super) fn prove_by(&mut self, fence: &Fence, verdict: &StageVerdict, myself: &ActorRef<PoolMsg>) {
        let progress = self
            .slots
            .get(fence)
            .and_then(|slot| slot.followed.progress().now());
        let has_worked = match (progress, verdict) {
            (Some(progress), _) => progress.succeeded > 0,
            // A stage without pages.
            (None, StageVerdict::Succeeded(_)) => true,
            (None, _) => false,
        };
        if has_worked {
            self.is_proven(myself);
        }
    }

    fn is_proven(&mut self, myself: &ActorRef<PoolMsg>) {
        if !self.proven && !self.replaced {
            self.proven = true;
            // Fails only when the supervisor is ending.
            let _ = self
                .arguments
                .supervisor
                .cast(NodeMsg::Progressed(myself.get_id()));
        }
    }
}
