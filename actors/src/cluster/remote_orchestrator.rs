//! A node's side of the cluster: the gates of its pools, and the orchestrator that leads, wherever it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::gate::{AskError, Gate, LEASES_PER_MESSAGE, ORCHESTRATORS, ask, introduction, open_gate};
use super::gate_watch::{GateEvent, GateWatch, GateWatchArguments};
use super::name::NodeName;
use super::stage_gate::{LatestEpoch, StageGate};
use crate::supervisor::{ControlPlane, NodeDesk, OrderBook, PoolHandle};
use crate::telemetry::{HeartbeatAnswered, HeartbeatUnanswered, resident_bytes};
use crate::wire::{
    GateRole, Heartbeat, NodeAbout, NodeNotice, NodePhase, Notice, PoolAbout, Report, ReportedOutcome,
};
use parkhang_core::domain::{
    Epoch, ErrorCategory, LeaseRenewal, LeaseReport, RenewalReply, ReportReply, StageError, StageVerdict,
    WorkerId,
};

/// A report waits for a commit, and for as long as the database is away: so many answers' time.
const CALLS_PER_REPORT: u32 = 5;
/// A heartbeat waits for a statement.
const CALLS_PER_HEARTBEAT: u32 = 2;
/// Pools that open together are told of together.
const GATHERING: Duration = Duration::from_millis(100);

/// How a node takes part in the work.
#[derive(Debug, Clone)]
pub struct UplinkConfig {
    pub node: NodeName,
    /// Name of the cluster: gates of another one are not seen.
    pub scope: String,
    /// What the node tells of itself, its pools aside.
    pub about: NodeAbout,
    /// How often it does.
    pub heartbeat: Duration,
    /// For the answer to a call that waits for nothing.
    pub call_timeout: Duration,
}

impl UplinkConfig {
    pub fn new(node: NodeName, scope: &str) -> Self {
        Self {
            node,
            scope: scope.to_owned(),
            about: NodeAbout::default(),
            heartbeat: Duration::from_secs(5),
            call_timeout: Duration::from_secs(2),
        }
    }
}

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
    book: OrderBook,
    call_timeout: Duration,
}

impl RemoteOrchestrator {
    /// Looks for orchestrators of the cluster from now on.
    pub async fn start(config: UplinkConfig) -> Result<Self, SpawnErr> {
        let (sender, leader) = watch::channel(None);
        let (latest, call_timeout) = (Arc::new(LatestEpoch::default()), config.call_timeout);
        let book = OrderBook::default();
        let arguments = UplinkArguments {
            config,
            leader: sender,
            latest: latest.clone(),
            book: book.clone(),
        };
        let (actor, _) = Actor::spawn(None, Uplink, arguments).await?;
        Ok(Self {
            actor,
            leader,
            latest,
            book,
            call_timeout,
        })
    }

    /// From now on the leader hears of this node's actors, and gives it orders, at this desk. To be called once.
    pub fn open_desk(&self, desk: Arc<dyn NodeDesk>) {
        self.book.open(desk);
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

    /// Waits until no orchestrator that leads has been in touch for so long.
    pub async fn absent(&self, time: Duration) {
        let mut leader = self.leader.clone();
        loop {
            // Without the sender nothing will be found any more.
            if leader.wait_for(Option::is_none).await.is_err() {
                return;
            }
            let found = tokio::time::timeout(time, leader.wait_for(Option::is_some)).await;
            if !matches!(found, Ok(Ok(_))) {
                return;
            }
        }
    }

    /// Tells the leader that this node takes no more work, or that it has handed back all that it had. Returns when it has
    /// heard, or does not answer in time.
    pub async fn announce(&self, phase: NodePhase) {
        let (sender, receiver) = ractor::concurrency::oneshot();
        if self.actor.cast(UplinkMsg::Announce(phase, sender.into())).is_ok() {
            // An uplink that stopped meanwhile has nobody to tell.
            let _ = receiver.await;
        }
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
        let answer = ask(&leader.gate, report, CALLS_PER_REPORT * self.call_timeout).await;
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

    /// Without its gate no leader can give it work.
    fn suspend(&self, worker: WorkerId) {
        self.deregister(worker);
    }

    fn deregister(&self, worker: WorkerId) {
        // Fails only when this side is stopping.
        let _ = self.actor.cast(UplinkMsg::Close(worker));
    }

    async fn report(&self, report: LeaseReport) -> ReportReply {
        let message = Report::new(&report).unwrap_or_else(|unusable| unreportable(&report, &unusable));
        let mut answer = self.send(&message).await;
        if let Err(AskError::Misunderstood(error)) = &answer {
            warn!(task = %report.fence.task, %error, "a verdict cannot be sent; the stage is reported as failed");
            answer = self.send(&unreportable(&report, error)).await;
        }
        answer.unwrap_or(ReportReply::Unrecorded)
    }

    async fn heartbeat(&self, worker: &WorkerId, renewals: Vec<LeaseRenewal>) -> RenewalReply {
        let mut answer = RenewalReply::default();
        let Some(leader) = self.leader() else {
            HeartbeatUnanswered {
                worker,
                reason: &"nobody leads",
            }
            .emit();
            return answer;
        };
        for leases in renewals.chunks(LEASES_PER_MESSAGE) {
            let heartbeat = Heartbeat {
                worker: worker.clone(),
                leases: leases.to_vec(),
            };
            match ask(&leader.gate, &heartbeat, CALLS_PER_HEARTBEAT * self.call_timeout).await {
                // An orchestrator that has been succeeded does not know what its successor renewed.
                Ok(reply) if self.latest.admit(reply.epoch).is_ok() => {
                    HeartbeatAnswered.emit();
                    answer.lost.extend(reply.leases.lost);
                    answer.cancelled.extend(reply.leases.cancelled);
                }
                Ok(reply) => debug!(epoch = %reply.epoch, "an earlier leader answered"),
                Err(error) => HeartbeatUnanswered {
                    worker,
                    reason: &error,
                }
                .emit(),
            }
        }
        answer
    }
}

/// What is said instead of a verdict that cannot be said.
fn unreportable(report: &LeaseReport, reason: &dyn std::fmt::Display) -> Report {
    let error = StageError::new(report.fence.stage.as_str(), ErrorCategory::Runtime, "");
    let failure = LeaseReport {
        fence: report.fence.clone(),
        verdict: Some(StageVerdict::Failed(StageError {
            message: format!("the stage ended, and its report could not be sent: {reason}"),
            ..error
        })),
    };
    Report::new(&failure).unwrap_or(Report {
        fence: failure.fence,
        outcome: ReportedOutcome::Died,
    })
}

#[derive(RactorMessage)]
enum UplinkMsg {
    Open(PoolHandle),
    Close(WorkerId),
    Gate(GateEvent),
    Doubt(ActorId),
    /// Time to tell of this node again.
    Tell,
    /// Its pools are others than it told of.
    TellOfPools,
    Announce(NodePhase, RpcReplyPort<()>),
}

struct UplinkArguments {
    config: UplinkConfig,
    leader: watch::Sender<Option<Leader>>,
    latest: Arc<LatestEpoch>,
    book: OrderBook,
}

struct UplinkState {
    arguments: UplinkArguments,
    watch: GateWatch,
    gates: HashMap<WorkerId, (Gate, PoolHandle)>,
    /// Soon to be told of.
    new_pools: bool,
    phase: NodePhase,
    leaders: HashMap<ActorId, Leader>,
    /// Counts what this node tells of itself.
    notices: Arc<AtomicU64>,
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
            node: arguments.config.node.clone(),
            scope: arguments.config.scope.clone(),
            group: ORCHESTRATORS,
            call_timeout: arguments.config.call_timeout,
            // Fails only when this actor has stopped.
            tell: Box::new(move |event| drop(heard.cast(UplinkMsg::Gate(event)))),
        };
        myself.send_after(arguments.config.heartbeat, || UplinkMsg::Tell);
        Ok(UplinkState {
            watch: GateWatch::spawn(watch, myself.get_cell()).await?,
            arguments,
            gates: HashMap::new(),
            new_pools: false,
            phase: NodePhase::Working,
            leaders: HashMap::new(),
            notices: Arc::default(),
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
                let worker = pool.info.worker.clone();
                let gate = StageGate {
                    node: state.arguments.config.node.clone(),
                    pool: pool.clone(),
                    latest: state.arguments.latest.clone(),
                    book: state.arguments.book.clone(),
                };
                let gate = open_gate(gate, &state.arguments.config.scope, myself.get_cell()).await?;
                state.gates.insert(worker, (gate, pool));
                if !std::mem::replace(&mut state.new_pools, true) {
                    myself.send_after(GATHERING, || UplinkMsg::TellOfPools);
                }
            }
            UplinkMsg::Close(worker) => {
                if let Some((gate, _)) = state.gates.remove(&worker) {
                    gate.stop(None);
                }
            }
            UplinkMsg::Gate(GateEvent::Found(id, gate, info)) => match info.role {
                GateRole::Orchestrator { epoch } => {
                    info!(%epoch, "found an orchestrator");
                    state.leaders.insert(id, Leader { id, gate, epoch });
                    state.follow();
                    state.tell(None);
                }
                GateRole::Stage(_) => warn!(gate = %id, "a stage among the orchestrators"),
            },
            UplinkMsg::Gate(GateEvent::Gone(id)) => {
                if let Some(leader) = state.leaders.remove(&id) {
                    info!(epoch = %leader.epoch, "an orchestrator is out of touch");
                    state.follow();
                }
            }
            UplinkMsg::Doubt(id) => state.watch.doubt(id),
            UplinkMsg::Tell => {
                state.tell(None);
                myself.send_after(state.arguments.config.heartbeat, || UplinkMsg::Tell);
            }
            UplinkMsg::TellOfPools => {
                state.new_pools = false;
                state.tell(None);
            }
            UplinkMsg::Announce(phase, reply) => {
                state.phase = phase;
                state.tell(Some(reply));
            }
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
    /// Tells the leader of this node; `reply` hears when that is over. A leader of an earlier build does not understand it,
    /// and needs not to.
    fn tell(&self, reply: Option<RpcReplyPort<()>>) {
        let config = &self.arguments.config;
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let pools = self.gates.values().map(|(_, pool)| PoolAbout {
            worker: pool.info.worker.clone(),
            stage: pool.info.stage.clone(),
            slots: count(pool.info.slots),
            in_use: count(pool.in_use()),
            models: pool.info.models.clone(),
        });
        let mut notice = Notice {
            peer: introduction(&config.node),
            phase: self.phase,
            about: NodeAbout {
                pools: pools.collect(),
                resident: resident_bytes(),
                ..config.about.clone()
            },
        };
        let (leader, limit) = (self.arguments.leader.borrow().clone(), config.call_timeout);
        let (book, notices) = (self.arguments.book.clone(), self.notices.clone());
        let number = notices.fetch_add(1, Ordering::Relaxed) + 1;
        tokio::spawn(async move {
            if notice.phase != NodePhase::Leaving {
                // Actors that take too long are told of the next time.
                let actors = tokio::time::timeout(limit, book.actors()).await;
                notice.about.actors = actors.unwrap_or_default();
                notice.about = notice.about.fit();
            }
            if reply.is_none() && notices.load(Ordering::Relaxed) != number {
                // What was told since is newer.
                return;
            }
            if let (Some(leader), Ok(notice)) = (leader, NodeNotice::try_from(&notice))
                && let Err(error) = ask(&leader.gate, &notice, limit).await
            {
                debug!(%error, "the leader did not take note of this node");
            }
            // Whoever waits may have lost patience.
            if let Some(reply) = reply {
                let _ = reply.send(());
            }
        });
    }

    /// Of those in touch the latest leads; if even that one has been succeeded, nobody does.
    fn follow(&self) {
        let last = self.leaders.values().max_by_key(|leader| leader.epoch);
        let leader = last.filter(|leader| self.arguments.latest.admit(leader.epoch).is_ok());
        self.arguments.leader.send_replace(leader.cloned());
    }
}
