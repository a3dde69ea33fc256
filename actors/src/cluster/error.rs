use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::security::InsecureAddress;

/// Why a node cannot take part in a cluster at all.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(transparent)]
    Insecure(#[from] InsecureAddress),
    #[error("cannot listen at {address}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot start the node server: {0}")]
    NodeServer(String),
}

/// How far a connection had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Resolving,
    Connecting,
    TlsHandshake,
    Authentication,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolving => "resolving the address",
            Self::Connecting => "connecting",
            Self::TlsHandshake => "TLS handshake",
            Self::Authentication => "authentication",
        })
    }
}

/// Why there is no session with a peer.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error(transparent)]
    Insecure(#[from] InsecureAddress),
    #[error("{phase} failed")]
    Io { phase: Phase, source: std::io::Error },
    #[error("{phase} took longer than {limit:?}")]
    Slow { phase: Phase, limit: Duration },
    #[error("no address for {0}")]
    NoAddress(String),
    #[error("{0:?} cannot be the name of a TLS server")]
    ServerName(String),
    /// Another secret, or a session that the peer still takes for alive.
    #[error(
        "the peer ended the session before it was authenticated: it has another secret, or takes an earlier session for alive; \
         give all nodes the same cluster.cookie_file"
    )]
    Refused,
    #[error("this node is leaving the cluster")]
    Leaving,
}
