mod certificates;
mod encrypted;
mod endpoints;
mod plain;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use super::{Cluster, ClusterConfig, Cookie, NodeName, PeerAddress, RedialPolicy, Security};

/// The registries of actors and groups are one per process, so nodes of two tests would see each other.
pub(super) async fn alone() -> MutexGuard<'static, ()> {
    static SERIAL: Mutex<()> = Mutex::const_new(());
    SERIAL.lock().await
}

pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(super) fn cookie() -> Cookie {
    Cookie::new("a secret of the tests").unwrap()
}

pub(super) fn config(node: &str, security: Security) -> ClusterConfig {
    let mut config = ClusterConfig::new(NodeName::unique(node).unwrap(), security);
    config.timings.redial = RedialPolicy {
        first: Duration::from_millis(10),
        longest: Duration::from_millis(50),
        stable_after: Duration::from_secs(1),
    };
    config
}

pub(super) fn listening(node: &str, security: Security) -> ClusterConfig {
    ClusterConfig {
        listen: Some(LOOPBACK),
        ..config(node, security)
    }
}

pub(super) fn address(cluster: &Cluster) -> PeerAddress {
    cluster.local_addr().unwrap().to_string().parse().unwrap()
}

/// Waits until so many peers are connected.
pub(super) async fn connected(cluster: &Cluster, peers: usize) {
    let mut count = cluster.connected();
    let reached = timeout(TIMEOUT, count.wait_for(|count| *count == peers));
    reached.await.expect("in time").unwrap();
}

/// Waits until the other side has closed the connection.
async fn is_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is as good as an end.
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut rest))
        .await
        .expect("the listener closes it");
}
