//! How nodes reach each other: an authenticated, deadlined transport under ractor_cluster, and thin gates that translate
//! between the messages of [`crate::wire`] and the actors of this node. Workers dial every orchestrator, for ever;
//! nobody dials a worker.
//!
//! Only gates are remotable actors, and they have no names: every remotable actor is known on every connected node, and
//! names of remotable actors collide across nodes. A remote actor is never stopped from here; stopping it would end the
//! session of its whole node.

mod connection;
mod cut;
mod error;
mod gate;
mod gate_watch;
mod listener;
mod name;
mod orchestrator_gate;
mod reach;
mod redial;
mod remote_orchestrator;
mod remote_pool;
mod remote_pools;
mod roster;
mod security;
mod sessions;
mod socket;
mod stage_gate;
mod stream;
mod tls;
mod transport;

pub use cut::Cut;
pub use error::{ClusterError, LinkError, Phase};
pub use name::NodeName;
pub use redial::RedialPolicy;
pub use remote_orchestrator::{RemoteOrchestrator, UplinkConfig};
pub use remote_pools::{RemotePools, RemotePoolsConfig};
pub use roster::Roster;
pub use security::{Cookie, InsecureAddress, Security, WeakCookie};
pub use tls::{TlsError, TlsIdentity};
pub use transport::{Cluster, ClusterConfig, InvalidPeer, PeerAddress, Timings};

#[cfg(test)]
mod tests;
