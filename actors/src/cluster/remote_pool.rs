use std::time::Duration;

use async_trait::async_trait;
use ractor::ActorId;
use tracing::{error, warn};

use super::endpoint::{AskError, Endpoint, LEASES_PER_MESSAGE, ask};
use super::endpoint_discovery::EndpointDiscovery;
use crate::detached;
use crate::orchestrator::{Executor, Unreachable};
use crate::wire::{Assign, AssignDocument, Cancel, Drain};
use parkhang_core::domain::{AssignReply, Assignment, Epoch, Fence, PoolInfo};

/// A pool of another node.
#[derive(Debug)]
pub(super) struct RemotePool {
    pub id: ActorId,
    pub endpoint: Endpoint,
    pub info: PoolInfo,
    /// Epoch of this orchestrator's leadership.
    pub epoch: Epoch,
    /// Time limit for an answer; a healthy node answers in milliseconds.
    pub call_timeout: Duration,
    pub watch: EndpointDiscovery,
}

#[async_trait]
impl Executor for RemotePool {
    fn info(&self) -> &PoolInfo {
        &self.info
    }

    async fn assign(&self, assignment: Assignment) -> Result<AssignReply, Unreachable> {
        let assign = match Assign::new(&assignment, self.epoch) {
            Ok(assign) => assign,
            // Sent again it would fail again, so it counts as a failed try.
            Err(unusable) => return Ok(refused(&unusable)),
        };
        let asked = match assignment.document {
            None => ask(&self.endpoint, &assign, self.call_timeout).await,
            Some(document) => {
                let document = document.into();
                let assign = AssignDocument { assign, document };
                ask(&self.endpoint, &assign, self.call_timeout).await
            }
        };
        match asked {
            Ok(reply) => {
                if let AssignReply::StaleEpoch { seen } = reply {
                    error!(worker = %self.info.worker, ours = %self.epoch, %seen, "a later leader assigns to this node");
                }
                Ok(reply)
            }
            Err(AskError::Misunderstood(error)) => Ok(refused(&error)),
            Err(AskError::NoAnswer) => {
                warn!(worker = %self.info.worker, "no answer to an assignment");
                Err(Unreachable)
            }
        }
    }

    fn probe(&self) {
        self.watch.mark_suspect(self.id);
    }

    fn cancel(&self, fences: Vec<Fence>) {
        let (endpoint, worker, epoch) = (self.endpoint.clone(), self.info.worker.clone(), self.epoch);
        let limit = self.call_timeout;
        detached::spawn(async move {
            for fences in fences.chunks(LEASES_PER_MESSAGE) {
                let cancel = Cancel {
                    epoch,
                    fences: fences.to_vec(),
                };
                if let Err(error) = ask(&endpoint, &cancel, limit).await {
                    warn!(%worker, %error, "cannot notify a node of a cancellation; its next heartbeat tells it");
                }
            }
        });
    }

    fn drain(&self) {
        let (endpoint, worker, limit) = (self.endpoint.clone(), self.info.worker.clone(), self.call_timeout);
        detached::spawn(async move {
            if let Err(error) = ask(&endpoint, &Drain, limit).await {
                warn!(%worker, %error, "cannot ask a node to drain");
            }
        });
    }
}

fn refused(reason: &dyn std::fmt::Display) -> AssignReply {
    AssignReply::Refused {
        reason: reason.to_string(),
    }
}
