use chrono::Utc;
use tracing::{info, warn};

use super::endpoint::{Answer, ORCHESTRATORS, introduction, request, seal, unexpected};
use super::name::NodeName;
use super::registry::NodeRegistry;
use crate::orchestrator::OrchestratorHandle;
use crate::supervisor::ControlPlane;
use crate::wire::{
    Askers, AskersReply, EndpointInfo, EndpointRole, Envelope, Fault, Handshake, Heartbeat, HeartbeatReply,
    Kind, NodeNotice, NodePhase, Notice, NoticeReply, Report, Spend, Unusable,
};
use parkhang_core::domain::{Epoch, ReportReply};

/// Lets the pools of other nodes reach the orchestrator of this node, while it leads.
#[derive(Clone)]
pub(super) struct OrchestratorEndpoint {
    pub node: NodeName,
    pub orchestrator: OrchestratorHandle,
    pub epoch: Epoch,
    pub registry: NodeRegistry,
}

impl Answer for OrchestratorEndpoint {
    const GROUP: &'static str = ORCHESTRATORS;

    async fn answer(&self, envelope: &Envelope) -> Result<Envelope, Fault> {
        match envelope.kind()? {
            Kind::Handshake => {
                let Handshake { peer } = request(envelope)?;
                info!(peer = %peer.node, build = %peer.build, protocol = peer.protocol, "handshake");
                seal(&EndpointInfo {
                    peer: introduction(&self.node),
                    role: EndpointRole::Orchestrator { epoch: self.epoch },
                })
            }
            Kind::Heartbeat => seal(&self.heartbeat(request(envelope)?).await),
            Kind::Report => {
                let report = request::<Report>(envelope)?;
                seal(&self.report(report).await?)
            }
            Kind::Spend => {
                let spend = request::<Spend>(envelope)?;
                seal(&self.orchestrator.spend(&spend.into()).await)
            }
            Kind::NodeNotice => {
                self.note(request(envelope)?)?;
                seal(&NoticeReply)
            }
            Kind::Askers => {
                let Askers { services } = request(envelope)?;
                let nodes = services.iter().map(|service| self.registry.askers(service));
                seal(&AskersReply {
                    nodes: nodes.collect(),
                })
            }
            kind => Err(unexpected(kind)),
        }
    }
}

impl OrchestratorEndpoint {
    fn note(&self, notice: NodeNotice) -> Result<(), Fault> {
        let notice = Notice::try_from(notice).map_err(|unusable| malformed(Kind::NodeNotice, &unusable))?;
        // Whatever was still assigned to a node that drains or leaves would only come back.
        if notice.phase != NodePhase::Working {
            for pool in &notice.about.pools {
                self.orchestrator.suspend(pool.worker.clone());
            }
        }
        self.registry.update(notice, Utc::now());
        Ok(())
    }

    async fn heartbeat(&self, heartbeat: Heartbeat) -> HeartbeatReply {
        let Heartbeat { worker, leases } = heartbeat;
        self.registry.heartbeat(&worker, &leases, Utc::now());
        HeartbeatReply {
            epoch: self.epoch,
            leases: ControlPlane::heartbeat(&self.orchestrator, &worker, leases).await,
        }
    }

    /// A report that was read and makes no sense is the sender's fault, as one that could not be read.
    async fn report(&self, report: Report) -> Result<ReportReply, Fault> {
        let report = report
            .into_report()
            .map_err(|unusable| malformed(Kind::Report, &unusable))?;
        let fence = report.fence.clone();
        let reply = self.orchestrator.report(report).await;
        if reply == ReportReply::Unrecorded {
            warn!(task = %fence.task, stage = %fence.stage, "a report cannot be recorded now; its node keeps it");
        }
        Ok(reply)
    }
}

fn malformed(kind: Kind, unusable: &Unusable) -> Fault {
    Fault::Malformed {
        kind: kind.number(),
        reason: unusable.to_string(),
    }
}
