//! An operator's side of the cluster: who leads, and an orchestrator that carries out commands, wherever it is.

use std::collections::BTreeMap;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use ractor_cluster::RactorMessage;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::gate::{AskError, Gate, OPERATORS, ORCHESTRATORS, ask, introduction};
use super::gate_watch::{GateEvent, GateWatch, GateWatchArguments};
use super::name::NodeName;
use crate::wire::{Command, CommandOutcome, CommandPart, GateRole, OpenError, Request, Unusable};
use parkhang_core::domain::Epoch;

/// How an operator takes part in a cluster.
#[derive(Debug, Clone)]
pub struct RemoteDeskConfig {
    pub node: NodeName,
    /// Name of the cluster: gates of another one are not seen.
    pub scope: String,
    /// For the answer to a call that waits for nothing.
    pub call_timeout: Duration,
    /// For the answer to a command.
    pub command_timeout: Duration,
}

impl RemoteDeskConfig {
    pub fn new(node: NodeName, scope: &str) -> Self {
        Self {
            node,
            scope: scope.to_owned(),
            call_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_secs(65),
        }
    }
}

/// Why there is no outcome of a command.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// It was not sent.
    #[error("no orchestrator is in touch")]
    OutOfTouch,
    /// It may have been carried out, or not.
    #[error("{node} did not answer")]
    Unanswered { node: String },
    /// Neither side is broken, but they are of different builds, or the command is too long for a message.
    #[error("{node}: {error}")]
    Misunderstood { node: String, error: OpenError },
    #[error(transparent)]
    Unreadable(#[from] Unusable),
    #[error("the answer is too long to fetch; ask for less of it")]
    TooLong,
}

/// The orchestrators that an operator can reach, by their nodes' names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InTouch {
    pub leader: Option<String>,
    /// Those that take commands.
    pub desks: Vec<String>,
}

#[derive(Debug, Clone, Default)]
struct View {
    leaders: BTreeMap<ActorId, (Epoch, String)>,
    desks: BTreeMap<ActorId, (Gate, String)>,
}

impl View {
    fn leader(&self) -> Option<&String> {
        let last = self.leaders.values().max_by_key(|(epoch, _)| *epoch);
        last.map(|(_, name)| name)
    }

    /// Whose answer is the freshest: the leader's, while it can be reached.
    fn desk(&self) -> Option<(ActorId, Gate, String)> {
        let leader = self.leader();
        let leads = self.desks.iter().find(|(_, (_, name))| Some(name) == leader);
        let (id, (gate, name)) = leads.or_else(|| self.desks.iter().next())?;
        Some((*id, gate.clone(), name.clone()))
    }

    fn hear_of_leader(&mut self, event: GateEvent) {
        match event {
            GateEvent::Found(id, _, info) => {
                if let GateRole::Orchestrator { epoch } = info.role {
                    self.leaders.insert(id, (epoch, info.peer.node));
                }
            }
            GateEvent::Gone(id) => drop(self.leaders.remove(&id)),
        }
    }

    fn hear_of_desk(&mut self, event: GateEvent) {
        match event {
            GateEvent::Found(id, gate, info) => drop(self.desks.insert(id, (gate, info.peer.node))),
            GateEvent::Gone(id) => drop(self.desks.remove(&id)),
        }
    }
}

/// The desks of a cluster's orchestrators. They come and go; the leader's is asked where it can be reached.
#[derive(Debug, Clone)]
pub struct RemoteDesk {
    actor: ActorRef<DeskMsg>,
    view: watch::Sender<View>,
    config: RemoteDeskConfig,
}

impl RemoteDesk {
    /// Looks for orchestrators of the cluster from now on.
    pub async fn start(config: RemoteDeskConfig) -> Result<Self, SpawnErr> {
        let view = watch::Sender::default();
        let (actor, _) = Actor::spawn(None, DeskActor, (config.clone(), view.clone())).await?;
        Ok(Self { actor, view, config })
    }

    pub fn in_touch(&self) -> InTouch {
        let view = self.view.borrow();
        InTouch {
            leader: view.leader().cloned(),
            desks: view.desks.values().map(|(_, name)| name.clone()).collect(),
        }
    }

    /// Waits until those in touch are others than `known`, and returns them.
    pub async fn changed_from(&self, known: &InTouch) -> InTouch {
        let mut changes = self.view.subscribe();
        loop {
            let now = self.in_touch();
            if now != *known {
                return now;
            }
            // This value holds the sender.
            let _ = changes.changed().await;
        }
    }

    /// Has a command carried out.
    pub async fn ask(
        &self,
        words: &[String],
        arguments: &Map<String, Value>,
    ) -> Result<CommandOutcome, DeskError> {
        let command = Command {
            peer: introduction(&self.config.node),
            words: words.to_vec(),
            arguments: Value::from(arguments.clone()).to_string(),
        };
        let found = self.view.borrow().desk();
        let (id, gate, node) = found.ok_or(DeskError::OutOfTouch)?;
        let desk = Desk { id, gate, node };
        let limit = self.config.command_timeout;
        let reply = self.send(&desk, &command, limit).await?;
        if reply.parts > CommandOutcome::MAX_PARTS {
            return Err(DeskError::TooLong);
        }
        let mut parts = vec![reply.text];
        for part in 1..reply.parts {
            let answer = reply.answer;
            let limit = self.config.call_timeout;
            let further = self.send(&desk, &CommandPart { answer, part }, limit).await?;
            parts.push(further.text.ok_or(DeskError::TooLong)?);
        }
        Ok(CommandOutcome::from_parts(&parts)?)
    }

    async fn send<R: Request>(
        &self,
        desk: &Desk,
        request: &R,
        limit: Duration,
    ) -> Result<R::Reply, DeskError> {
        let node = desk.node.clone();
        match ask(&desk.gate, request, limit).await {
            Ok(reply) => Ok(reply),
            Err(AskError::Misunderstood(error)) => Err(DeskError::Misunderstood { node, error }),
            Err(AskError::NoAnswer) => {
                // Found again once it answers a greeting.
                self.view.send_modify(|view| drop(view.desks.remove(&desk.id)));
                // Fails only when this side is stopping.
                let _ = self.actor.cast(DeskMsg::Doubt(desk.id));
                Err(DeskError::Unanswered { node })
            }
        }
    }

    pub async fn stop(self) {
        // Already stopped is as good.
        let _ = self.actor.stop_and_wait(None, None).await;
    }
}

struct Desk {
    id: ActorId,
    gate: Gate,
    node: String,
}

#[derive(RactorMessage)]
enum DeskMsg {
    Doubt(ActorId),
}

struct Watches {
    desks: GateWatch,
    _leaders: GateWatch,
}

struct DeskActor;

impl Actor for DeskActor {
    type Msg = DeskMsg;
    type State = Watches;
    type Arguments = (RemoteDeskConfig, watch::Sender<View>);

    async fn pre_start(
        &self,
        myself: ActorRef<DeskMsg>,
        (config, view): Self::Arguments,
    ) -> Result<Watches, ActorProcessingErr> {
        let watch = |group, hear: fn(&mut View, GateEvent)| {
            let (view, config) = (view.clone(), config.clone());
            let arguments = GateWatchArguments {
                node: config.node,
                scope: config.scope,
                group,
                call_timeout: config.call_timeout,
                tell: Box::new(move |event| view.send_modify(|view| hear(view, event))),
            };
            GateWatch::spawn(arguments, myself.get_cell())
        };
        Ok(Watches {
            desks: watch(OPERATORS, View::hear_of_desk).await?,
            _leaders: watch(ORCHESTRATORS, View::hear_of_leader).await?,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<DeskMsg>,
        DeskMsg::Doubt(desk): DeskMsg,
        watches: &mut Watches,
    ) -> Result<(), ActorProcessingErr> {
        watches.desks.doubt(desk);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<DeskMsg>,
        event: SupervisionEvent,
        _: &mut Watches,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(_, error) => Err(error),
            _ => Ok(()),
        }
    }
}
