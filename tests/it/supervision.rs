//! What a node does about stages that hang. Time is paused: it passes when nobody has anything to do.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parkhang_actors::orchestrator::{JobEnd, OrchestratorConfig, OrchestratorHandle};
use parkhang_actors::stage::{StageContext, StageInfo, StageLogic, StageRegistry};
use parkhang_actors::supervisor::{HealthPolicy, NodeConfig, NodeSupervisor};
use parkhang_actors::telemetry::ProgressBoard;
use parkhang_core::domain::{
    ErrorCategory, Hardware, JobConfig, JobStatus, NodeRecord, NodeState, PageOutcome, StageName,
    StageReport, StageVerdict, TaskStatus, VolumeId, WorkerId, WorkerRecord,
};
use parkhang_core::policy::pool_health::FaultLimits;
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, MemoryStore, NodeSnapshot, StateStore};

use crate::cluster::{Deed, told, two_volumes};

pub(super) const HEALTH: HealthPolicy = HealthPolicy {
    progress_window: Duration::from_secs(10),
    faults: FaultLimits {
        stalls: 5,
        silences: 2,
        renewals: 5,
    },
    check_limit: Duration::from_secs(5),
    max_restarts: 2,
    restart_window: Duration::from_secs(600),
    restart_backoff: Duration::from_millis(200),
};

/// A stage whose device hangs under one volume and, until it is renewed, holds up the other.
#[derive(Debug)]
struct Hanging {
    poison: VolumeId,
    hung: AtomicBool,
    renewals: AtomicUsize,
}

impl StageInfo for Hanging {
    fn name(&self) -> StageName {
        StageName::new("hanging").unwrap()
    }

    fn hardware(&self) -> Hardware {
        Hardware::Gpu
    }

    fn renew(&self) -> std::io::Result<()> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        self.hung.store(false, Ordering::Relaxed);
        Ok(())
    }
}

#[async_trait]
impl StageLogic for Hanging {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        let volume = &context.assignment.volume;
        context.progress.started(100);
        if *volume == self.poison {
            self.hung.store(true, Ordering::Relaxed);
            return std::future::pending().await;
        }
        // It comes further all the time; when the device hangs it only never ends.
        let mut pages = tokio::time::interval(Duration::from_secs(1));
        for page in 0.. {
            pages.tick().await;
            context.progress.page_finished(PageOutcome::Succeeded);
            if page > 3 && !self.hung.load(Ordering::Relaxed) {
                break;
            }
        }
        StageVerdict::Succeeded(StageReport::default())
    }
}

async fn node(stage: Arc<Hanging>, slots: usize, orchestrator: &OrchestratorHandle) -> NodeSupervisor {
    start("test", stage, slots, orchestrator).await
}

async fn serve(name: &str, stage: Arc<dyn StageLogic>, orchestrator: &OrchestratorHandle) -> NodeSupervisor {
    start(name, stage, 1, orchestrator).await
}

pub(super) async fn start(
    name: &str,
    stage: Arc<dyn StageLogic>,
    slots: usize,
    orchestrator: &OrchestratorHandle,
) -> NodeSupervisor {
    NodeSupervisor::start(NodeConfig {
        name: name.to_owned(),
        slots: HashMap::from([(Hardware::Gpu, slots), (Hardware::Cpu, slots)]),
        registry: Arc::new(StageRegistry::of(vec![stage])),
        progress: Arc::new(ProgressBoard::default()),
        control_plane: Arc::new(orchestrator.clone()),
        heartbeat: Duration::from_secs(1),
        health: HEALTH,
    })
    .await
    .unwrap()
}

fn hanging() -> Arc<Hanging> {
    Arc::new(Hanging {
        poison: "W1-I1".parse().unwrap(),
        hung: AtomicBool::new(false),
        renewals: AtomicUsize::new(0),
    })
}

/// Rows: F17, F32, 250.
#[tokio::test(start_paused = true)]
async fn a_pool_that_hangs_is_replaced_and_blames_only_who_hung() {
    let store = Arc::new(MemoryStore::new());
    let stage = hanging();
    let job = two_volumes(&[stage.clone() as Arc<dyn StageLogic>]);
    let job = store.create_job(&job, Utc::now()).await.unwrap();
    let mut config = OrchestratorConfig::new(store.clone());
    config.max_interruptions = 3;
    let orchestrator = OrchestratorHandle::start(config).await.unwrap();
    let node = node(stage.clone(), 2, &orchestrator).await;

    let end = orchestrator.job_end(job.id).await.unwrap();
    assert_eq!(end, JobEnd::Settled(JobStatus::Failed));
    let [poison, innocent] = &store.tasks(job.id).await.unwrap()[..] else {
        panic!("two tasks");
    };
    assert_eq!(poison.status, TaskStatus::Failed);
    assert_eq!(
        poison.last_error.as_ref().unwrap().category,
        ErrorCategory::Poison
    );
    assert_eq!((innocent.status, innocent.attempts), (TaskStatus::Done, 0));
    let history = store.stage_runs(innocent.id).await.unwrap();
    // It is handed back with each pool that the other hangs while they share one, as nothing is held against it.
    let workers: BTreeSet<&str> = history.iter().map(|run| run.worker.0.as_str()).collect();
    assert!((2..=3).contains(&workers.len()), "{workers:?}");
    assert_eq!(stage.renewals.load(Ordering::Relaxed), 3);
    // The pool that was replaced has let go of all it held.
    node.drain().await;
    node.stop().await;
    orchestrator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_no_node_runs_is_an_alarm_while_work_waits_for_it() {
    let store = Arc::new(MemoryStore::new());
    let [first, second] = ["line_detection", "line_extraction"].map(|name| told(name, Deed::Succeed).0);
    let job = two_volumes(&[first.clone(), second.clone()]);
    let job = store.create_job(&job, Utc::now()).await.unwrap();
    let config = OrchestratorConfig::new(store);
    let mut alarm = config.deserted.subscribe();
    let orchestrator = OrchestratorHandle::start(config).await.unwrap();
    let detects = serve("detects", first, &orchestrator).await;

    let deserted = alarm.wait_for(|stages| !stages.is_empty()).await.unwrap().clone();
    assert_eq!(deserted, [second.info().name()].into());
    let extracts = serve("extracts", second, &orchestrator).await;
    let end = orchestrator.job_end(job.id).await.unwrap();
    assert_eq!(end, JobEnd::Settled(JobStatus::Completed));
    alarm.wait_for(BTreeSet::is_empty).await.unwrap();
    for node in [detects, extracts] {
        node.stop().await;
    }
    orchestrator.stop().await;
}

/// What a node tells of itself that takes its work from the database.
fn pulling(stage: &StageName, state: NodeState) -> NodeSnapshot {
    let node = NodeRecord {
        name: "pulls".to_owned(),
        roles: vec!["cpu".to_owned()],
        tags: Vec::new(),
        host: None,
        build: "0.1.0".to_owned(),
        protocol: 1,
        health: None,
        started_at: None,
        resident: None,
        last_seen: Utc::now(),
        state,
        workers: vec![WorkerRecord {
            worker: WorkerId("pulls/stage/1".to_owned()),
            stage: stage.clone(),
            models: Vec::new(),
            slots: 1,
            in_use: 0,
            generation: 1,
            last_heartbeat: None,
            pages: None,
            pages_finished: None,
        }],
    };
    NodeSnapshot {
        nodes: vec![node],
        ..NodeSnapshot::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_nodes_take_for_themselves_is_not_deserted() {
    let store = Arc::new(MemoryStore::new());
    let (stage, _) = told("line_detection", Deed::Succeed);
    let job = two_volumes(std::slice::from_ref(&stage));
    let job = store.create_job(&job, Utc::now()).await.unwrap();
    let told_of = async |state| {
        store
            .record_nodes(&pulling(&stage.info().name(), state))
            .await
            .unwrap()
    };
    told_of(NodeState::Joined).await;
    let config = OrchestratorConfig::new(store.clone());
    let mut alarm = config.deserted.subscribe();
    let orchestrator = OrchestratorHandle::start(config).await.unwrap();
    {
        let raised = alarm.wait_for(|stages| !stages.is_empty());
        let raised = tokio::time::timeout(Duration::from_secs(120), raised).await;
        assert!(raised.is_err(), "a node that told of itself serves the stage");
    }

    told_of(NodeState::Left).await;
    alarm
        .wait_for(|stages| stages.contains(&stage.info().name()))
        .await
        .unwrap();

    let task = &store.tasks(job.id).await.unwrap()[0];
    let leased = Event::Leased {
        stage: stage.info().name(),
        worker: WorkerId("of nobody known".to_owned()),
        until: Utc::now() + chrono::TimeDelta::hours(1),
    };
    let taken = Change::new(Expected::of(task), leased);
    store.commit(&[taken], Utc::now()).await.unwrap();
    // One of the two volumes still waits.
    alarm.wait_for(BTreeSet::is_empty).await.unwrap();
    orchestrator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_pools_keep_hanging_gives_up() {
    let store = Arc::new(MemoryStore::new());
    let stage = hanging();
    let mut job = two_volumes(&[stage.clone() as Arc<dyn StageLogic>]);
    job.volumes.truncate(1);
    job.config = JobConfig::default();
    let job = store.create_job(&job, Utc::now()).await.unwrap();
    let mut config = OrchestratorConfig::new(store.clone());
    config.max_interruptions = 100;
    let orchestrator = OrchestratorHandle::start(config).await.unwrap();
    let node = node(stage.clone(), 1, &orchestrator).await;
    node.ended().await;
    assert_eq!(
        stage.renewals.load(Ordering::Relaxed),
        HEALTH.faults.stalls as usize
    );
    let task = &store.tasks(job.id).await.unwrap()[0];
    assert_ne!(
        task.status,
        TaskStatus::Failed,
        "the volume has tries left, elsewhere"
    );
    orchestrator.stop().await;
}
