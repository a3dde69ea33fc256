use std::time::Duration;

use async_trait::async_trait;
use ractor::ActorId;
use tracing::{error, warn};

use super::gate::{AskError, Gate, LEASES_PER_MESSAGE, ask};
use super::gate_watch::GateWatch;
use crate::domain::{Epoch, Fence, StageName, WorkerId};
use crate::orchestrator::{AssignReply, Executor};
use crate::stage::Assignment;
use crate::wire::{self, Assign, Cancel, Drain, StageOffer};

/// A pool of another node.
#[derive(Debug)]
pub(super) struct RemotePool {
    pub id: ActorId,
    pub gate: Gate,
    pub offer: StageOffer,
    /// Leadership under which this orchestrator assigns.
    pub epoch: Epoch,
    /// For an answer; a healthy node answers in milliseconds.
    pub call_timeout: Duration,
    pub watch: GateWatch,
}

#[async_trait]
impl Executor for RemotePool {
    fn worker(&self) -> &WorkerId {
        &self.offer.worker
    }

    fn stage(&self) -> &StageName {
        &self.offer.stage
    }

    fn slots(&self) -> usize {
        usize::try_from(self.offer.slots).unwrap_or(usize::MAX)
    }

    fn models(&self) -> &[String] {
        &self.offer.models
    }

    async fn assign(&self, assignment: Assignment) -> AssignReply {
        let assign = match Assign::new(&assignment, self.epoch) {
            Ok(assign) => assign,
            Err(unusable) => return AssignReply::Refused(unusable.to_string()),
        };
        match ask(&self.gate, &assign, self.call_timeout).await {
            Ok(wire::AssignReply::Accepted) => AssignReply::Accepted,
            Ok(wire::AssignReply::Busy) => AssignReply::Busy,
            Ok(wire::AssignReply::Draining) => AssignReply::Draining,
            Ok(wire::AssignReply::Refused { reason }) => AssignReply::Refused(reason),
            Ok(wire::AssignReply::StaleEpoch { seen }) => {
                error!(worker = %self.worker(), ours = %self.epoch, %seen, "a later leader assigns to this node");
                AssignReply::Deposed
            }
            Err(AskError::Misunderstood(error)) => AssignReply::Refused(error.to_string()),
            Err(AskError::NoAnswer) => {
                warn!(worker = %self.worker(), "no answer to an assignment");
                AssignReply::Unreachable
            }
        }
    }

    fn probe(&self) {
        self.watch.doubt(self.id);
    }

    fn cancel(&self, fences: Vec<Fence>) {
        let (gate, worker, epoch) = (self.gate.clone(), self.worker().clone(), self.epoch);
        let limit = self.call_timeout;
        tokio::spawn(async move {
            for fences in fences.chunks(LEASES_PER_MESSAGE) {
                let cancel = Cancel {
                    epoch,
                    fences: fences.to_vec(),
                };
                if let Err(error) = ask(&gate, &cancel, limit).await {
                    warn!(%worker, %error, "a node did not hear of a cancellation; its next heartbeat tells");
                }
            }
        });
    }

    fn drain(&self) {
        let (gate, worker, limit) = (self.gate.clone(), self.worker().clone(), self.call_timeout);
        tokio::spawn(async move {
            if let Err(error) = ask(&gate, &Drain, limit).await {
                warn!(%worker, %error, "a node did not hear of the drain");
            }
        });
    }
}
