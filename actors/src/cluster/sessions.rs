//! What the node server says of its sessions, by connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::ActorRef;
use ractor_cluster::node::NodeServerSessionInformation;
use ractor_cluster::{NodeEventSubscription, NodeSessionMessage};
use tokio::sync::watch;

#[derive(Debug, Clone)]
enum State {
    /// The node server has not made an actor of it yet.
    Pending,
    /// Not authenticated yet.
    Open(ActorRef<NodeSessionMessage>),
    /// Authenticated, and each side knows the other's remotable actors.
    Ready(ActorRef<NodeSessionMessage>),
    Closed,
}

/// All connections of a node.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    entries: Arc<Mutex<HashMap<String, watch::Sender<State>>>>,
    ready: watch::Sender<usize>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    label: String,
    state: watch::Receiver<State>,
    sessions: Sessions,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            entries: Arc::default(),
            ready: watch::Sender::new(0),
        }
    }

    /// Expects a connection with this label, which must be new.
    pub(super) fn expect(&self, label: String) -> Session {
        let (sender, state) = watch::channel(State::Pending);
        self.entries().insert(label.clone(), sender);
        Session {
            label,
            state,
            sessions: self.clone(),
        }
    }

    /// How many sessions are ready.
    pub(super) fn ready(&self) -> watch::Receiver<usize> {
        self.ready.subscribe()
    }

    /// The node server has ended, and all its sessions with it.
    pub(super) fn close_all(&self) {
        self.entries().clear();
        self.count();
    }

    fn update(&self, session: &NodeServerSessionInformation, state: State) {
        let mut entries = self.entries();
        if matches!(state, State::Closed) {
            let entry = entries.remove(&session.peer_addr);
            entry.inspect(|entry| drop(entry.send_replace(state)));
        } else if let Some(entry) = entries.get(&session.peer_addr) {
            entry.send_replace(state);
        } else {
            // Whoever expected it gave up.
            session.actor.stop(Some("unwatched".to_owned()));
        }
        drop(entries);
        self.count();
    }

    fn count(&self) {
        let entries = self.entries();
        let ready = entries
            .values()
            .filter(|entry| matches!(*entry.borrow(), State::Ready(_)))
            .count();
        self.ready.send_if_modified(|count| {
            let changed = *count != ready;
            *count = ready;
            changed
        });
    }

    /// Every holder leaves the table whole.
    fn entries(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<State>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeEventSubscription for Sessions {
    fn node_session_opened(&self, session: NodeServerSessionInformation) {
        self.update(&session, State::Open(session.actor.clone()));
    }

    fn node_session_authenticated(&self, _: NodeServerSessionInformation) {}

    fn node_session_ready(&self, session: NodeServerSessionInformation) {
        self.update(&session, State::Ready(session.actor.clone()));
    }

    fn node_session_disconnected(&self, session: NodeServerSessionInformation) {
        self.update(&session, State::Closed);
    }
}

impl Session {
    /// Whether the session became ready, rather than ending first.
    pub(super) async fn ready(&mut self) -> bool {
        let settled = |state: &State| matches!(state, State::Ready(_) | State::Closed);
        match self.state.wait_for(settled).await {
            Ok(state) => matches!(*state, State::Ready(_)),
            Err(_) => false,
        }
    }

    /// Waits for the end of the session.
    pub(super) async fn closed(&mut self) {
        // The table forgets a session that ends with its node server.
        let _ = self.state.wait_for(|state| matches!(state, State::Closed)).await;
    }
}

impl Drop for Session {
    /// A session that nobody watches any more has no deadline and no successor: it ends.
    fn drop(&mut self) {
        let state = self.state.borrow().clone();
        match state {
            State::Open(actor) | State::Ready(actor) => actor.stop(Some("unwatched".to_owned())),
            State::Pending => drop(self.sessions.entries().remove(&self.label)),
            State::Closed => {}
        }
    }
}
