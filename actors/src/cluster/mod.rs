//! Connections between nodes: an authenticated transport with deadlines under ractor_cluster, and thin endpoints that translate
//! between the messages of [`crate::wire`] and the actors of this node. Workers dial every orchestrator, again and again;
//! nobody dials a worker, so that workers may come and go, and be behind a firewall, without a list of them anywhere.
//!
//! ractor_cluster brings sessions and groups. Its own listener can be held up by one silent client, never notices a frozen
//! peer, and never dials again; so it is fed streams that are made ready here (`connection`, `stream`, `redial`). Each step of a
//! connection has a time limit, handshakes run in tasks of their own and few at a time, and a peer that is silent for too long
//! is dead, whatever its kernel says. Nothing leaves this machine without TLS on both sides and a secret (`security`).
//!
//! Only endpoints are remotable actors, and they have no names: every remotable actor is known on every connected node, and
//! names of remotable actors collide across nodes. A remote actor is never stopped from here; stopping it would end the
//! session of its whole node. An endpoint answers one envelope with one; requests may be repeated, as a lost answer looks like a lost
//! request. An endpoint decides nothing: the orchestrator behind it, and the pools, do not know whether a message came from another
//! node. A leader's epoch goes with its requests, so that a node which has seen a later leader refuses the earlier one.
//!
//! Nodes describe themselves to the leader with their heartbeats (`registry`), and it alone writes them down: a hundred nodes need
//! no connections to Postgres, and a list that decides nothing may be a heartbeat old.

mod changing_files;
mod connection;
mod connection_tracker;
mod description;
mod endpoint;
mod endpoint_discovery;
mod error;
mod listener;
mod name;
mod orchestrator_endpoint;
mod partition;
mod redial;
mod registry;
mod remote_orchestrator;
mod remote_pool;
mod remote_pools;
mod security;
mod sessions;
mod socket;
mod stage_endpoint;
mod stream;
mod tls;
mod transport;

pub use changing_files::ChangingFiles;
pub use error::{ClusterError, LinkError, Phase};
pub use name::NodeName;
pub use partition::Partition;
pub use redial::RedialPolicy;
pub use registry::NodeRegistry;
pub use remote_orchestrator::{RemoteOrchestrator, UplinkConfig};
pub use remote_pools::{RemotePools, RemotePoolsConfig};
pub use security::{Cookie, InsecureAddress, Security, WeakCookie};
pub use tls::{TlsError, TlsFiles, TlsIdentity};
pub use transport::{Cluster, ClusterConfig, InvalidPeer, PeerAddress, Timings};

#[cfg(test)]
mod tests;
