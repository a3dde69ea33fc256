//! An orchestrator and the pools of a node, over a session of two node servers. They share one process, so each message
//! between them is encoded, crosses a socket, and comes back to it; nothing is handed over directly.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::Utc;
use parkhang_actors::cluster::{
    Cluster, ClusterConfig, Cookie, NodeName, RedialPolicy, RemoteOrchestrator, RemotePools,
    RemotePoolsConfig, Security, UplinkConfig,
};
use parkhang_actors::orchestrator::{JobEnd, OrchestratorConfig, OrchestratorHandle};
use parkhang_actors::stage::{StageLogic, StageRegistry};
use parkhang_actors::supervisor::{HealthPolicy, NodeConfig, NodeSupervisor};
use parkhang_actors::telemetry::ProgressBoard;
use parkhang_core::domain::{Epoch, Hardware, Job, JobStatus, StageRunStatus, TaskStatus};
use parkhang_core::policy::job_action::JobAction;
use parkhang_state::{MemoryStore, StateStore};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};

use crate::cluster::{Deed, told, two_volumes};

/// Gates are registered per process: two of these tests at once would see each other's.
async fn alone() -> MutexGuard<'static, ()> {
    static SERIAL: Mutex<()> = Mutex::const_new(());
    SERIAL.lock().await
}

fn cluster_config(node: &str) -> ClusterConfig {
    let cookie = Cookie::new("a secret of the tests").unwrap();
    let mut config = ClusterConfig::new(NodeName::unique(node).unwrap(), Security::Loopback(cookie));
    config.timings.redial = RedialPolicy {
        first: Duration::from_millis(10),
        longest: Duration::from_millis(50),
        settled: Duration::from_secs(1),
    };
    config
}

struct Remote {
    store: Arc<dyn StateStore>,
    job: Job,
    orchestrator: OrchestratorHandle,
    pools: RemotePools,
    node: NodeSupervisor,
    uplink: RemoteOrchestrator,
    at_orchestrator: Cluster,
    at_node: Cluster,
}

impl Remote {
    async fn start(stages: Vec<Arc<dyn StageLogic>>) -> Self {
        let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
        let job = store.create_job(&two_volumes(&stages), Utc::now()).await.unwrap();
        let at_orchestrator = Cluster::start(ClusterConfig {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            ..cluster_config("orchestrator")
        });
        let at_orchestrator = at_orchestrator.await.unwrap();
        let orchestrator = OrchestratorHandle::start(OrchestratorConfig::new(store.clone()));
        let orchestrator = orchestrator.await.unwrap();
        let pools = RemotePools::start(RemotePoolsConfig::new(
            at_orchestrator.node().clone(),
            orchestrator.clone(),
            Epoch(1),
        ));
        let pools = pools.await.unwrap();

        let at_node = dial(&at_orchestrator).await;
        let uplink = RemoteOrchestrator::start(UplinkConfig::new(at_node.node().clone(), "parkhang"))
            .await
            .unwrap();
        let node = NodeSupervisor::start(NodeConfig {
            name: at_node.node().to_string(),
            slots: HashMap::from([(Hardware::Cpu, 1)]),
            registry: Arc::new(StageRegistry::of(stages)),
            progress: Arc::new(ProgressBoard::default()),
            control_plane: Arc::new(uplink.clone()),
            heartbeat: Duration::from_secs(5),
            health: HealthPolicy::default(),
        });
        Self {
            store,
            job,
            orchestrator,
            pools,
            node: node.await.unwrap(),
            uplink,
            at_orchestrator,
            at_node,
        }
    }

    async fn completes(&self) {
        let end = self.orchestrator.job_end(self.job.id).await.unwrap();
        assert_eq!(end, JobEnd::Settled(JobStatus::Completed));
    }

    async fn stop(self) {
        self.node.stop().await;
        self.uplink.stop().await;
        self.pools.stop().await;
        self.orchestrator.stop().await;
        self.at_node.leave().await;
        self.at_orchestrator.leave().await;
    }
}

async fn dial(peer: &Cluster) -> Cluster {
    let address = peer.local_addr().unwrap().to_string();
    let cluster = Cluster::start(ClusterConfig {
        peers: vec![address.parse().unwrap()],
        ..cluster_config("node")
    });
    cluster.await.unwrap()
}

#[tokio::test]
async fn a_job_runs_on_another_node() {
    let _alone = alone().await;
    let (first, firsts) = told("first", Deed::Succeed);
    let (second, seconds) = told("second", Deed::Succeed);
    let remote = Remote::start(vec![first, second]).await;
    remote.completes().await;
    for task in remote.store.tasks(remote.job.id).await.unwrap() {
        assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0));
        for run in remote.store.stage_runs(task.id).await.unwrap() {
            let node = remote.at_node.node().as_str();
            assert!(
                run.worker.0.starts_with(node),
                "{} ran it, not {node}",
                run.worker
            );
        }
    }
    assert_eq!(firsts.load(Ordering::Relaxed), 2);
    assert_eq!(seconds.load(Ordering::Relaxed), 2);
    remote.stop().await;
}

#[tokio::test]
async fn work_goes_on_while_its_node_is_out_of_touch() {
    let _alone = alone().await;
    let running = Arc::new(Notify::new());
    let (go, told_to_go) = watch::channel(false);
    let (stage, runs) = told("stage", Deed::UntilTold(running.clone(), told_to_go));
    let mut remote = Remote::start(vec![stage]).await;
    running.notified().await;

    let again = dial(&remote.at_orchestrator).await;
    std::mem::replace(&mut remote.at_node, again).leave().await;
    go.send(true).unwrap();
    remote.completes().await;
    for task in remote.store.tasks(remote.job.id).await.unwrap() {
        assert_eq!((task.attempts, task.interruptions), (0, 0));
    }
    assert_eq!(runs.load(Ordering::Relaxed), 2, "nothing is done twice");
    remote.stop().await;
}

#[tokio::test]
async fn a_drain_reaches_other_nodes() {
    let _alone = alone().await;
    let running = Arc::new(Notify::new());
    let (stage, _) = told("stage", Deed::UntilDrained(running.clone()));
    let remote = Remote::start(vec![stage]).await;
    running.notified().await;
    remote.orchestrator.drain();
    remote.orchestrator.idle(remote.job.id).await.unwrap();
    for task in remote.store.tasks(remote.job.id).await.unwrap() {
        assert_eq!((task.fence(), task.attempts, task.interruptions), (None, 0, 0));
    }
    remote.stop().await;
}

#[tokio::test]
async fn the_work_of_a_node_that_died_is_given_to_others() {
    let _alone = alone().await;
    let running = Arc::new(Notify::new());
    let (_go, never) = watch::channel(false);
    let (stuck, _) = told("stage", Deed::UntilTold(running.clone(), never));
    let mut remote = Remote::start(vec![stuck]).await;
    running.notified().await;
    // Its gates close with it, as when the process is killed.
    remote.node.stop().await;
    remote.uplink.clone().stop().await;

    let (stage, runs) = told("stage", Deed::Succeed);
    remote.uplink = RemoteOrchestrator::start(UplinkConfig::new(remote.at_node.node().clone(), "parkhang"))
        .await
        .unwrap();
    let node = NodeSupervisor::start(NodeConfig {
        name: NodeName::unique("successor").unwrap().to_string(),
        slots: HashMap::from([(Hardware::Cpu, 1)]),
        registry: Arc::new(StageRegistry::of(vec![stage])),
        progress: Arc::new(ProgressBoard::default()),
        control_plane: Arc::new(remote.uplink.clone()),
        heartbeat: Duration::from_secs(5),
        health: HealthPolicy::default(),
    });
    remote.node = node.await.unwrap();
    remote.completes().await;
    let mut ends = Vec::new();
    for task in remote.store.tasks(remote.job.id).await.unwrap() {
        let history = remote.store.stage_runs(task.id).await.unwrap();
        ends.extend(history.iter().map(|run| run.status));
    }
    ends.sort_by_key(|status| status.as_str());
    assert_eq!(
        ends,
        [
            StageRunStatus::Done,
            StageRunStatus::Done,
            StageRunStatus::Interrupted
        ]
    );
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    remote.stop().await;
}

#[tokio::test]
async fn a_cancellation_reaches_other_nodes() {
    let _alone = alone().await;
    let running = Arc::new(Notify::new());
    let (stage, _) = told("stage", Deed::UntilDrained(running.clone()));
    let remote = Remote::start(vec![stage]).await;
    running.notified().await;
    remote
        .store
        .act_on_job(remote.job.id, JobAction::Cancel)
        .await
        .unwrap();
    remote.orchestrator.wake();
    remote.orchestrator.idle(remote.job.id).await.unwrap();
    let tasks = remote.store.tasks(remote.job.id).await.unwrap();
    assert!(
        tasks
            .iter()
            .all(|task| (task.attempts, task.interruptions) == (0, 0))
    );
    let history = remote.store.stage_runs(tasks[0].id).await.unwrap();
    assert_eq!(history[0].status, StageRunStatus::Cancelled);

    // The slot is free once the stage has stopped.
    let next = two_volumes(&[told("stage", Deed::Succeed).0]);
    let next = remote.store.create_job(&next, Utc::now()).await.unwrap();
    remote.orchestrator.wake();
    running.notified().await;
    remote.store.act_on_job(next.id, JobAction::Cancel).await.unwrap();
    remote.orchestrator.wake();
    remote.orchestrator.idle(next.id).await.unwrap();
    remote.stop().await;
}
