//! Evidence about a pool: a stage that returned, or the pages that were read.

use ractor::ActorRef;

use super::{Phase, PoolMsg, PoolState, StageVerdict};
use crate::supervisor::node::NodeMsg;
use parkhang_core::domain::{ErrorCategory, Fence};
use parkhang_core::policy::pool_health::PAGES_OF_PROOF;

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

    /// Tells the supervisor that this pool works, once its stages have read pages enough.
    pub(super) fn prove(&mut self, myself: &ActorRef<PoolMsg>) {
        let progress = self
            .slots
            .values()
            .filter_map(|slot| slot.followed.progress().now());
        let read: u64 = progress.map(|progress| progress.succeeded).sum();
        if read >= PAGES_OF_PROOF {
            self.is_proven(myself);
        }
    }

    /// Does the same for a stage that has come to its end, however few its pages are.
    pub(super) fn prove_by(&mut self, fence: &Fence, verdict: &StageVerdict, myself: &ActorRef<PoolMsg>) {
        let progress = self
            .slots
            .get(fence)
            .and_then(|slot| slot.followed.progress().now());
        let read = progress.map(|progress| progress.succeeded);
        let has_worked = match verdict {
            // Some stages have no pages; where there were some and none had to be read, nothing is known of the device.
            StageVerdict::Succeeded(_) => read != Some(0),
            _ => read >= Some(PAGES_OF_PROOF),
        };
        if has_worked {
            self.is_proven(myself);
        }
    }

    fn is_proven(&mut self, myself: &ActorRef<PoolMsg>) {
        if !self.proven && !self.replaced {
            self.proven = true;
            // Fails only when the supervisor is ending.
            let _ = self.arguments.supervisor.cast(NodeMsg::Proven(myself.get_id()));
        }
    }
}
