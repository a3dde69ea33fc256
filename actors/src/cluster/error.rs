use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::security::InsecureAddress;

/// Reason why a node cannot take part in a cluster at all.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// It would listen beyond this machine without TLS.
    #[error(transparent)]
    Insecure(#[from] InsecureAddress),
    /// The address to listen at cannot be bound.
    #[error("cannot listen at {address}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    /// The actor that owns the sessions cannot be started.
    #[error("cannot start the node server: {0}")]
    NodeServer(String),
}

/// Step on the way to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Looking up the peer's addresses.
    Resolving,
    /// Opening the TCP connection.
    Connecting,
    /// Agreeing on encryption and checking certificates.
    TlsHandshake,
    /// Checking that both sides have the cluster's secret.
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

/// Reason why there is no session with a peer.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer is on another machine, and there is no TLS.
    #[error(transparent)]
    Insecure(#[from] InsecureAddress),
    /// A step failed.
    #[error("{phase} failed")]
    Io { phase: Phase, source: std::io::Error },
    /// A step took too long.
    #[error("{phase} took longer than {limit:?}")]
    Slow { phase: Phase, limit: Duration },
    /// The name of the peer has no address.
    #[error("no address for {0}")]
    NoAddress(String),
    /// The name of the peer cannot be in a certificate.
    #[error("{0:?} cannot be the name of a TLS server")]
    ServerName(String),
    /// The peer ended the session: the secrets differ, or it takes an earlier session of this node for alive.
    #[error(
        "the peer ended the session before it was authenticated: it has another secret, or takes an earlier session for alive; \
         give all nodes the same cluster.cookie_file"
    )]
    Refused,
    /// This node is leaving the cluster.
    #[error("this node is leaving the cluster")]
    Leaving,
}
