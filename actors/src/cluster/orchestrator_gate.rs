use std::sync::Arc;

use tracing::{info, warn};

use super::gate::{Answer, ORCHESTRATORS, introduction, request, seal, unexpected};
use super::name::NodeName;
use crate::domain::Epoch;
use crate::orchestrator::OrchestratorHandle;
use crate::supervisor::{ControlPlane, Pulse};
use crate::telemetry::ProgressBoard;
use crate::wire::{Beat, BeatReply, Envelope, Fault, GateInfo, GateRole, Hello, Kind, Report, ReportReply};

/// Lets the pools of other nodes reach the orchestrator of this node, while it leads.
#[derive(Clone)]
pub(super) struct OrchestratorGate {
    pub node: NodeName,
    pub orchestrator: OrchestratorHandle,
    pub epoch: Epoch,
    pub progress: Arc<ProgressBoard>,
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
            kind => Err(unexpected(kind)),
        }
    }
}

impl OrchestratorGate {
    async fn beat(&self, beat: Beat) -> BeatReply {
        let pulses: Vec<Pulse> = beat.leases.into_iter().map(Pulse::from).collect();
        for pulse in &pulses {
            if let Some(progress) = pulse.progress {
                self.progress.observe(&pulse.volume, &pulse.fence.stage, progress);
            }
        }
        let renewal = ControlPlane::heartbeat(&self.orchestrator, &beat.worker, pulses).await;
        BeatReply {
            epoch: self.epoch,
            lost: renewal.lost,
            cancelled: renewal.cancelled,
        }
    }

    /// A report that was read and makes no sense is the sender's fault, as one that could not be read.
    async fn report(&self, report: Report) -> Result<ReportReply, Fault> {
        let report = report.into_report().map_err(|unusable| Fault::Malformed {
            kind: Kind::Report.number(),
            reason: unusable.to_string(),
        })?;
        Ok(match self.orchestrator.report(report).await {
            Ok(recording) => recording.into(),
            Err(unrecorded) => {
                warn!(error = %unrecorded, "the node keeps its report");
                ReportReply::Unrecorded
            }
        })
    }
}
