//! States of the sessions, by connection, as the node server reports them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::ActorRef;
use ractor_cluster::node::NodeServerSessionInformation;
use ractor_cluster::{NodeEventSubscription, NodeSessionMessage};
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tracing::warn;

use super::tls::TlsIdentity;

/// State of a session.
#[derive(Debug, Clone)]
enum State {
    /// The node server has not made an actor of it yet.
    Pending,
    /// The peer is not authenticated yet.
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
    /// Certificate of the peer, where it has shown one.
    trust: Option<Trust>,
}

/// Certificate of a peer, and who decides whether it is accepted.
#[derive(Debug)]
pub(super) struct Trust {
    identity: TlsIdentity,
    peer: Vec<CertificateDer<'static>>,
}

impl Trust {
    pub(super) fn of(identity: &TlsIdentity, peer: Option<&[CertificateDer<'static>]>) -> Self {
        Self {
            identity: identity.clone(),
            peer: peer.unwrap_or_default().to_vec(),
        }
    }
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
            trust: None,
        }
    }

    /// Number of sessions that are ready, as a channel of changes.
    pub(super) fn ready(&self) -> watch::Receiver<usize> {
        self.ready.subscribe()
    }

    /// Closes all sessions, as the node server has ended and they with it.
    pub(super) fn close_all(&self) {
        self.entries().clear();
        self.count();
    }

    fn update(&self, session: &NodeServerSessionInformation, state: State) {
        let mut entries = self.entries();
        if matches!(state, State::Closed) {
            if let Some(entry) = entries.remove(&session.peer_addr) {
                entry.send_replace(state);
            }
        } else if let Some(entry) = entries.get(&session.peer_addr) {
            entry.send_replace(state);
        } else {
            // The connection took too long, and nobody waits for the session any more.
            session.actor.stop(Some("unwatched".to_owned()));
        }
        // The count takes the same lock.
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

    /// The table. Every change of it is a single step, so a panic of another thread leaves it whole.
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
    /// Waits until the session is ready; false if it ended before.
    pub(super) async fn ready(&mut self) -> bool {
        let settled = |state: &State| matches!(state, State::Ready(_) | State::Closed);
        match self.state.wait_for(settled).await {
            Ok(state) => matches!(*state, State::Ready(_)),
            Err(_) => false,
        }
    }

    /// The same session, which ends when the certificate of the peer is not accepted any more.
    pub(super) fn while_trusted(self, trust: Trust) -> Self {
        // The fields cannot be moved out of a session, as it ends when it is dropped.
        let mut session = self;
        session.trust = Some(trust);
        session
    }

    /// Waits until the session has ended, or is to end as its peer is not trusted any more.
    pub(super) async fn closed(&mut self) {
        let closed = self.state.wait_for(|state| matches!(state, State::Closed));
        match &self.trust {
            // Fails for a session that ended with its node server, which the table forgets.
            None => drop(closed.await),
            Some(Trust { identity, peer }) => tokio::select! {
                closed = closed => drop(closed),
                () = identity.refuses(peer) => {
                    warn!(session = self.label, "the certificate of a peer is not accepted any more; its session ends");
                }
            },
        }
    }
}

impl Drop for Session {
    /// Ends the session: one that nobody watches any more has no deadline and no successor.
    fn drop(&mut self) {
        let state = self.state.borrow().clone();
        match state {
            State::Open(actor) | State::Ready(actor) => actor.stop(Some("unwatched".to_owned())),
            State::Pending => drop(self.sessions.entries().remove(&self.label)),
            State::Closed => {}
        }
    }
}
