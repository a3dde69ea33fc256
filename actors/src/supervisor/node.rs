//! The root of a node's actors: it starts a pool for every stage that fits the hardware, registers it with the control plane,
//! and replaces a pool that dies. A pool that keeps dying ends the node, so that the service manager can see it.

mod commands;
mod repair;
mod tree;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{error, warn};

use self::commands::Fate;
use self::repair::Repair;
use super::control_plane::ControlPlane;
use super::health::HealthPolicy;
use super::lease_gauge::LeaseGauge;
use super::pool::{Drained, PoolArguments, PoolHandle, PoolMsg, StagePool};
use super::restarts::Restarts;
use crate::detached;
use crate::stage::{StageLogic, StageRegistry};
use crate::telemetry::ProgressBoard;
use parkhang_core::domain::{ActorRecord, CommandOutcome, Hardware, StageName, Unfit, WorkerId};

/// Name of the root of a node's stages.
const SUPERVISOR: &str = "supervisor";

/// Settings of a node and the parts that it works with.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Name of the node, unique per process start.
    pub name: String,
    /// Slots of each stage that needs this hardware; stages of hardware that is missing do not run here.
    pub slots: HashMap<Hardware, usize>,
    /// The stages.
    pub registry: Arc<StageRegistry>,
    /// Board on which stage runs show their progress.
    pub progress: Arc<ProgressBoard>,
    /// Source of the work.
    pub control_plane: Arc<dyn ControlPlane>,
    /// Time between two renewals of the leases; well below the lease.
    pub heartbeat: Duration,
    /// Limits by which pools are replaced.
    pub health: HealthPolicy,
}

/// A stage that a node cannot run for the time being.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfOrder {
    /// The fault.
    pub reason: String,
    /// True if the stage is not tried again until an operator restarts it.
    pub out_of_service: bool,
}

/// The stages of a node that are out of order.
pub type StagesOutOfOrder = BTreeMap<StageName, OutOfOrder>;

/// Handle on a node's supervisor.
#[derive(Debug, Clone)]
pub struct NodeSupervisor {
    actor: ActorRef<NodeMsg>,
    lease_gauge: LeaseGauge,
    out_of_order: watch::Receiver<StagesOutOfOrder>,
}

impl NodeSupervisor {
    /// Starts the supervisor, which starts the pools.
    ///
    /// # Errors
    ///
    /// When the actor cannot be started.
    pub fn start(config: NodeConfig) -> BoxFuture<'static, Result<Self, ractor::SpawnErr>> {
        Box::pin(async move {
            let lease_gauge = LeaseGauge::default();
            let (sender, out_of_order) = watch::channel(StagesOutOfOrder::new());
            let (actor, _) = Actor::spawn(None, NodeActor, (config, lease_gauge.clone(), sender)).await?;
            Ok(Self {
                actor,
                lease_gauge,
                out_of_order,
            })
        })
    }

    /// Stages that the node cannot run for the time being, as a channel of changes.
    pub fn out_of_order(&self) -> watch::Receiver<StagesOutOfOrder> {
        self.out_of_order.clone()
    }

    /// Waits until a stage is taken out of service.
    pub async fn out_of_service(&self) -> (StageName, OutOfOrder) {
        let gone = |stages: &StagesOutOfOrder| {
            stages
                .iter()
                .find(|(_, stage)| stage.out_of_service)
                .map(|(name, stage)| (name.clone(), stage.clone()))
        };
        let mut changes = self.out_of_order.clone();
        let found = match changes.wait_for(|stages| gone(stages).is_some()).await {
            Ok(stages) => gone(&stages),
            // The node has ended, for which `ended` is there.
            Err(_) => None,
        };
        match found {
            Some(found) => found,
            None => std::future::pending().await,
        }
    }

    /// Takes no more work, lets the stages stop at their next checkpoint, and returns when every lease has been released.
    pub async fn drain(&self) {
        self.drain_until(Drained::Released).await;
    }

    /// Drains like [`NodeSupervisor::drain`], but returns as soon as no stage runs: their work is checkpointed, and leases whose
    /// end is not recorded yet are still held.
    pub async fn checkpoint(&self) {
        self.drain_until(Drained::Checkpointed).await;
    }

    async fn drain_until(&self, drained: Drained) {
        let (sender, receiver) = ractor::concurrency::oneshot();
        if self.actor.cast(NodeMsg::Drain(drained, sender.into())).is_ok() {
            // A node that stopped meanwhile has nothing left to drain.
            let _ = receiver.await;
        }
    }

    /// Waits until the node's pools have held no lease for `time`.
    pub async fn idle_for(&self, time: Duration) {
        self.lease_gauge.idle_for(time).await;
    }

    /// Describes the supervisor, its pools and their workers and devices; none once it has ended.
    pub async fn actors(&self) -> Vec<ActorRecord> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        match self.actor.cast(NodeMsg::Describe(sender.into())) {
            Ok(()) => receiver.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Replaces an actor, by the name that [`NodeSupervisor::actors`] gives it; its leases are released uncharged. A worker is
    /// not started anew: its slot is free, and the stage runs again where there is room.
    pub async fn restart(&self, actor: &str) -> CommandOutcome {
        self.end(actor, Fate::Restarted).await
    }

    /// Kills an actor, as a fault would.
    pub async fn kill(&self, actor: &str) -> CommandOutcome {
        self.end(actor, Fate::Killed).await
    }

    async fn end(&self, actor: &str, fate: Fate) -> CommandOutcome {
        let (sender, receiver) = ractor::concurrency::oneshot();
        let command = NodeMsg::End(actor.to_owned(), fate, sender.into());
        let answer = match self.actor.cast(command) {
            Ok(()) => receiver.await.ok(),
            Err(_) => None,
        };
        answer.unwrap_or_else(|| CommandOutcome::refused("the node's supervisor has ended"))
    }

    /// Waits for the node to end. Without [`NodeSupervisor::stop`] that is a failure.
    pub async fn ended(&self) {
        // An error says that it has ended already.
        let _ = self.actor.get_cell().wait(None).await;
    }

    /// Stops the node's actors. Stages that still run are cut off at their next await; their leases expire.
    pub async fn stop(self) {
        // An error says that it has stopped already.
        let _ = self.actor.stop_and_wait(None, None).await;
    }
}

/// Messages of the supervisor.
#[derive(RactorMessage)]
pub(super) enum NodeMsg {
    /// A pool of the stage is to be started, with so many slots.
    Start(Arc<dyn StageLogic>, usize),
    /// The pool makes no progress. It ends by itself once it is judged and its leases are released.
    Stalled(ActorId),
    /// A stage returned because the node is out of order, for this reason.
    Faulted(ActorId, String),
    /// The pool has read its first page.
    Proven(ActorId),
    /// The stage is to get a new thread, and then to be tested.
    Renew(StageName),
    /// The stage is to be tested.
    Ask(StageName),
    /// Result of the test; `None` without an answer in time.
    Checked(StageName, Option<Result<(), Unfit>>),
    /// The time is over in which the pool of this number was to show whether it works without the volumes that stood still.
    Judge(StageName, u64),
    /// The leases have been released as far as possible, and the node ends for this reason.
    GiveUp(String),
    /// No more work is to be taken; answered when the drain has come so far.
    Drain(Drained, RpcReplyPort<()>),
    /// The actors are to be described.
    Describe(RpcReplyPort<Vec<ActorRecord>>),
    /// The actor of this name is to be ended.
    End(String, Fate, RpcReplyPort<CommandOutcome>),
}

struct Pool {
    handle: PoolHandle,
    logic: Arc<dyn StageLogic>,
    since: DateTime<Utc>,
}

struct SupervisorState {
    config: NodeConfig,
    lease_gauge: LeaseGauge,
    out_of_order: watch::Sender<StagesOutOfOrder>,
    /// State of repair of the stages that had faults.
    repairs: BTreeMap<StageName, Repair>,
    pools: HashMap<ActorId, Pool>,
    /// Pools that others have replaced and that still hold leases.
    replaced: HashMap<ActorId, Pool>,
    restarts: Restarts,
    /// Pools that were replaced, by stage.
    replacements: BTreeMap<StageName, u64>,
    /// Stages whose pool has ended and is not replaced yet, with the time of its end.
    awaited: BTreeMap<StageName, DateTime<Utc>>,
    since: DateTime<Utc>,
    /// Number of the pool that was started last, which makes its worker id unique: leases of its predecessor are not its own.
    incarnation: u64,
    draining: bool,
}

struct NodeActor;

impl Actor for NodeActor {
    type Msg = NodeMsg;
    type State = SupervisorState;
    type Arguments = (NodeConfig, LeaseGauge, watch::Sender<StagesOutOfOrder>);

    async fn pre_start(
        &self,
        myself: ActorRef<NodeMsg>,
        (config, lease_gauge, out_of_order): Self::Arguments,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        for logic in config.registry.stages() {
            if let Some(slots) = config
                .slots
                .get(&logic.info().hardware())
                .copied()
                .filter(|slots| *slots > 0)
            {
                myself.cast(NodeMsg::Start(logic.clone(), slots))?;
            }
        }
        Ok(SupervisorState {
            config,
            lease_gauge,
            out_of_order,
            repairs: BTreeMap::new(),
            pools: HashMap::new(),
            replaced: HashMap::new(),
            restarts: Restarts::default(),
            replacements: BTreeMap::new(),
            awaited: BTreeMap::new(),
            since: Utc::now(),
            incarnation: 0,
            draining: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<NodeMsg>,
        message: NodeMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            // A pool that was to come back when the drain began has nothing to do any more.
            NodeMsg::Start(logic, _) if state.draining => drop(state.awaited.remove(&logic.info().name())),
            NodeMsg::Start(logic, slots) => return state.start(logic, slots, &myself).await,
            NodeMsg::Stalled(id) => state.stalled(id, &myself),
            NodeMsg::Faulted(id, reason) => state.faulted(id, reason, &myself),
            NodeMsg::Proven(id) => state.proven(id),
            NodeMsg::Renew(stage) => state.renew(&stage, &myself),
            NodeMsg::Ask(stage) => state.ask(&stage, &myself),
            NodeMsg::Checked(stage, answer) => state.checked(&stage, answer, &myself),
            NodeMsg::Judge(stage, pool) => state.judge(&stage, pool, &myself),
            NodeMsg::GiveUp(reason) => return Err(reason.into()),
            NodeMsg::Drain(drained, reply) => state.drain(drained, reply),
            NodeMsg::Describe(reply) => state.describe(reply),
            NodeMsg::End(name, fate, reply) => state.execute(&name, fate, reply, &myself),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<NodeMsg>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let (SupervisionEvent::ActorFailed(ended, _) | SupervisionEvent::ActorTerminated(ended, ..)) = event
        else {
            return Ok(());
        };
        let id = ended.get_id();
        // A pool that was replaced has a successor already, and its end is no failure.
        if let Some(pool) = state.replaced.remove(&id) {
            state
                .config
                .control_plane
                .deregister(pool.handle.info.worker.clone());
        }
        let Some(Pool { handle, logic, .. }) = state.pools.remove(&id) else {
            return Ok(());
        };
        state.config.control_plane.deregister(handle.info.worker.clone());
        state.restart(logic, handle.info.slots, &myself)
    }
}

impl SupervisorState {
    async fn start(
        &mut self,
        logic: Arc<dyn StageLogic>,
        slots: usize,
        myself: &ActorRef<NodeMsg>,
    ) -> Result<(), ActorProcessingErr> {
        self.incarnation += 1;
        let name = format!(
            "{}/{}/{}",
            self.config.name,
            logic.info().name(),
            self.incarnation
        );
        let worker = WorkerId(name);
        let handle = StagePool::spawn(PoolArguments {
            worker,
            logic: logic.clone(),
            slots,
            progress: self.config.progress.clone(),
            control_plane: self.config.control_plane.clone(),
            heartbeat: self.config.heartbeat,
            health: self.config.health,
            lease_gauge: self.lease_gauge.clone(),
            supervisor: myself.clone(),
        })
        .await?;
        let stage = logic.info().name();
        let pool = Pool {
            handle: handle.clone(),
            logic,
            since: Utc::now(),
        };
        self.awaited.remove(&stage);
        self.pools.insert(handle.actor.get_id(), pool);
        self.config.control_plane.register(handle);
        self.is_on_trial(&stage, myself);
        Ok(())
    }

    /// Starts a pool again after a delay, unless there were too many restarts; the error ends the node.
    fn restart(
        &mut self,
        logic: Arc<dyn StageLogic>,
        slots: usize,
        myself: &ActorRef<NodeMsg>,
    ) -> Result<(), ActorProcessingErr> {
        let stage = logic.info().name();
        match self.restarts.next(Instant::now(), &self.config.health) {
            Ok(delay) => {
                warn!(%stage, ?delay, "pool lost; it will be replaced");
                self.count_restart(&stage);
                self.awaited.insert(stage, Utc::now());
                detached::send_later(myself, delay, NodeMsg::Start(logic, slots));
                Ok(())
            }
            Err(reason) => {
                error!(%stage, %reason, "pools keep failing; ending the node");
                Err(reason.into())
            }
        }
    }

    fn restarts_of(&self, stage: &StageName) -> u64 {
        self.replacements.get(stage).copied().unwrap_or_default()
    }

    fn count_restart(&mut self, stage: &StageName) {
        *self.replacements.entry(stage.clone()).or_default() += 1;
    }

    fn slots_of(&self, logic: &Arc<dyn StageLogic>) -> usize {
        self.config
            .slots
            .get(&logic.info().hardware())
            .copied()
            .unwrap_or(0)
    }

    fn drain(&mut self, drained: Drained, reply: RpcReplyPort<()>) {
        let has_come = self.drained(drained);
        detached::spawn(async move {
            has_come.await;
            // The caller may have timed out.
            let _ = reply.send(());
        });
    }

    /// Takes no more work from now on; the future returns when the drain of all pools has come so far.
    fn drained(&mut self, drained: Drained) -> impl Future<Output = ()> + use<> {
        self.draining = true;
        let pools: Vec<_> = self
            .pools
            .values()
            .chain(self.replaced.values())
            .map(|pool| pool.handle.actor.clone())
            .collect();
        async move {
            futures::future::join_all(pools.iter().map(|pool| drain(pool, drained))).await;
        }
    }
}

/// Waits until the pool's drain has come so far, or the pool is gone.
async fn drain(pool: &ActorRef<PoolMsg>, drained: Drained) {
    let (sender, receiver) = ractor::concurrency::oneshot();
    if pool.cast(PoolMsg::DrainUntil(drained, sender.into())).is_ok() {
        let _ = receiver.await;
    }
}
