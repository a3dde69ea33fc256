use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tracing::info;

use super::endpoint::{Answer, STAGES, introduction, request, seal, unexpected};
use super::name::NodeName;
use crate::orchestrator::Executor;
use crate::supervisor::{IdempotentExecutor, PoolHandle};
use crate::wire::{
    Assign, AssignDocument, Cancel, CancelReply, Command, CommandReply, Drain, DrainReply, EndpointInfo,
    EndpointRole, Envelope, Fault, Handshake, Kind, Unusable,
};
use parkhang_core::domain::{AssignReply, Assignment, CommandOutcome, Epoch, PoolInfo};

/// Latest epoch that this node has heard of. An orchestrator of an earlier one has been replaced.
#[derive(Debug)]
pub(super) struct LatestEpoch(AtomicI64);

impl Default for LatestEpoch {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl LatestEpoch {
    /// Takes note of an epoch; the error holds a later one, if one is known.
    pub(super) fn admit(&self, epoch: Epoch) -> Result<(), Epoch> {
        // Relaxed is enough: the number guards no other memory, and the operation is one step.
        let seen = self.0.fetch_max(epoch.0, Ordering::Relaxed);
        if epoch.0 < seen { Err(Epoch(seen)) } else { Ok(()) }
    }
}

/// Endpoint by which orchestrators of other nodes reach a pool of this node.
#[derive(Clone)]
pub(super) struct StageEndpoint {
    pub node: NodeName,
    pub pool: PoolHandle,
    pub latest: Arc<LatestEpoch>,
    /// Commands to the node, which come through any of its endpoints.
    pub book: IdempotentExecutor,
}

impl Answer for StageEndpoint {
    const GROUP: &'static str = STAGES;

    async fn answer(&self, envelope: &Envelope) -> Result<Envelope, Fault> {
        match envelope.kind()? {
            Kind::Handshake => {
                let Handshake { peer } = request(envelope)?;
                info!(peer = %peer.node, build = %peer.build, protocol = peer.protocol, stage = %self.pool.info.stage, "handshake");
                seal(&self.info())
            }
            Kind::Assign => {
                let assign: Assign = request(envelope)?;
                seal(&self.assign(assign.epoch, assign.into_assignment()).await)
            }
            Kind::AssignDocument => {
                let assign: AssignDocument = request(envelope)?;
                seal(&self.assign(assign.assign.epoch, assign.into_assignment()).await)
            }
            Kind::Drain => {
                let Drain = request(envelope)?;
                self.pool.drain();
                seal(&DrainReply)
            }
            Kind::Cancel => {
                self.cancel(request(envelope)?);
                seal(&CancelReply)
            }
            Kind::Command => {
                let command: Command = request(envelope)?;
                let outcome = self.carry_out(command).await;
                let reply = CommandReply::new(&outcome).map_err(|unusable| Fault::Malformed {
                    kind: Kind::CommandReply.number(),
                    reason: unusable.to_string(),
                })?;
                seal(&reply)
            }
            kind => Err(unexpected(kind)),
        }
    }
}

impl StageEndpoint {
    fn info(&self) -> EndpointInfo {
        EndpointInfo {
            peer: introduction(&self.node),
            role: EndpointRole::Stage(PoolInfo::clone(&self.pool.info)),
        }
    }

    /// Cancels leases, unless the sender has been replaced.
    fn cancel(&self, cancel: Cancel) {
        if self.latest.admit(cancel.epoch).is_ok() {
            self.pool.cancel(cancel.fences);
        }
    }

    async fn carry_out(&self, command: Command) -> CommandOutcome {
        if let Err(seen) = self.latest.admit(command.epoch) {
            return CommandOutcome::refused(format!("the sender was replaced by the leader of epoch {seen}"));
        }
        match command.command() {
            Ok(wanted) => self.book.carry_out(command.id, wanted).await,
            Err(unusable) => CommandOutcome::refused(unusable.to_string()),
        }
    }

    /// Offers an assignment to the pool. The epoch is checked first: an orchestrator that was frozen does not know that it was
    /// replaced, and finds out here.
    async fn assign(&self, epoch: Epoch, assignment: Result<Assignment, Unusable>) -> AssignReply {
        if let Err(seen) = self.latest.admit(epoch) {
            return AssignReply::StaleEpoch { seen };
        }
        let refused = |reason| AssignReply::Refused { reason };
        let assignment = match assignment {
            Ok(assignment) => assignment,
            Err(unusable) => return refused(unusable.to_string()),
        };
        let (ours, wanted) = (&self.pool.info.stage, &assignment.fence.stage);
        if ours != wanted {
            return refused(format!("this pool runs {ours}, not {wanted}"));
        }
        // A pool that has ended takes nothing, like one without a free slot: the lease is released uncharged.
        self.pool.assign(assignment).await.unwrap_or(AssignReply::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_has_been_succeeded_is_not_admitted() {
        let latest = LatestEpoch::default();
        assert_eq!(latest.admit(Epoch(3)), Ok(()));
        assert_eq!(latest.admit(Epoch(3)), Ok(()));
        assert_eq!(latest.admit(Epoch(2)), Err(Epoch(3)));
        assert_eq!(latest.admit(Epoch(4)), Ok(()));
        assert_eq!(latest.admit(Epoch(3)), Err(Epoch(4)));
    }
}
