//! Discovery of the endpoints of other nodes: each one that appears in a group is sent a `Handshake` until it introduces itself, and
//! reported when it is gone. An endpoint is known by its group before it is known to answer, and a node that is frozen stays in its
//! groups; so only an answer counts.

use std::collections::HashMap;
use std::time::Duration;

use ractor::pg::GroupChangeMessage;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use ractor_cluster::RactorMessage;
use tracing::{debug, error, warn};

use super::endpoint::{AskError, Endpoint, ask, compatible, introduction};
use super::name::NodeName;
use crate::detached;
use crate::wire::{EndpointInfo, Handshake};

/// Time between two greetings of an endpoint that does not answer.
const GREETING_PAUSE: Duration = Duration::from_secs(1);

/// Event of an endpoint.
pub(super) enum EndpointEvent {
    /// It has introduced itself; once more after each time that it was [suspected](EndpointDiscovery::mark_suspect).
    Found(ActorId, Endpoint, EndpointInfo),
    /// It has left its group, or its node is disconnected.
    Gone(ActorId),
}

pub(super) struct EndpointDiscoveryArguments {
    pub node: NodeName,
    pub scope: String,
    pub group: &'static str,
    /// Time limit for the answer to a handshake.
    pub call_timeout: Duration,
    /// Called for each event; must not block.
    pub notify: Box<dyn Fn(EndpointEvent) + Send + Sync>,
}

#[derive(Debug, Clone)]
pub(super) struct EndpointDiscovery(ActorRef<WatchMsg>);

impl EndpointDiscovery {
    pub(super) async fn spawn(
        arguments: EndpointDiscoveryArguments,
        supervisor: ActorCell,
    ) -> Result<Self, ractor::SpawnErr> {
        let (actor, _) = Actor::spawn_linked(None, WatchActor, arguments, supervisor).await?;
        Ok(Self(actor))
    }

    /// Takes note that the endpoint did not answer: handshakes are repeated until it does, and reported as found again.
    pub(super) fn mark_suspect(&self, endpoint: ActorId) {
        // Without a watch, its owner is stopping.
        let _ = self.0.cast(WatchMsg::Greet(endpoint));
    }
}

#[derive(RactorMessage)]
enum WatchMsg {
    Greet(ActorId),
    Greeted(ActorId, Result<EndpointInfo, AskError>),
}

struct WatchState {
    arguments: EndpointDiscoveryArguments,
    endpoints: HashMap<ActorId, Known>,
}

struct Known {
    endpoint: Endpoint,
    /// A handshake is under way or about to be repeated.
    handshake: bool,
}

struct WatchActor;

impl Actor for WatchActor {
    type Msg = WatchMsg;
    type State = WatchState;
    type Arguments = EndpointDiscoveryArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<WatchMsg>,
        arguments: EndpointDiscoveryArguments,
    ) -> Result<WatchState, ActorProcessingErr> {
        // In this order: members that join from now on are announced, and those that are there already are not. One that joins in
        // between comes twice, which does no harm.
        ractor::pg::monitor_scope(arguments.scope.clone(), myself.get_cell());
        let members = ractor::pg::get_scoped_members(&arguments.scope, &arguments.group.to_owned());
        let mut state = WatchState {
            arguments,
            endpoints: HashMap::new(),
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
            WatchMsg::Greet(id) => state.handshake(id, &myself),
            WatchMsg::Greeted(id, answer) => state.handshaken(id, answer, &myself),
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
                    if state.endpoints.remove(&member.get_id()).is_some() {
                        (state.arguments.notify)(EndpointEvent::Gone(member.get_id()));
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
        // The endpoints of this node are for other nodes.
        for member in members.into_iter().filter(|member| !member.get_id().is_local()) {
            let id = member.get_id();
            let known = Known {
                endpoint: member.into(),
                handshake: false,
            };
            if self.endpoints.insert(id, known).is_none() {
                myself.cast(WatchMsg::Greet(id))?;
            }
        }
        Ok(())
    }

    fn handshake(&mut self, id: ActorId, myself: &ActorRef<WatchMsg>) {
        let Some(known) = self.endpoints.get_mut(&id).filter(|known| !known.handshake) else {
            return;
        };
        known.handshake = true;
        let (endpoint, myself, limit) = (
            known.endpoint.clone(),
            myself.clone(),
            self.arguments.call_timeout,
        );
        let handshake = Handshake {
            peer: introduction(&self.arguments.node),
        };
        detached::spawn(async move {
            let answer = ask(&endpoint, &handshake, limit).await;
            // Fails only when the watch has stopped.
            let _ = myself.cast(WatchMsg::Greeted(id, answer));
        });
    }

    fn handshaken(
        &mut self,
        id: ActorId,
        answer: Result<EndpointInfo, AskError>,
        myself: &ActorRef<WatchMsg>,
    ) {
        let Some(known) = self.endpoints.get_mut(&id) else {
            return;
        };
        known.handshake = false;
        match answer.map(compatible) {
            Ok(Ok(info)) => (self.arguments.notify)(EndpointEvent::Found(id, known.endpoint.clone(), info)),
            // Another handshake with these would bring the same answer; another build of the node has another endpoint.
            Ok(Err(incompatible)) => {
                error!(error = %incompatible, "ignoring a node of another protocol version")
            }
            Err(unheard @ AskError::Misunderstood(_)) => {
                warn!(error = %unheard, group = self.arguments.group, "ignoring an endpoint whose messages cannot be read");
            }
            Err(AskError::NoAnswer) => {
                debug!(endpoint = %id, "an endpoint does not answer yet");
                detached::send_later(myself, GREETING_PAUSE, WatchMsg::Greet(id));
            }
        }
    }
}
