//! The side of the leading orchestrator: its endpoint, and the pools of other nodes as they come and go.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SpawnErr, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tracing::{info, warn};

use super::connection_tracker::{ConnectionLoss, ConnectionTracker, DisconnectId};
use super::endpoint::{AskError, Endpoint, STAGES, ask, open_endpoint};
use super::endpoint_discovery::{EndpointDiscovery, EndpointDiscoveryArguments, EndpointEvent};
use super::name::NodeName;
use super::orchestrator_endpoint::OrchestratorEndpoint;
use super::registry::NodeRegistry;
use super::remote_pool::RemotePool;
use crate::detached;
use crate::orchestrator::OrchestratorHandle;
use crate::wire::{Command, EndpointRole};
use parkhang_core::domain::{CommandOutcome, Epoch, IssuedCommand, NodeCommand, PoolInfo, WorkerId};

/// Settings of an orchestrator's connections to the pools of other nodes.
#[derive(Debug, Clone)]
pub struct RemotePoolsConfig {
    /// Name of this node.
    pub node: NodeName,
    /// Name of the cluster: endpoints of another one are not seen.
    pub scope: String,
    /// The orchestrator.
    pub orchestrator: OrchestratorHandle,
    /// Epoch of its leadership. Pools that have seen a later one refuse it.
    pub epoch: Epoch,
    /// Receiver of the descriptions of other nodes.
    pub registry: NodeRegistry,
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
            registry: NodeRegistry::default(),
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
    pub fn start(config: RemotePoolsConfig) -> BoxFuture<'static, Result<Self, SpawnErr>> {
        Box::pin(async move {
            let (actor, _) = Actor::spawn(None, PoolsActor, config).await?;
            Ok(Self(actor))
        })
    }

    /// Has a command carried out by its node. `None` if the node is not connected or does not answer: the command may be sent again,
    /// and is carried out once.
    pub async fn command(&self, placed: &IssuedCommand) -> Option<CommandOutcome> {
        let (sender, receiver) = ractor::concurrency::oneshot();
        let (node, command) = (placed.node.clone(), placed.command.clone());
        self.0
            .cast(PoolsMsg::Command(placed.id, node, command, sender.into()))
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
    Endpoint(EndpointEvent),
    /// The grace of a disconnected pool is over.
    Expire(WorkerId, DisconnectId),
    /// A command is to be carried out by this node.
    Command(i64, String, NodeCommand, RpcReplyPort<Option<CommandOutcome>>),
}

/// Multiple of the call timeout for a command, whose node may wait for a pool to answer.
const CALLS_PER_ORDER: u32 = 2;

struct PoolsState {
    config: RemotePoolsConfig,
    watch: EndpointDiscovery,
    connection_tracker: ConnectionTracker,
    /// Endpoints of the connected pools.
    endpoints: HashMap<ActorId, (WorkerId, Endpoint)>,
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
        let endpoint = OrchestratorEndpoint {
            node: config.node.clone(),
            orchestrator: config.orchestrator.clone(),
            epoch: config.epoch,
            registry: config.registry.clone(),
        };
        open_endpoint(endpoint, &config.scope, myself.get_cell()).await?;
        let heard = myself.clone();
        let watch = EndpointDiscoveryArguments {
            node: config.node.clone(),
            scope: config.scope.clone(),
            group: STAGES,
            call_timeout: config.call_timeout,
            // Fails only when this actor has stopped.
            notify: Box::new(move |event| drop(heard.cast(PoolsMsg::Endpoint(event)))),
        };
        Ok(PoolsState {
            watch: EndpointDiscovery::spawn(watch, myself.get_cell()).await?,
            config,
            connection_tracker: ConnectionTracker::default(),
            endpoints: HashMap::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<PoolsMsg>,
        message: PoolsMsg,
        state: &mut PoolsState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PoolsMsg::Endpoint(EndpointEvent::Found(id, endpoint, info)) => match info.role {
                EndpointRole::Stage(info) => state.found(id, endpoint, info),
                EndpointRole::Orchestrator { .. } => {
                    warn!(endpoint = %id, "ignoring the endpoint of an orchestrator in the group of stages");
                }
            },
            PoolsMsg::Endpoint(EndpointEvent::Gone(id)) => {
                state.endpoints.remove(&id);
                match state.connection_tracker.lost(id) {
                    ConnectionLoss::Nothing => {}
                    // The orchestrator may know the pool by the endpoint that ended. It is found again, by this one.
                    ConnectionLoss::OneOfSeveral(left) => state.watch.mark_suspect(left),
                    ConnectionLoss::Disconnected(worker, absence) => {
                        info!(%worker, "pool disconnected");
                        state.config.orchestrator.suspend(worker.clone());
                        detached::send_later(&myself, state.config.grace, PoolsMsg::Expire(worker, absence));
                    }
                }
            }
            PoolsMsg::Expire(worker, absence) => {
                if state.connection_tracker.give_up(&worker, absence) {
                    let mut in_touch = state.endpoints.values().map(|(other, _)| other.node());
                    // A node whose other pools are connected has replaced this one, and is not lost.
                    if !in_touch.any(|node| node == worker.node()) {
                        state.config.registry.lost(&worker);
                    }
                    state.config.orchestrator.deregister(worker);
                }
            }
            PoolsMsg::Command(id, node, command, reply) => state.command(id, &node, &command, reply),
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
    /// Sends the command to any endpoint of the node, and the outcome to `reply`, if the node is connected and answers.
    fn command(
        &self,
        id: i64,
        node: &str,
        command: &NodeCommand,
        reply: RpcReplyPort<Option<CommandOutcome>>,
    ) {
        let endpoint = self
            .endpoints
            .values()
            .find(|(worker, _)| worker.node() == node)
            .map(|(_, endpoint)| endpoint.clone());
        let command = Command::new(self.config.epoch, id, command);
        let limit = CALLS_PER_ORDER * self.config.call_timeout;
        detached::spawn(async move {
            let outcome = match (endpoint, command) {
                (Some(endpoint), Ok(command)) => match ask(&endpoint, &command, limit).await {
                    Ok(answer) => answer.outcome().ok(),
                    // A node of an earlier build takes no commands.
                    Err(AskError::Misunderstood(error)) => Some(CommandOutcome::refused(error.to_string())),
                    Err(AskError::NoAnswer) => None,
                },
                _ => None,
            };
            // The caller may have timed out.
            let _ = reply.send(outcome);
        });
    }

    fn found(&mut self, id: ActorId, endpoint: Endpoint, info: PoolInfo) {
        self.endpoints.insert(id, (info.worker.clone(), endpoint.clone()));
        self.connection_tracker.found(id, info.worker.clone());
        self.config.orchestrator.register(Arc::new(RemotePool {
            id,
            endpoint,
            info,
            epoch: self.config.epoch,
            call_timeout: self.config.call_timeout,
            watch: self.watch.clone(),
        }));
    }
}
