//! A node's side of the cluster: the gates of its pools, and the orchestrator that leads, wherever it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::gate::{AskError, Gate, LEASES_PER_MESSAGE, ORCHESTRATORS, ask, open_gate};
use super::gate_watch::{GateEvent, GateWatch, GateWatchArguments};
use super::name::NodeName;
use super::stage_gate::{LatestEpoch, StageGate};
use crate::domain::{Epoch, ErrorCategory, StageError, WorkerId};
use crate::orchestrator::{self, Recording, Unrecorded};
use crate::stage::StageVerdict;
use crate::supervisor::{ControlPlane, PoolHandle, Pulse, Renewal};
use crate::telemetry::{HeartbeatAnswered, HeartbeatUnanswered};
use crate::wire::{Beat, GateRole, LeaseBeat, Report, ReportReply};

/// A report waits for a commit, and for as long as the database is away.
const REPORT_LIMIT: Duration = Duration::from_secs(10);
const BEAT_LIMIT: Duration = Duration::from_secs(4);

/// The orchestrator that leads.
#[derive(Debug, Clone)]
struct Leader {
    id: ActorId,
    gate: Gate,
    epoch: Epoch,
}

/// A [`ControlPlane`] on another node. Pools keep their reports until one is recorded, so it may come and go.
#[derive(Debug, Clone)]
pub struct RemoteOrchestrator {
    actor: ActorRef<UplinkMsg>,
    leader: watch::Receiver<Option<Leader>>,
    latest: Arc<LatestEpoch>,
}

impl RemoteOrchestrator {
    /// Looks for orchestrators in the cluster named `scope` from now on.
    pub async fn start(node: NodeName, scope: &str) -> Result<Self, SpawnErr> {
        let (sender, leader) = watch::channel(None);
        let latest = Arc::new(LatestEpoch::default());
        let arguments = UplinkArguments {
            node,
            scope: scope.to_owned(),
            leader: sender,
            latest: latest.clone(),
        };
        let (actor, _) = Actor::spawn(None, Uplink, arguments).await?;
        Ok(Self {
            actor,
            leader,
            latest,
        })
    }

    /// Waits until an orchestrator that leads has been found.
    pub async fn found(&self) {
        // The sender lives as long as the actor; without it nothing will be found.
        let _ = self.leader.clone().wait_for(Option::is_some).await;
    }

    /// Whether an orchestrator that leads is in touch.
    pub fn has_leader(&self) -> bool {
        self.leader.borrow().is_some()
    }

    /// Waits for its end, which before [`RemoteOrchestrator::stop`] is a failure.
    pub async fn ended(&self) {
        // Ended already is as good.
        let _ = self.actor.get_cell().wait(None).await;
    }

    /// Closes the gates of this node's pools.
    pub async fn stop(self) {
        // Already stopped is as good.
        let _ = self.actor.stop_and_wait(None, None).await;
    }

    fn leader(&self) -> Option<Leader> {
        self.leader.borrow().clone()
    }

    async fn send(&self, report: &Report) -> Result<ReportReply, AskError> {
        let leader = self.leader().ok_or(AskError::NoAnswer)?;
        let answer = ask(&leader.gate, report, REPORT_LIMIT).await;
        if matches!(answer, Err(AskError::NoAnswer)) {
            // Fails only when this side is stopping.
            let _ = self.actor.cast(UplinkMsg::Doubt(leader.id));
        }
        answer
    }
}

#[async_trait]
impl ControlPlane for RemoteOrchestrator {
    fn register(&self, pool: PoolHandle) {
        // Fails only when this side is stopping.
        let _ = self.actor.cast(UplinkMsg::Open(pool));
    }

    fn deregister(&self, worker: WorkerId) {
        // Fails only when this side is stopping.
        let _ = self.actor.cast(UplinkMsg::Close(worker));
    }

    async fn report(&self, report: orchestrator::Report) -> Result<Recording, Unrecorded> {
        let message = Report::new(&report).unwrap_or_else(|unusable| unreportable(&report, &unusable));
        let mut answer = self.send(&message).await;
        if let Err(AskError::Misunderstood(error)) = &answer {
            warn!(task = %report.fence.task, %error, "a verdict cannot be sent; the stage is reported as failed");
            answer = self.send(&unreportable(&report, error)).await;
        }
        match answer {
            Ok(ReportReply::Recorded) => Ok(Recording::Recorded),
            Ok(ReportReply::Fenced) => Ok(Recording::Fenced),
            Ok(ReportReply::Unrecorded) | Err(_) => Err(Unrecorded),
        }
    }

    async fn heartbeat(&self, worker: &WorkerId, pulses: Vec<Pulse>) -> Renewal {
        let mut renewal = Renewal::default();
        let Some(leader) = self.leader() else {
            HeartbeatUnanswered {
                worker,
                reason: &"nobody leads",
            }
            .emit();
            return renewal;
        };
        let leases: Vec<LeaseBeat> = pulses.into_iter().map(LeaseBeat::from).collect();
        for leases in leases.chunks(LEASES_PER_MESSAGE) {
            let beat = Beat {
                worker: worker.clone(),
                leases: leases.to_vec(),
            };
            match ask(&leader.gate, &beat, BEAT_LIMIT).await {
                // An orchestrator that has been succeeded does not know what its successor renewed.
                Ok(reply) if self.latest.admit(reply.epoch).is_ok() => {
                    HeartbeatAnswered.emit();
                    renewal.lost.extend(reply.lost);
                    renewal.cancelled.extend(reply.cancelled);
                }
                Ok(reply) => debug!(epoch = %reply.epoch, "an earlier leader answered"),
                Err(error) => HeartbeatUnanswered {
                    worker,
                    reason: &error,
                }
                .emit(),
            }
        }
        renewal
    }
}

/// What is said instead of a verdict that cannot be said.
fn unreportable(report: &orchestrator::Report, reason: &dyn std::fmt::Display) -> Report {
    let error = StageError::new(report.fence.stage.as_str(), ErrorCategory::Runtime, "");
    let failure = orchestrator::Report {
        fence: report.fence.clone(),
        verdict: Some(StageVerdict::Failed(StageError {
            message: format!("the stage ended, and its report could not be sent: {reason}"),
            ..error
        })),
    };
    Report::new(&failure).unwrap_or(Report {
        fence: failure.fence,
        outcome: crate::wire::Outcome::Died,
    })
}

#[derive(RactorMessage)]
enum UplinkMsg {
    Open(PoolHandle),
    Close(WorkerId),
    Gate(GateEvent),
    Doubt(ActorId),
}

struct UplinkArguments {
    node: NodeName,
    scope: String,
    leader: watch::Sender<Option<Leader>>,
    latest: Arc<LatestEpoch>,
}

struct UplinkState {
    arguments: UplinkArguments,
    watch: GateWatch,
    gates: HashMap<WorkerId, Gate>,
    leaders: HashMap<ActorId, Leader>,
}

struct Uplink;

impl Actor for Uplink {
    type Msg = UplinkMsg;
    type State = UplinkState;
    type Arguments = UplinkArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<UplinkMsg>,
        arguments: UplinkArguments,
    ) -> Result<UplinkState, ActorProcessingErr> {
        let heard = myself.clone();
        let watch = GateWatchArguments {
            node: arguments.node.clone(),
            scope: arguments.scope.clone(),
            group: ORCHESTRATORS,
            // Fails only when this actor has stopped.
            tell: Box::new(move |event| drop(heard.cast(UplinkMsg::Gate(event)))),
        };
        Ok(UplinkState {
            watch: GateWatch::spawn(watch, myself.get_cell()).await?,
            arguments,
            gates: HashMap::new(),
            leaders: HashMap::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<UplinkMsg>,
        message: UplinkMsg,
        state: &mut UplinkState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            UplinkMsg::Open(pool) => {
                let worker = pool.worker.clone();
                let gate = StageGate {
                    node: state.arguments.node.clone(),
                    pool,
                    latest: state.arguments.latest.clone(),
                };
                let gate = open_gate(gate, &state.arguments.scope, myself.get_cell()).await?;
                state.gates.insert(worker, gate);
            }
            UplinkMsg::Close(worker) => {
                if let Some(gate) = state.gates.remove(&worker) {
                    gate.stop(None);
                }
            }
            UplinkMsg::Gate(GateEvent::Found(id, gate, GateRole::Orchestrator { epoch })) => {
                info!(%epoch, "found an orchestrator");
                state.leaders.insert(id, Leader { id, gate, epoch });
                state.follow();
            }
            UplinkMsg::Gate(GateEvent::Found(id, _, GateRole::Stage(_))) => {
                warn!(gate = %id, "a stage among the orchestrators");
            }
            UplinkMsg::Gate(GateEvent::Gone(id)) => {
                if let Some(leader) = state.leaders.remove(&id) {
                    info!(epoch = %leader.epoch, "an orchestrator is out of touch");
                    state.follow();
                }
            }
            UplinkMsg::Doubt(id) => state.watch.doubt(id),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<UplinkMsg>,
        event: SupervisionEvent,
        _: &mut UplinkState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(_, error) => Err(error),
            _ => Ok(()),
        }
    }
}

impl UplinkState {
    /// Of those in touch the latest leads; if even that one has been succeeded, nobody does.
    fn follow(&self) {
        let last = self.leaders.values().max_by_key(|leader| leader.epoch);
        let leader = last.filter(|leader| self.arguments.latest.admit(leader.epoch).is_ok());
        self.arguments.leader.send_replace(leader.cloned());
    }
}
