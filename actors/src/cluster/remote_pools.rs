//! The side of the leading orchestrator: its gate, and the pools of other nodes as they come and go.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tracing::{info, warn};

use super::gate::{AskError, Gate, STAGES, ask, open_gate};
use super::gate_watch::{GateEvent, GateWatch, GateWatchArguments};
use super::name::NodeName;
use super::orchestrator_gate::OrchestratorGate;
use super::reach::{Absence, Loss, Reach};
use super::remote_pool::RemotePool;
use super::roster::Roster;
use crate::orchestrator::OrchestratorHandle;
use crate::wire::{GateRole, Order};
use parkhang_core::domain::{Epoch, NodeOrder, OrderOutcome, PlacedOrder, PoolInfo, WorkerId};

/// Settings of an orchestrator's connections to the pools of other nodes.
#[derive(Debug, Clone)]
pub struct RemotePoolsConfig {
    /// Name of this node.
    pub node: NodeName,
    /// Name of the cluster: gates of another one are not seen.
    pub scope: String,
    /// The orchestrator.
    pub orchestrator: OrchestratorHandle,
    /// Epoch of its leadership. Pools that have seen a later one refuse it.
    pub epoch: Epoch,
    /// Receiver of the descriptions of other nodes.
    pub roster: Roster,
    /// Time limit for the answer to a call that waits for nothing.
    pub call_timeout: Duration,
    /// Time for which a node may be disconnected before its leases end. A node that was only cut off dials again at once.
    pub grace: Duration,
}

impl RemotePoolsConfig {
    /// The defaults, for this orchestrator.
    pub fn new(node: NodeName, orchestrator: OrchestratorHandle, epoch: Epoch) -> Self {
        Self {
            node,
            scope: "parkhang".to_owned(),
            orchestrator,
            epoch,
            roster: Roster::default(),
            call_timeout: Duration::from_secs(2),
            grace: Duration::from_secs(3),
        }
    }
}

/// Handle on the orchestrator's side of the cluster.
#[derive(Debug, Clone)]
pub struct RemotePools(ActorRef<PoolsMsg>);

impl RemotePools {
    /// Takes reports and assigns to the pools of other nodes from now on. To be called by a leader.
    ///
    /// # Errors
    ///
    /// When the actor cannot be started.
    pub async fn start(config: RemotePoolsConfig) -> Result<Self, SpawnErr> {
        let (actor, _) = Actor::spawn(None, PoolsActor, config).await?;
        Ok(Self(actor))
    }

    /// Has an order carried out by its node. `None` if the node is not connected or does not answer: the order may be sent again,
    /// and is carried out once.
    pub async fn order(&self, placed: &PlacedOrder) -> Option<OrderOutcome> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        let (node, order) = (placed.node.clone(), placed.order.clone());
        self.0
            .cast(PoolsMsg::Order(placed.id, node, order, sender.into()))
            .ok()?;
        receiver.await.ok()?
    }

    /// Waits for the actor to end. Without [`RemotePools::stop`] that is a failure.
    pub async fn ended(&self) {
        // An error says that it has ended already.
        let _ = self.0.get_cell().wait(None).await;
    }

    /// Stops; the leases of the other nodes stay in force.
    pub async fn stop(self) {
        // An error says that it has stopped already.
        let _ = self.0.stop_and_wait(None, None).await;
    }
}

/// Messages of the actor.
#[derive(RactorMessage)]
enum PoolsMsg {
    /// A pool has come or gone.
    Gate(GateEvent),
    /// The grace of a disconnected pool is over.
    Expire(WorkerId, Absence),
    /// An order is to be carried out by this node.
    Order(i64, String, NodeOrder, RpcReplyPort<Option<OrderOutcome>>),
}

/// Multiple of the call timeout for an order, whose node may wait for a pool to answer.
const CALLS_PER_ORDER: u32 = 2;

struct PoolsState {
    config: RemotePoolsConfig,
    watch: GateWatch,
    reach: Reach,
    /// Gates of the connected pools.
    gates: HashMap<ActorId, (WorkerId, Gate)>,
}

struct PoolsActor;

impl Actor for PoolsActor {
    type Msg = PoolsMsg;
    type State = PoolsState;
    type Arguments = RemotePoolsConfig;

    async fn pre_start(
        &self,
        myself: ActorRef<PoolsMsg>,
        config: RemotePoolsConfig,
    ) -> Result<PoolsState, ActorProcessingErr> {
        let gate = OrchestratorGate {
            node: config.node.clone(),
            orchestrator: config.orchestrator.clone(),
            epoch: config.epoch,
            roster: config.roster.clone(),
        };
        open_gate(gate, &config.scope, myself.get_cell()).await?;
        let heard = myself.clone();
        let watch = GateWatchArguments {
            node: config.node.clone(),
            scope: config.scope.clone(),
            group: STAGES,
            call_timeout: config.call_timeout,
            // Fails only when this actor has stopped.
            tell: Box::new(move |event| drop(heard.cast(PoolsMsg::Gate(event)))),
        };
        Ok(PoolsState {
            watch: GateWatch::spawn(watch, myself.get_cell()).await?,
            config,
            reach: Reach::default(),
            gates: HashMap::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<PoolsMsg>,
        message: PoolsMsg,
        state: &mut PoolsState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PoolsMsg::Gate(GateEvent::Found(id, gate, info)) => match info.role {
                GateRole::Stage(info) => state.found(id, gate, info),
                GateRole::Orchestrator { .. } => {
                    warn!(gate = %id, "ignoring the gate of an orchestrator in the group of stages");
                }
            },
            PoolsMsg::Gate(GateEvent::Gone(id)) => {
                state.gates.remove(&id);
                match state.reach.lost(id) {
                    Loss::Nothing => {}
                    // The orchestrator may know the pool by the gate that ended. It is found again, by this one.
                    Loss::OneOfSeveral(left) => state.watch.doubt(left),
                    Loss::OutOfTouch(worker, absence) => {
                        info!(%worker, "pool disconnected");
                        state.config.orchestrator.suspend(worker.clone());
                        myself.send_after(state.config.grace, move || PoolsMsg::Expire(worker, absence));
                    }
                }
            }
            PoolsMsg::Expire(worker, absence) => {
                if state.reach.give_up(&worker, absence) {
                    let mut in_touch = state.gates.values().map(|(other, _)| other.node());
                    // A node whose other pools are connected has replaced this one, and is not lost.
                    if !in_touch.any(|node| node == worker.node()) {
                        state.config.roster.lost(&worker);
                    }
                    state.config.orchestrator.deregister(worker);
                }
            }
            PoolsMsg::Order(id, node, order, reply) => state.order(id, &node, &order, reply),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<PoolsMsg>,
        event: SupervisionEvent,
        _: &mut PoolsState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(_, error) => Err(error),
            _ => Ok(()),
        }
    }
}

impl PoolsState {
    /// Sends the order to any gate of the node, and the outcome to `reply`, if the node is connected and answers.
    fn order(&self, id: i64, node: &str, order: &NodeOrder, reply: RpcReplyPort<Option<OrderOutcome>>) {
        let gate = self
            .gates
            .values()
            .find(|(worker, _)| worker.node() == node)
            .map(|(_, gate)| gate.clone());
        let order = Order::new(self.config.epoch, id, order);
        let limit = CALLS_PER_ORDER * self.config.call_timeout;
        tokio::spawn(async move {
            let outcome = match (gate, order) {
                (Some(gate), Ok(order)) => match ask(&gate, &order, limit).await {
                    Ok(answer) => answer.outcome().ok(),
                    // A node of an earlier build takes no orders.
                    Err(AskError::Misunderstood(error)) => Some(OrderOutcome::refused(error.to_string())),
                    Err(AskError::NoAnswer) => None,
                },
                _ => None,
            };
            // The caller may have timed out.
            let _ = reply.send(outcome);
        });
    }

    fn found(&mut self, id: ActorId, gate: Gate, info: PoolInfo) {
        self.gates.insert(id, (info.worker.clone(), gate.clone()));
        self.reach.found(id, info.worker.clone());
        self.config.orchestrator.register(Arc::new(RemotePool {
            id,
            gate,
            info,
            epoch: self.config.epoch,
            call_timeout: self.config.call_timeout,
            watch: self.watch.clone(),
        }));
    }
}
