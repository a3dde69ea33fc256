//! The root of a node's actors: it starts a pool for every stage that fits the hardware, registers it with the
//! orchestrator, and replaces a pool that dies. A pool that keeps dying ends the node, so that whatever watches the
//! process can see it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tokio::time::Instant;
use tracing::{error, warn};

use super::control_plane::ControlPlane;
use super::pool::{PoolArguments, PoolMsg, StagePool};
use crate::domain::{Hardware, WorkerId};
use crate::stage::{StageLogic, StageRegistry};
use crate::telemetry::ProgressBoard;

/// Restarts of a node's pools within [`RESTART_WINDOW`] after which the node gives up.
const MAX_RESTARTS: usize = 10;
const RESTART_WINDOW: Duration = Duration::from_secs(60);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// What a node offers.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Unique per process start.
    pub name: String,
    /// Tasks at once, per stage that needs this hardware. Hardware that is missing runs nothing.
    pub slots: HashMap<Hardware, usize>,
    pub registry: Arc<StageRegistry>,
    pub progress: Arc<ProgressBoard>,
    pub control_plane: Arc<dyn ControlPlane>,
    /// Time between the reports that renew the leases of what runs; well below the lease.
    pub heartbeat: Duration,
}

/// Handle on a node's supervisor.
#[derive(Debug, Clone)]
pub struct NodeSupervisor(ActorRef<NodeMsg>);

impl NodeSupervisor {
    pub async fn start(config: NodeConfig) -> Result<Self, ractor::SpawnErr> {
        let (actor, _) = Actor::spawn(None, NodeActor, config).await?;
        Ok(Self(actor))
    }

    /// Takes no more work, lets what runs stop at its next checkpoint, and returns when every lease has been given back.
    pub async fn drain(&self) {
        let (sender, receiver) = ractor::concurrency::oneshot();
        if self.0.cast(NodeMsg::Drain(sender.into())).is_ok() {
            // A node that stopped meanwhile has nothing left to drain.
            let _ = receiver.await;
        }
    }

    /// Waits for the node's end, which before [`NodeSupervisor::stop`] is a failure.
    pub async fn ended(&self) {
        // Ended already is as good.
        let _ = self.0.get_cell().wait(None).await;
    }

    /// Stops the node's actors. What still runs is cut off at its next await; its leases run out.
    pub async fn stop(self) {
        // Already stopped is as good.
        let _ = self.0.stop_and_wait(None, None).await;
    }
}

#[derive(RactorMessage)]
enum NodeMsg {
    Start(Arc<dyn StageLogic>, usize),
    Drain(RpcReplyPort<()>),
}

struct Pool {
    actor: ActorRef<PoolMsg>,
    worker: WorkerId,
    logic: Arc<dyn StageLogic>,
    slots: usize,
}

struct NodeState {
    config: NodeConfig,
    pools: HashMap<ActorId, Pool>,
    restarts: VecDeque<Instant>,
    incarnation: u64,
    draining: bool,
}

struct NodeActor;

impl Actor for NodeActor {
    type Msg = NodeMsg;
    type State = NodeState;
    type Arguments = NodeConfig;

    async fn pre_start(
        &self,
        myself: ActorRef<NodeMsg>,
        config: NodeConfig,
    ) -> Result<NodeState, ActorProcessingErr> {
        for logic in config.registry.stages() {
            if let Some(slots) = config
                .slots
                .get(&logic.hardware())
                .copied()
                .filter(|slots| *slots > 0)
            {
                myself.cast(NodeMsg::Start(logic.clone(), slots))?;
            }
        }
        Ok(NodeState {
            config,
            pools: HashMap::new(),
            restarts: VecDeque::new(),
            incarnation: 0,
            draining: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<NodeMsg>,
        message: NodeMsg,
        state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        let (logic, slots) = match message {
            NodeMsg::Start(..) if state.draining => return Ok(()),
            NodeMsg::Start(logic, slots) => (logic, slots),
            NodeMsg::Drain(reply) => {
                state.draining = true;
                let pools: Vec<_> = state.pools.values().map(|pool| pool.actor.clone()).collect();
                tokio::spawn(async move {
                    futures::future::join_all(pools.iter().map(empty)).await;
                    // Whoever asked may have lost patience.
                    let _ = reply.send(());
                });
                return Ok(());
            }
        };
        state.incarnation += 1;
        let worker = WorkerId(format!(
            "{}/{}/{}",
            state.config.name,
            logic.name(),
            state.incarnation
        ));
        let arguments = PoolArguments {
            worker: worker.clone(),
            logic: logic.clone(),
            slots,
            progress: state.config.progress.clone(),
            control_plane: state.config.control_plane.clone(),
            heartbeat: state.config.heartbeat,
        };
        let pool = StagePool::spawn(arguments, myself.get_cell()).await?;
        state.pools.insert(
            pool.actor.get_id(),
            Pool {
                actor: pool.actor.clone(),
                worker,
                logic,
                slots,
            },
        );
        state.config.control_plane.register(pool);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<NodeMsg>,
        event: SupervisionEvent,
        state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        let (SupervisionEvent::ActorFailed(pool, _) | SupervisionEvent::ActorTerminated(pool, ..)) = event
        else {
            return Ok(());
        };
        let Some(Pool {
            worker, logic, slots, ..
        }) = state.pools.remove(&pool.get_id())
        else {
            return Ok(());
        };
        state.config.control_plane.deregister(worker);
        let now = Instant::now();
        state.restarts.push_back(now);
        while state
            .restarts
            .front()
            .is_some_and(|then| now - *then > RESTART_WINDOW)
        {
            state.restarts.pop_front();
        }
        if state.restarts.len() > MAX_RESTARTS {
            error!(restarts = state.restarts.len(), stage = %logic.name(), "pools keep dying; the node gives up");
            return Err("restart intensity exceeded".into());
        }
        let exponent = u32::try_from(state.restarts.len()).unwrap_or(u32::MAX).min(8);
        let delay = FIRST_BACKOFF * 2u32.pow(exponent);
        warn!(stage = %logic.name(), ?delay, "pool died; it will be replaced");
        myself.send_after(delay, move || NodeMsg::Start(logic, slots));
        Ok(())
    }
}

/// Returns when the pool holds no lease any more, or is gone.
async fn empty(pool: &ActorRef<PoolMsg>) {
    let (sender, receiver) = ractor::concurrency::oneshot();
    if pool.cast(PoolMsg::Empty(sender.into())).is_ok() {
        let _ = receiver.await;
    }
}
