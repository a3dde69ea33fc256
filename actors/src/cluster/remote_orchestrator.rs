//! The side of a node that works: the endpoints of its pools, and the leading orchestrator, on whichever node it is.

mod notices;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::endpoint::{AskError, Endpoint, LEASES_PER_MESSAGE, ORCHESTRATORS, ask, open_endpoint};
use super::endpoint_discovery::{EndpointDiscovery, EndpointDiscoveryArguments, EndpointEvent};
use super::name::NodeName;
use super::stage_endpoint::{LatestEpoch, StageEndpoint};
use crate::detached;
use crate::engines::Engine;
use crate::stage::ExpenseRecorder;
use crate::supervisor::{ControlPlane, IdempotentExecutor, NodeControl, PoolHandle};
use crate::telemetry::{HeartbeatAnswered, HeartbeatUnanswered};
use crate::wire::{EndpointRole, Heartbeat, NodeAbout, NodePhase, Report, ReportedOutcome, Spend};
use parkhang_core::domain::{
    Epoch, ErrorCategory, Expense, LeaseRenewal, LeaseReport, RenewalReply, ReportReply, SpendReply,
    StageError, StageVerdict, WorkerId,
};

/// Multiple of the call timeout for a report, which waits for a commit, and for as long as the database is away.
const CALLS_PER_REPORT: u32 = 5;
/// Multiple of the call timeout for a heartbeat, which waits for a statement.
const CALLS_PER_HEARTBEAT: u32 = 2;
/// Time for which new pools are gathered, so that pools which start together are described in one notice.
const GATHERING: Duration = Duration::from_millis(100);

/// Settings of a node that works for an orchestrator.
#[derive(Debug, Clone)]
pub struct UplinkConfig {
    /// Name of this node.
    pub node: NodeName,
    /// Name of the cluster: endpoints of another one are not seen.
    pub scope: String,
    /// Description of the node, without its pools and actors.
    pub about: NodeAbout,
    /// Services that the node asks while its stages wait, which the description is to tell of. They are asked nothing before its answer.
    pub engines: Vec<Engine>,
    /// Time between two descriptions sent to the leader.
    pub heartbeat: Duration,
    /// Time limit for the answer to a call that waits for nothing.
    pub call_timeout: Duration,
}

impl UplinkConfig {
    /// The defaults, for this node.
    pub fn new(node: NodeName, scope: &str) -> Self {
        Self {
            node,
            scope: scope.to_owned(),
            about: NodeAbout::default(),
            engines: Vec::new(),
            heartbeat: Duration::from_secs(5),
            call_timeout: Duration::from_secs(2),
        }
    }
}

/// A leading orchestrator.
#[derive(Debug, Clone)]
struct Leader {
    id: ActorId,
    endpoint: Endpoint,
    epoch: Epoch,
}

/// [`ControlPlane`] of the leading orchestrator on another node. Pools repeat their reports until they are recorded, so the
/// orchestrator may come and go.
#[derive(Debug, Clone)]
pub struct RemoteOrchestrator {
    actor: ActorRef<UplinkMsg>,
    leader: watch::Receiver<Option<Leader>>,
    latest: Arc<LatestEpoch>,
    book: IdempotentExecutor,
    call_timeout: Duration,
}

impl RemoteOrchestrator {
    /// Looks for orchestrators of the cluster from now on.
    ///
    /// # Errors
    ///
    /// When the actor cannot be started.
    pub fn start(config: UplinkConfig) -> BoxFuture<'static, Result<Self, SpawnErr>> {
        Box::pin(async move {
            let (sender, leader) = watch::channel(None);
            let (latest, call_timeout) = (Arc::new(LatestEpoch::default()), config.call_timeout);
            let book = IdempotentExecutor::default();
            for engine in &config.engines {
                engine.share(0);
            }
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
        })
    }

    /// Lets the leader describe this node's actors and give it commands, by this control, from now on. To be called once.
    pub fn open_control(&self, control: Arc<dyn NodeControl>) {
        self.book.open(control);
    }

    /// Waits until an orchestrator that leads has been found.
    pub async fn found(&self) {
        // Fails without a sender, which the actor holds: once that has ended, nothing is found any more.
        let _ = self.leader.clone().wait_for(Option::is_some).await;
    }

    /// Returns whether a leading orchestrator is connected.
    pub fn has_leader(&self) -> bool {
        self.leader.borrow().is_some()
    }

    /// Waits until no leading orchestrator has been connected for `time`.
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

    /// Tells the leader that this node takes no more work, or that it has released all its leases. Returns when the leader has
    /// answered, or does not in time.
    pub async fn announce(&self, phase: NodePhase) {
        let (sender, receiver) = ractor::concurrency::oneshot();
        if self.actor.cast(UplinkMsg::Announce(phase, sender.into())).is_ok() {
            // An uplink that stopped meanwhile has nobody to tell.
            let _ = receiver.await;
        }
    }

    /// Waits for the actor to end. Without [`RemoteOrchestrator::stop`] that is a failure.
    pub async fn ended(&self) {
        // An error says that it has ended already.
        let _ = self.actor.get_cell().wait(None).await;
    }

    /// Closes the endpoints of this node's pools.
    pub async fn stop(self) {
        // An error says that it has stopped already.
        let _ = self.actor.stop_and_wait(None, None).await;
    }

    fn leader(&self) -> Option<Leader> {
        self.leader.borrow().clone()
    }

    async fn send(&self, report: &Report) -> Result<ReportReply, AskError> {
        let leader = self.leader().ok_or(AskError::NoAnswer)?;
        let answer = ask(&leader.endpoint, report, CALLS_PER_REPORT * self.call_timeout).await;
        // The pool repeats its report. Handshakes with the orchestrator go on meanwhile, and found again once it answers.
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

    /// Closes the endpoint of the pool, without which no leader can give it work. Its heartbeats and reports go on.
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
            warn!(task = %report.fence.task, %error, "cannot send a verdict; reporting the stage as failed");
            // Or the pool would repeat it for ever, and the lease would be renewed as long.
            answer = self.send(&unreportable(&report, error)).await;
        }
        answer.unwrap_or(ReportReply::Unrecorded)
    }

    async fn heartbeat(&self, worker: &WorkerId, renewals: Vec<LeaseRenewal>) -> RenewalReply {
        let mut answer = RenewalReply::default();
        let Some(leader) = self.leader() else {
            HeartbeatUnanswered {
                worker,
                reason: &"no leading orchestrator is connected",
            }
            .emit();
            return answer;
        };
        for leases in renewals.chunks(LEASES_PER_MESSAGE) {
            let heartbeat = Heartbeat {
                worker: worker.clone(),
                leases: leases.to_vec(),
            };
            match ask(
                &leader.endpoint,
                &heartbeat,
                CALLS_PER_HEARTBEAT * self.call_timeout,
            )
            .await
            {
                // An orchestrator that was replaced does not know which leases its successor renewed: it may take live ones for lost.
                Ok(reply) if self.latest.admit(reply.epoch).is_ok() => {
                    HeartbeatAnswered.emit();
                    answer.lost.extend(reply.leases.lost);
                    answer.cancelled.extend(reply.leases.cancelled);
                }
                Ok(reply) => {
                    debug!(epoch = %reply.epoch, "ignoring the answer of an orchestrator that was replaced")
                }
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

#[async_trait]
impl ExpenseRecorder for RemoteOrchestrator {
    async fn record_expense(&self, expense: &Expense) -> SpendReply {
        let Some(leader) = self.leader() else {
            return SpendReply::Unrecorded;
        };
        let limit = CALLS_PER_HEARTBEAT * self.call_timeout;
        match ask(&leader.endpoint, &Spend::from(expense), limit).await {
            Ok(reply) => reply,
            Err(AskError::NoAnswer) => SpendReply::Unrecorded,
            Err(AskError::Misunderstood(error)) => {
                // An orchestrator of an earlier release counts no costs, and would refuse it each time.
                warn!(task = %expense.fence.task, %error, "an expense is not counted");
                SpendReply::Recorded
            }
        }
    }
}

/// Report that is sent instead of a verdict that cannot be.
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

/// Messages of the actor.
#[derive(RactorMessage)]
enum UplinkMsg {
    /// A pool needs an endpoint.
    Open(PoolHandle),
    /// A pool takes no more work.
    Close(WorkerId),
    /// An orchestrator has come or gone.
    Endpoint(EndpointEvent),
    /// An orchestrator did not answer.
    Doubt(ActorId),
    /// The timer of the descriptions of this node.
    Tell,
    /// The pools have changed since the last description.
    TellOfPools,
    /// The phase has changed; answered when the leader knows.
    Announce(NodePhase, RpcReplyPort<()>),
}

struct UplinkArguments {
    config: UplinkConfig,
    leader: watch::Sender<Option<Leader>>,
    latest: Arc<LatestEpoch>,
    book: IdempotentExecutor,
}

struct UplinkState {
    arguments: UplinkArguments,
    watch: EndpointDiscovery,
    endpoints: HashMap<WorkerId, (Endpoint, PoolHandle)>,
    /// A description because of new pools is due soon.
    new_pools: bool,
    phase: NodePhase,
    leaders: HashMap<ActorId, Leader>,
    /// Number of descriptions so far, by which one that was overtaken is dropped.
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
        let watch = EndpointDiscoveryArguments {
            node: arguments.config.node.clone(),
            scope: arguments.config.scope.clone(),
            group: ORCHESTRATORS,
            call_timeout: arguments.config.call_timeout,
            // Fails only when this actor has stopped.
            notify: Box::new(move |event| drop(heard.cast(UplinkMsg::Endpoint(event)))),
        };
        detached::send_later(&myself, arguments.config.heartbeat, UplinkMsg::Tell);
        Ok(UplinkState {
            watch: EndpointDiscovery::spawn(watch, myself.get_cell()).await?,
            arguments,
            endpoints: HashMap::new(),
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
                let endpoint = StageEndpoint {
                    node: state.arguments.config.node.clone(),
                    pool: pool.clone(),
                    latest: state.arguments.latest.clone(),
                    book: state.arguments.book.clone(),
                };
                let endpoint =
                    open_endpoint(endpoint, &state.arguments.config.scope, myself.get_cell()).await?;
                state.endpoints.insert(worker, (endpoint, pool));
                if !std::mem::replace(&mut state.new_pools, true) {
                    detached::send_later(&myself, GATHERING, UplinkMsg::TellOfPools);
                }
            }
            UplinkMsg::Close(worker) => {
                if let Some((endpoint, _)) = state.endpoints.remove(&worker) {
                    endpoint.stop(None);
                }
            }
            UplinkMsg::Endpoint(EndpointEvent::Found(id, endpoint, info)) => match info.role {
                EndpointRole::Orchestrator { epoch } => {
                    info!(%epoch, "found an orchestrator");
                    state.leaders.insert(id, Leader { id, endpoint, epoch });
                    state.follow();
                    // A leader knows nothing of this node before it is described to it.
                    state.notify(None);
                }
                EndpointRole::Stage(_) => {
                    warn!(endpoint = %id, "ignoring the endpoint of a stage in the group of orchestrators")
                }
            },
            UplinkMsg::Endpoint(EndpointEvent::Gone(id)) => {
                if let Some(leader) = state.leaders.remove(&id) {
                    info!(epoch = %leader.epoch, "an orchestrator is disconnected");
                    state.follow();
                }
            }
            UplinkMsg::Doubt(id) => state.watch.mark_suspect(id),
            UplinkMsg::Tell => {
                state.notify(None);
                detached::send_later(&myself, state.arguments.config.heartbeat, UplinkMsg::Tell);
            }
            UplinkMsg::TellOfPools => {
                state.new_pools = false;
                state.notify(None);
            }
            UplinkMsg::Announce(phase, reply) => {
                state.phase = phase;
                state.notify(Some(reply));
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
            // Without an endpoint its pool would be out of reach unnoticed; the end of this actor is seen in `ended`.
            SupervisionEvent::ActorFailed(_, error) => Err(error),
            _ => Ok(()),
        }
    }
}

impl UplinkState {
    /// Follows the connected orchestrator of the latest epoch; none if even that one is known to have been replaced.
    fn follow(&self) {
        let leader = self
            .leaders
            .values()
            .max_by_key(|leader| leader.epoch)
            .filter(|leader| self.arguments.latest.admit(leader.epoch).is_ok());
        self.arguments.leader.send_replace(leader.cloned());
    }
}
