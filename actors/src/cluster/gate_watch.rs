//! Discovery of the gates of other nodes: each one that appears in a group is sent a `Hello` until it introduces itself, and
//! reported when it is gone. A gate is known by its group before it is known to answer, and a node that is frozen stays in its
//! groups; so only an answer counts.

use std::collections::HashMap;
use std::time::Duration;

use ractor::pg::GroupChangeMessage;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tracing::{debug, error, warn};

use super::gate::{AskError, Gate, ask, compatible, introduction};
use super::name::NodeName;
use crate::wire::{GateInfo, Hello};

/// Time between two greetings of a gate that does not answer.
const GREETING_PAUSE: Duration = Duration::from_secs(1);

/// Event of a gate.
pub(super) enum GateEvent {
    /// It has introduced itself; once more after each time that it was [doubted](GateWatch::doubt).
    Found(ActorId, Gate, GateInfo),
    /// It has left its group, or its node is disconnected.
    Gone(ActorId),
}

pub(super) struct GateWatchArguments {
    pub node: NodeName,
    pub scope: String,
    pub group: &'static str,
    /// Time limit for the answer to a greeting.
    pub call_timeout: Duration,
    /// Called for each event; must not block.
    pub tell: Box<dyn Fn(GateEvent) + Send + Sync>,
}

#[derive(Debug, Clone)]
pub(super) struct GateWatch(ActorRef<WatchMsg>);

impl GateWatch {
    pub(super) async fn spawn(
        arguments: GateWatchArguments,
        supervisor: ActorCell,
    ) -> Result<Self, ractor::SpawnErr> {
        let (actor, _) = Actor::spawn_linked(None, WatchActor, arguments, supervisor).await?;
        Ok(Self(actor))
    }

    /// Takes note that the gate did not answer: it is greeted until it does, and reported as found again.
    pub(super) fn doubt(&self, gate: ActorId) {
        // Without a watch, its owner is stopping.
        let _ = self.0.cast(WatchMsg::Greet(gate));
    }
}

#[derive(RactorMessage)]
enum WatchMsg {
    Greet(ActorId),
    Greeted(ActorId, Result<GateInfo, AskError>),
}

struct WatchState {
    arguments: GateWatchArguments,
    gates: HashMap<ActorId, Known>,
}

struct Known {
    gate: Gate,
    /// A greeting is under way or about to be repeated.
    greeting: bool,
}

struct WatchActor;

impl Actor for WatchActor {
    type Msg = WatchMsg;
    type State = WatchState;
    type Arguments = GateWatchArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<WatchMsg>,
        arguments: GateWatchArguments,
    ) -> Result<WatchState, ActorProcessingErr> {
        // In this order: members that join from now on are announced, and those that are there already are not. One that joins in
        // between comes twice, which does no harm.
        ractor::pg::monitor_scope(arguments.scope.clone(), myself.get_cell());
        let members = ractor::pg::get_scoped_members(&arguments.scope, &arguments.group.to_owned());
        let mut state = WatchState {
            arguments,
            gates: HashMap::new(),
        };
        state.joined(members, &myself)?;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<WatchMsg>,
        message: WatchMsg,
        state: &mut WatchState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            WatchMsg::Greet(id) => state.greet(id, &myself),
            WatchMsg::Greeted(id, answer) => state.greeted(id, answer, &myself),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<WatchMsg>,
        event: SupervisionEvent,
        state: &mut WatchState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ProcessGroupChanged(GroupChangeMessage::Join(_, group, members))
                if group == state.arguments.group =>
            {
                state.joined(members, &myself)
            }
            SupervisionEvent::ProcessGroupChanged(GroupChangeMessage::Leave(_, group, members))
                if group == state.arguments.group =>
            {
                for member in members {
                    if state.gates.remove(&member.get_id()).is_some() {
                        (state.arguments.tell)(GateEvent::Gone(member.get_id()));
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl WatchState {
    fn joined(
        &mut self,
        members: Vec<ActorCell>,
        myself: &ActorRef<WatchMsg>,
    ) -> Result<(), ActorProcessingErr> {
        // The gates of this node are for other nodes.
        for member in members.into_iter().filter(|member| !member.get_id().is_local()) {
            let id = member.get_id();
            let known = Known {
                gate: member.into(),
                greeting: false,
            };
            if self.gates.insert(id, known).is_none() {
                myself.cast(WatchMsg::Greet(id))?;
            }
        }
        Ok(())
    }

    fn greet(&mut self, id: ActorId, myself: &ActorRef<WatchMsg>) {
        let Some(known) = self.gates.get_mut(&id).filter(|known| !known.greeting) else {
            return;
        };
        known.greeting = true;
        let (gate, myself, limit) = (known.gate.clone(), myself.clone(), self.arguments.call_timeout);
        let hello = Hello {
            peer: introduction(&self.arguments.node),
        };
        tokio::spawn(async move {
            let answer = ask(&gate, &hello, limit).await;
            // Fails only when the watch has stopped.
            let _ = myself.cast(WatchMsg::Greeted(id, answer));
        });
    }

    fn greeted(&mut self, id: ActorId, answer: Result<GateInfo, AskError>, myself: &ActorRef<WatchMsg>) {
        let Some(known) = self.gates.get_mut(&id) else {
            return;
        };
        known.greeting = false;
        match answer.map(compatible) {
            Ok(Ok(info)) => (self.arguments.tell)(GateEvent::Found(id, known.gate.clone(), info)),
            // Greeting these again would bring the same answer; another build of the node has another gate.
            Ok(Err(incompatible)) => {
                error!(error = %incompatible, "ignoring a node of another protocol version")
            }
            Err(unheard @ AskError::Misunderstood(_)) => {
                warn!(error = %unheard, group = self.arguments.group, "ignoring a gate whose messages cannot be read");
            }
            Err(AskError::NoAnswer) => {
                debug!(gate = %id, "a gate does not answer yet");
                myself.send_after(GREETING_PAUSE, move || WatchMsg::Greet(id));
            }
        }
    }
}
