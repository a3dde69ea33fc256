use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ractor::Actor;
use ractor_cluster::node::NodeConnectionMode;
use ractor_cluster::{NodeServer, NodeServerMessage};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::connection::Connector;
use super::error::ClusterError;
use super::listener;
use super::name::NodeName;
use super::partition::Partition;
use super::redial::{Redial, RedialPolicy};
use super::security::Security;
use super::sessions::Sessions;
use super::tls::{LOOK, TlsIdentity};
use crate::detached;
use crate::telemetry::{Connected, Disconnected};

/// Default limit on the bytes of one frame. Messages are far smaller; only the list of a node's endpoints can be larger than they.
const MAX_FRAME: u64 = 1 << 20;

/// Address of a peer to dial, `host:port`. The host is also the name that its certificate must bear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAddress(String);

/// Text that is no address of a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not host:port")]
pub struct InvalidPeer(pub String);

impl FromStr for PeerAddress {
    type Err = InvalidPeer;

    fn from_str(text: &str) -> Result<Self, InvalidPeer> {
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(InvalidPeer(text.to_owned())),
        }
    }
}

impl PeerAddress {
    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        let host = self.0.rsplit_once(':').map_or(self.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Deadlines of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// Time limit for each of looking up an address and connecting to it.
    pub dial: Duration,
    /// Time limit for each further step until a session is ready.
    pub handshake: Duration,
    /// Silence after which a peer is dead. Below 12 s, two late pings would end a healthy session.
    pub idle: Duration,
    /// Time after which data that the peer's kernel does not acknowledge ends the connection.
    pub unacknowledged: Duration,
    /// Delays between attempts to reach a peer.
    pub redial: RedialPolicy,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            dial: Duration::from_secs(5),
            handshake: Duration::from_secs(5),
            idle: Duration::from_secs(12),
            unacknowledged: Duration::from_secs(10),
            redial: RedialPolicy::default(),
        }
    }
}

/// Settings of a node's transport.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// Name of this node.
    pub node: NodeName,
    /// Address at which peers may dial this node; a node that only works listens nowhere.
    pub listen: Option<SocketAddr>,
    /// Peers that this node dials, again and again.
    pub peers: Vec<PeerAddress>,
    /// Secret and certificates.
    pub security: Security,
    /// Time limits.
    pub timings: Timings,
    /// Limit on connections that are not authenticated yet.
    pub max_unauthenticated: usize,
    /// Largest frame that is taken from a peer, in bytes.
    pub max_frame: u64,
}

impl ClusterConfig {
    /// The defaults, for a node that neither listens nor dials.
    pub fn new(node: NodeName, security: Security) -> Self {
        Self {
            node,
            listen: None,
            peers: Vec::new(),
            security,
            timings: Timings::default(),
            max_unauthenticated: 64,
            max_frame: MAX_FRAME,
        }
    }
}

/// This node's place in the cluster. One per process: what is remotable in the process is so on every connection.
#[derive(Debug)]
pub struct Cluster {
    node: NodeName,
    pub(super) connector: Connector,
    local_addr: Option<SocketAddr>,
    partition: Partition,
    tasks: TaskTracker,
    leaving: CancellationToken,
    ended: CancellationToken,
}

impl Cluster {
    /// Listens, and starts to dial. Returns before any peer has been reached.
    ///
    /// # Errors
    ///
    /// When the node cannot listen, or the actor that owns the sessions cannot be started.
    pub fn start(config: ClusterConfig) -> BoxFuture<'static, Result<Self, ClusterError>> {
        Box::pin(async move {
            let listener = match config.listen {
                Some(address) => Some(bind(address, &config.security).await?),
                None => None,
            };
            let local_addr = listener.as_ref().and_then(|listener| listener.local_addr().ok());

            // Its own listener cannot be switched off, has no deadlines, and no TLS that could be configured here. So it listens on
            // loopback, at a port that nobody is told, and sessions are opened on streams that this room has made ready.
            let node_server = NodeServer::new(
                0,
                config.security.cookie().expose().to_owned(),
                config.node.as_str().to_owned(),
                // In place of the host name: two nodes of one host name and one port would take each other for themselves.
                config.node.as_str().to_owned(),
                None,
                Some(NodeConnectionMode::Isolated),
            )
            .with_listen_addr(IpAddr::V4(Ipv4Addr::LOCALHOST))
            .with_max_inbound_frame_size(config.max_frame);
            let (server, end) = Actor::spawn(None, node_server, ())
                .await
                .map_err(|error| ClusterError::NodeServer(error.to_string()))?;

            let sessions = Sessions::new();
            server
                .cast(NodeServerMessage::SubscribeToEvents {
                    id: "sessions".to_owned(),
                    subscription: Box::new(sessions.clone()),
                })
                .map_err(|error| ClusterError::NodeServer(error.to_string()))?;
            let connector = Connector {
                server,
                sessions: sessions.clone(),
                security: config.security,
                timings: config.timings,
                count: Arc::default(),
            };
            let (tasks, leaving, ended) = (
                TaskTracker::new(),
                CancellationToken::new(),
                CancellationToken::new(),
            );
            if let Security::MutualTls { identity, .. } = &connector.security {
                tasks.spawn(keep_fresh(identity.clone(), leaving.clone()));
            }
            if let Some(listener) = listener {
                tasks.spawn(listener::serve(
                    listener,
                    connector.clone(),
                    config.max_unauthenticated,
                    tasks.clone(),
                    leaving.clone(),
                ));
            }
            let partition = Partition::default();
            for peer in config.peers {
                let links = (connector.clone(), partition.clone());
                let dialled = keep_connected(peer, links, leaving.clone());
                tasks.spawn(dialled);
            }
            let end_of_server = ended.clone();
            detached::spawn(async move {
                // Whether it stopped or failed, its sessions are gone.
                let _ = end.await;
                sessions.close_all();
                end_of_server.cancel();
            });
            Ok(Self {
                node: config.node,
                connector,
                local_addr,
                partition,
                tasks,
                leaving,
                ended,
            })
        })
    }

    /// Name of this node.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Address at which this node listens, with the port that the system chose for port 0.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }

    /// Number of peers that are connected and authenticated, as a channel of changes.
    pub fn connected(&self) -> watch::Receiver<usize> {
        self.connector.sessions.ready()
    }

    /// Where the sessions that this node dials can be cut.
    pub fn partition(&self) -> Partition {
        self.partition.clone()
    }

    /// Waits until the node server is gone. Before [`Cluster::leave`] that is a failure: no session can come back, and the
    /// process must end.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Ends all sessions and stops listening and dialling.
    pub async fn leave(self) {
        self.leaving.cancel();
        // The tasks hold the sessions, which end with them, before the server that owns the sessions is
        // stopped.
        self.tasks.close();
        self.tasks.wait().await;
        // An error says that it has stopped already.
        let _ = self.connector.server.stop_and_wait(None, None).await;
        self.ended.cancelled().await;
    }
}

async fn bind(address: SocketAddr, security: &Security) -> Result<TcpListener, ClusterError> {
    security.permit(address)?;
    TcpListener::bind(address)
        .await
        .map_err(|source| ClusterError::Listen { address, source })
}

/// Looks from time to time whether certificates have changed: peers that were connected before are to lose what they had.
async fn keep_fresh(identity: TlsIdentity, leaving: CancellationToken) {
    while leaving
        .run_until_cancelled(tokio::time::sleep(LOOK))
        .await
        .is_some()
    {
        identity.look();
    }
}

/// Number of successive failures to connect of which one is logged as a warning.
const TOLD_EVERY: u32 = 20;

/// Keeps one session with the peer, for ever.
async fn keep_connected(
    peer: PeerAddress,
    (connector, partition): (Connector, Partition),
    leaving: CancellationToken,
) {
    let mut redial = Redial::new(connector.timings.redial);
    let mut failures = 0_u32;
    let rounds = async {
        loop {
            partition.over().await;
            let lived = match connector.dial(&peer).await {
                Ok(mut session) => {
                    Connected { peer: &peer }.emit();
                    let since = Instant::now();
                    tokio::select! {
                        () = session.closed() => {}
                        // The session ends as it is dropped.
                        () = partition.begun() => {}
                    }
                    let after = since.elapsed();
                    Disconnected { peer: &peer, after }.emit();
                    failures = 0;
                    Some(after)
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    // Nodes that start together find each other at the second try, and who waits for hours says so now and then.
                    match failures % TOLD_EVERY {
                        1 => warn!(%peer, error, failures, "cannot connect; trying again and again"),
                        _ => debug!(%peer, error, "cannot connect"),
                    }
                    failures += 1;
                    None
                }
            };
            tokio::time::sleep(redial.delay_after(lived, rand::random())).await;
        }
    };
    tokio::select! {
        () = rounds => {}
        () = leaving.cancelled() => {}
    }
}
