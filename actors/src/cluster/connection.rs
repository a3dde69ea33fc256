//! Steps that make a session of a TCP connection: it is tuned, encrypted and authenticated, each step under a deadline.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ractor::ActorRef;
use ractor_cluster::NodeServerMessage;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

use super::error::{LinkError, Phase};
use super::security::Security;
use super::sessions::{Session, Sessions, Trust};
use super::socket::tune;
use super::stream::Link;
use super::transport::{PeerAddress, Timings};

/// Side of a connection that this node is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Dialled,
    Accepted,
}

/// Parts that every connection of a node needs.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub server: ActorRef<NodeServerMessage>,
    pub sessions: Sessions,
    pub security: Security,
    pub timings: Timings,
    /// Number of connections so far, by which their labels differ.
    pub count: Arc<AtomicU64>,
}

impl Connector {
    /// Connects to the first address of the peer that answers. Returns once the session is ready.
    ///
    /// # Errors
    ///
    /// When no address answers, or the first one that does refuses a later step.
    pub(super) async fn dial(&self, peer: &PeerAddress) -> Result<Session, LinkError> {
        let addresses: Vec<SocketAddr> = self
            .within(Phase::Resolving, tokio::net::lookup_host(peer.as_str()))
            .await?
            .collect();
        let mut last = LinkError::NoAddress(peer.as_str().to_owned());
        for address in addresses {
            // Each of them, as one name may stand for addresses here and on other machines.
            self.security.permit(address)?;
            match self.within(Phase::Connecting, TcpStream::connect(address)).await {
                Ok(stream) => return self.secure_client(stream, peer).await,
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn secure_client(&self, stream: TcpStream, peer: &PeerAddress) -> Result<Session, LinkError> {
        self.tune(&stream)?;
        match &self.security {
            Security::Loopback(_) => self.establish(stream, peer.as_str(), Side::Dialled).await,
            Security::MutualTls { identity, .. } => {
                let name = ServerName::try_from(peer.host().to_owned())
                    .map_err(|_| LinkError::ServerName(peer.host().to_owned()))?;
                let handshake = identity.connector().connect(name, stream);
                let stream = self.within(Phase::TlsHandshake, handshake).await?;
                let trust = Trust::of(identity, stream.get_ref().1.peer_certificates());
                let session = self.establish(stream, peer.as_str(), Side::Dialled).await?;
                Ok(session.while_trusted(trust))
            }
        }
    }

    /// Makes a session of a connection that a peer has opened. Returns once it is ready.
    pub(super) async fn accept(&self, stream: TcpStream, from: SocketAddr) -> Result<Session, LinkError> {
        self.security.permit(from)?;
        self.tune(&stream)?;
        let from = from.to_string();
        match &self.security {
            Security::Loopback(_) => self.establish(stream, &from, Side::Accepted).await,
            Security::MutualTls { identity, .. } => {
                let handshake = identity.acceptor().accept(stream);
                let stream = self.within(Phase::TlsHandshake, handshake).await?;
                let trust = Trust::of(identity, stream.get_ref().1.peer_certificates());
                let session = self.establish(stream, &from, Side::Accepted).await?;
                Ok(session.while_trusted(trust))
            }
        }
    }

    fn tune(&self, stream: &TcpStream) -> Result<(), LinkError> {
        tune(stream, self.timings.unacknowledged).map_err(|source| LinkError::Io {
            phase: Phase::Connecting,
            source,
        })
    }

    async fn establish<S>(&self, stream: S, peer: &str, side: Side) -> Result<Session, LinkError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        // Expected before the node server gets the stream: its events about the session come by the label, and may come at once.
        let label = format!("{peer}#{}", self.count.fetch_add(1, Ordering::Relaxed));
        let mut session = self.sessions.expect(label.clone());
        let link = Link {
            stream,
            idle: self.timings.idle,
            label,
        };
        self.server
            .cast(NodeServerMessage::ConnectionOpenedExternal {
                stream: Box::new(link),
                is_server: side == Side::Accepted,
            })
            .map_err(|_| LinkError::Leaving)?;
        let limit = self.timings.handshake;
        match timeout(limit, session.ready()).await {
            Ok(true) => Ok(session),
            Ok(false) => Err(LinkError::Refused),
            Err(_) => Err(LinkError::Slow {
                phase: Phase::Authentication,
                limit,
            }),
        }
    }

    async fn within<T>(
        &self,
        phase: Phase,
        step: impl Future<Output = io::Result<T>>,
    ) -> Result<T, LinkError> {
        let limit = match phase {
            Phase::Resolving | Phase::Connecting => self.timings.dial,
            _ => self.timings.handshake,
        };
        match timeout(limit, step).await {
            Ok(result) => result.map_err(|source| LinkError::Io { phase, source }),
            Err(_) => Err(LinkError::Slow { phase, limit }),
        }
    }
}
