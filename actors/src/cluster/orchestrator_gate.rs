use chrono::Utc;
use tracing::{info, warn};

use super::gate::{Answer, ORCHESTRATORS, introduction, request, seal, unexpected};
use super::name::NodeName;
use super::roster::Roster;
use crate::domain::Epoch;
use crate::orchestrator::OrchestratorHandle;
use crate::supervisor::{ControlPlane, Pulse};
use crate::wire::{
    Beat, BeatReply, Envelope, Fault, GateInfo, GateRole, Hello, Kind, NodeNotice, NodePhase, Notice,
    NoticeReply, Report, ReportReply, Unusable,
};

/// Lets the pools of other nodes reach the orchestrator of this node, while it leads.
#[derive(Clone)]
pub(super) struct OrchestratorGate {
    pub node: NodeName,
    pub orchestrator: OrchestratorHandle,
    pub epoch: Epoch,
    pub roster: Roster,
}

impl Answer for OrchestratorGate {
    const GROUP: &'static str = ORCHESTRATORS;

    async fn answer(&self, envelope: &Envelope) -> Result<Envelope, Fault> {
        match envelope.kind()? {
            Kind::Hello => {
                let Hello { peer } = request(envelope)?;
                info!(peer = %peer.node, build = %peer.build, protocol = peer.protocol, "greeted");
                seal(&GateInfo {
                    peer: introduction(&self.node),
                    role: GateRole::Orchestrator { epoch: self.epoch },
                })
            }
            Kind::Beat => seal(&self.beat(request(envelope)?).await),
            Kind::Report => {
                let report = request::<Report>(envelope)?;
                seal(&self.report(report).await?)
            }
            Kind::NodeNotice => {
                self.note(request(envelope)?)?;
                seal(&NoticeReply)
            }
            kind => Err(unexpected(kind)),
        }
    }
}

impl OrchestratorGate {
    fn note(&self, notice: NodeNotice) -> Result<(), Fault> {
        let notice = Notice::try_from(notice).map_err(|unusable| malformed(Kind::NodeNotice, &unusable))?;
        if notice.phase != NodePhase::Working {
            for pool in &notice.about.pools {
                self.orchestrator.suspend(pool.worker.clone());
            }
        }
        self.roster.told(notice, Utc::now());
        Ok(())
    }

    async fn beat(&self, beat: Beat) -> BeatReply {
        let pulses: Vec<Pulse> = beat.leases.into_iter().map(Pulse::from).collect();
        self.roster.beat(&beat.worker, &pulses, Utc::now());
        let renewal = ControlPlane::heartbeat(&self.orchestrator, &beat.worker, pulses).await;
        BeatReply {
            epoch: self.epoch,
            lost: renewal.lost,
            cancelled: renewal.cancelled,
        }
    }

    /// A report that was read and makes no sense is the sender's fault, as one that could not be read.
    async fn report(&self, report: Report) -> Result<ReportReply, Fault> {
        let report = report
            .into_report()
            .map_err(|unusable| malformed(Kind::Report, &unusable))?;
        Ok(match self.orchestrator.report(report).await {
            Ok(recording) => recording.into(),
            Err(unrecorded) => {
                warn!(error = %unrecorded, "the node keeps its report");
                ReportReply::Unrecorded
            }
        })
    }
}

fn malformed(kind: Kind, unusable: &Unusable) -> Fault {
    Fault::Malformed {
        kind: kind.number(),
        reason: unusable.to_string(),
    }
}
