//! Transport between an orchestrator and a node that share the process: each message is encoded, crosses a socket, and comes back
//! to it; nothing is handed over directly.

use std::time::Duration;

use parkhang_actors::cluster::{
    Cluster, ClusterConfig, Cookie, NodeName, RedialPolicy, RemoteOrchestrator, RemotePools,
    RemotePoolsConfig, Security, UplinkConfig,
};
use parkhang_actors::orchestrator::OrchestratorHandle;
use parkhang_core::domain::Epoch;
use tokio::sync::{Mutex, MutexGuard};

/// What actors of one process show to their peers goes to all peers, so that two sessions at once would see each other's.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Session of two node servers, and the actors at both of its ends.
#[derive(Debug)]
pub struct Session {
    pub uplink: RemoteOrchestrator,
    pools: RemotePools,
    at_node: Cluster,
    at_orchestrator: Cluster,
    _alone: MutexGuard<'static, ()>,
}

impl Session {
    /// Waits for its turn, as there is one session a process.
    pub(crate) async fn start(orchestrator: &OrchestratorHandle) -> Self {
        let alone = ALONE.lock().await;
        let at_orchestrator = Cluster::start(ClusterConfig {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            ..config("orchestrator")
        });
        let at_orchestrator = at_orchestrator.await.unwrap();
        let pools = RemotePoolsConfig::new(at_orchestrator.node().clone(), orchestrator.clone(), Epoch(1));
        let pools = RemotePools::start(pools).await.unwrap();
        let at_node = dial(&at_orchestrator).await;
        Self {
            uplink: uplink(&at_node).await,
            pools,
            at_node,
            at_orchestrator,
            _alone: alone,
        }
    }

    /// Name of the node.
    pub fn node(&self) -> &NodeName {
        self.at_node.node()
    }

    /// Dials the orchestrator anew, and ends the session that there was.
    pub async fn redial(&mut self) {
        let again = dial(&self.at_orchestrator).await;
        std::mem::replace(&mut self.at_node, again).leave().await;
    }

    /// Ends the actors at the side of the node, as when its process is killed, and starts them anew.
    pub async fn restart_uplink(&mut self) {
        self.uplink.clone().stop().await;
        self.uplink = uplink(&self.at_node).await;
    }

    pub(crate) async fn stop(self) {
        self.uplink.stop().await;
        self.pools.stop().await;
        self.at_node.leave().await;
        self.at_orchestrator.leave().await;
    }
}

fn config(node: &str) -> ClusterConfig {
    let cookie = Cookie::new("a secret of the tests").unwrap();
    let mut config = ClusterConfig::new(NodeName::unique(node).unwrap(), Security::Loopback(cookie));
    config.timings.redial = RedialPolicy {
        first: Duration::from_millis(10),
        longest: Duration::from_millis(50),
        stable_after: Duration::from_secs(1),
    };
    config
}

async fn dial(peer: &Cluster) -> Cluster {
    let address = peer.local_addr().unwrap().to_string();
    let cluster = Cluster::start(ClusterConfig {
        peers: vec![address.parse().unwrap()],
        ..config("node")
    });
    cluster.await.unwrap()
}

async fn uplink(at_node: &Cluster) -> RemoteOrchestrator {
    let config = UplinkConfig::new(at_node.node().clone(), "parkhang");
    RemoteOrchestrator::start(config).await.unwrap()
}
