//! Orchestrator, node and pools in one process, over stages that do as they are told and a store in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use chrono::Utc;
use parkhang_actors::orchestrator::{JobEnd, OrchestratorConfig, OrchestratorHandle};
use parkhang_actors::stage::{StageContext, StageInfo, StageLogic, StageRegistry};
use parkhang_actors::supervisor::{HealthPolicy, NodeConfig, NodeSupervisor};
use parkhang_actors::telemetry::ProgressBoard;
use parkhang_core::domain::{
    ErrorCategory, Hardware, Job, JobConfig, JobStatus, NewJob, Pipeline, Position, StageError, StageName,
    StageReport, StageRunStatus, StageVerdict, Task, TaskStatus,
};
use parkhang_state::{MemoryStore, StateStore};
use parkhang_store::storage::MemoryStore as MemoryArtifacts;
use tokio::sync::{Notify, watch};

use crate::flaky_store::FlakyStore;
use crate::new_stage::Syllables;

/// What a stage of these tests does.
#[derive(Debug)]
pub(super) enum Deed {
    Succeed,
    Panic,
    Fail,
    /// Finds the storage out of reach so many times, and succeeds then.
    Outages(usize),
    /// Says that it runs, and runs until it is drained.
    UntilDrained(Arc<Notify>),
    /// Says that it runs, and succeeds when it is told to.
    UntilTold(Arc<Notify>, watch::Receiver<bool>),
}

#[derive(Debug)]
struct Told {
    name: StageName,
    deed: Deed,
    runs: Arc<AtomicUsize>,
}

impl StageInfo for Told {
    fn name(&self) -> StageName {
        self.name.clone()
    }

    fn hardware(&self) -> Hardware {
        Hardware::Cpu
    }
}

#[async_trait]
impl StageLogic for Told {
    fn info(&self) -> &dyn StageInfo {
        self
    }

    async fn run(&self, context: StageContext) -> StageVerdict {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        match &self.deed {
            Deed::Succeed => StageVerdict::Succeeded(StageReport::default()),
            Deed::Panic => panic!("as told"),
            Deed::Fail => StageVerdict::Failed(StageError::new(
                self.name.as_str(),
                ErrorCategory::Transient,
                "as told",
            )),
            Deed::Outages(outages) if run < *outages => StageVerdict::Failed(StageError::new(
                self.name.as_str(),
                ErrorCategory::Network,
                "no answer",
            )),
            Deed::Outages(_) => StageVerdict::Succeeded(StageReport::default()),
            Deed::UntilDrained(running) => {
                running.notify_one();
                context.drain.cancelled().await;
                StageVerdict::Interrupted
            }
            Deed::UntilTold(running, go) => {
                context.progress.started(1);
                running.notify_one();
                match go.clone().wait_for(|go| *go).await {
                    Ok(_) => StageVerdict::Succeeded(StageReport::default()),
                    Err(_) => StageVerdict::Interrupted,
                }
            }
        }
    }
}

fn name(stage: &str) -> StageName {
    StageName::new(stage).unwrap()
}

/// A stage, and how often it has run.
pub(super) fn told(stage: &str, deed: Deed) -> (Arc<dyn StageLogic>, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let logic = Told {
        name: name(stage),
        deed,
        runs: runs.clone(),
    };
    (Arc::new(logic), runs)
}

/// A job of two volumes that goes through all of these stages.
pub(super) fn two_volumes(stages: &[Arc<dyn StageLogic>]) -> NewJob {
    let names = stages.iter().map(|stage| stage.info().name()).collect();
    NewJob {
        key: None,
        operation: "test".to_owned(),
        pipeline: Pipeline::new(names).unwrap(),
        config: JobConfig {
            retry_backoff_s: 0.01,
            ..JobConfig::default()
        },
        volumes: ["W1-I1", "W1-I2"].map(|volume| volume.parse().unwrap()).to_vec(),
    }
}

/// One process with these stages, and a job of two volumes that goes through all of them.
struct Cluster {
    store: Arc<dyn StateStore>,
    orchestrator: OrchestratorHandle,
    node: NodeSupervisor,
    progress: Arc<ProgressBoard>,
    job: Job,
}

impl Cluster {
    async fn start(store: Arc<dyn StateStore>, stages: Vec<Arc<dyn StageLogic>>) -> Self {
        let job = store.create_job(&two_volumes(&stages), Utc::now()).await.unwrap();
        let mut config = OrchestratorConfig::new(store.clone());
        config.max_interruptions = 2;
        let orchestrator = OrchestratorHandle::start(config).await.unwrap();
        let progress = Arc::new(ProgressBoard::default());
        let node = NodeSupervisor::start(NodeConfig {
            name: "test".to_owned(),
            slots: HashMap::from([(Hardware::Cpu, 1)]),
            registry: Arc::new(StageRegistry::of(stages)),
            progress: progress.clone(),
            control_plane: Arc::new(orchestrator.clone()),
            heartbeat: std::time::Duration::from_secs(5),
            health: HealthPolicy::default(),
        })
        .await
        .unwrap();
        Self {
            store,
            orchestrator,
            node,
            progress,
            job,
        }
    }

    async fn ends(&self, status: JobStatus) -> Vec<Task> {
        let end = self.orchestrator.job_end(self.job.id).await.unwrap();
        assert_eq!(end, JobEnd::Settled(status));
        self.store.tasks(self.job.id).await.unwrap()
    }

    async fn stop(self) {
        self.node.stop().await;
        self.orchestrator.stop().await;
    }
}

#[tokio::test]
async fn stages_run_in_order_and_once() {
    let store = Arc::new(MemoryStore::new());
    let (first, firsts) = told("first", Deed::Succeed);
    let (second, seconds) = told("second", Deed::Succeed);
    let cluster = Cluster::start(store.clone(), vec![first, second]).await;
    for task in cluster.ends(JobStatus::Completed).await {
        assert_eq!((task.position, task.status), (Position::Done, TaskStatus::Done));
        let runs = store.stage_runs(task.id).await.unwrap();
        let stages: Vec<&str> = runs.iter().map(|run| run.fence.stage.as_str()).collect();
        assert_eq!(stages, ["first", "second"]);
        assert!(runs[0].ended_at.unwrap() <= runs[1].started_at);
    }
    assert_eq!(firsts.load(Ordering::Relaxed), 2);
    assert_eq!(seconds.load(Ordering::Relaxed), 2);
    cluster.stop().await;
}

#[tokio::test]
async fn a_volume_whose_stage_panics_is_tried_again_and_set_aside() {
    let store = Arc::new(MemoryStore::new());
    let (stage, runs) = told("stage", Deed::Panic);
    let cluster = Cluster::start(store.clone(), vec![stage]).await;
    for task in cluster.ends(JobStatus::Failed).await {
        assert_eq!(task.status, TaskStatus::Failed);
        assert_eq!(task.last_error.unwrap().category, ErrorCategory::Poison);
        let history = store.stage_runs(task.id).await.unwrap();
        let ends: Vec<StageRunStatus> = history.iter().map(|run| run.status).collect();
        assert_eq!(ends, [StageRunStatus::Interrupted, StageRunStatus::Failed]);
    }
    assert_eq!(runs.load(Ordering::Relaxed), 4);
    cluster.stop().await;
}

/// Rows: F20.
#[tokio::test]
async fn a_stage_that_fails_backs_off_and_gives_up() {
    let store = Arc::new(MemoryStore::new());
    let (stage, runs) = told("stage", Deed::Fail);
    let cluster = Cluster::start(store.clone(), vec![stage]).await;
    for task in cluster.ends(JobStatus::Failed).await {
        assert_eq!((task.status, task.attempts), (TaskStatus::Failed, 3));
        assert_eq!(task.last_error.unwrap().message, "as told");
        let history = store.stage_runs(task.id).await.unwrap();
        assert!(history.iter().all(|run| run.status == StageRunStatus::Failed));
    }
    assert_eq!(runs.load(Ordering::Relaxed), 6);
    cluster.stop().await;
}

/// Rows: F39.
#[tokio::test]
async fn the_board_shows_what_runs_and_forgets_it() {
    let (go, told_to_go) = watch::channel(false);
    let running = Arc::new(Notify::new());
    let (stage, _) = told("stage", Deed::UntilTold(running.clone(), told_to_go));
    let cluster = Cluster::start(Arc::new(MemoryStore::new()), vec![stage]).await;
    running.notified().await;
    let shown = cluster.progress.snapshot(&cluster.job.key);
    assert_eq!(shown.len(), 1, "{shown:?}");
    go.send_replace(true);
    cluster.ends(JobStatus::Completed).await;
    // Every lease has been given back.
    cluster.node.drain().await;
    assert!(cluster.progress.snapshot(&cluster.job.key).is_empty());
    cluster.stop().await;
}

#[tokio::test]
async fn an_outage_of_the_storage_ends_no_volume() {
    let store = Arc::new(MemoryStore::new());
    let (stage, runs) = told("stage", Deed::Outages(9));
    let cluster = Cluster::start(store.clone(), vec![stage]).await;
    for task in cluster.ends(JobStatus::Completed).await {
        assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0));
        let history = store.stage_runs(task.id).await.unwrap();
        let (last, before) = history.split_last().unwrap();
        assert_eq!((last.status, &last.error), (StageRunStatus::Done, &None));
        for (outage, run) in (1..).zip(before) {
            assert_eq!(run.status, StageRunStatus::Interrupted);
            let message = &run.error.as_ref().unwrap().message;
            let expected = format!("storage unavailable, tried {outage} times: no answer");
            assert_eq!(*message, expected);
        }
    }
    assert_eq!(runs.load(Ordering::Relaxed), 11);
    cluster.stop().await;
}

#[tokio::test]
async fn a_drain_releases_leases_and_charges_nothing() {
    let running = Arc::new(Notify::new());
    let (stage, _) = told("stage", Deed::UntilDrained(running.clone()));
    let cluster = Cluster::start(Arc::new(MemoryStore::new()), vec![stage]).await;
    running.notified().await;
    cluster.orchestrator.drain();
    cluster.orchestrator.idle(cluster.job.id).await.unwrap();
    for task in cluster.store.tasks(cluster.job.id).await.unwrap() {
        assert_eq!((task.fence(), task.attempts, task.interruptions), (None, 0, 0));
        assert_ne!(task.status, TaskStatus::Failed);
    }
    cluster.stop().await;
}

/// Rows: F23.
#[tokio::test]
async fn a_store_that_is_away_for_a_while_loses_nothing() {
    let store = Arc::new(FlakyStore::new(3));
    let (stage, runs) = told("stage", Deed::Succeed);
    let cluster = Cluster::start(store.clone(), vec![stage]).await;
    for task in cluster.ends(JobStatus::Completed).await {
        assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0));
    }
    assert_eq!(store.refused(), 3);
    assert_eq!(runs.load(Ordering::Relaxed), 2, "what was done is not done again");
    cluster.stop().await;
}

#[test]
fn the_example_stage_is_the_one_that_the_contributors_guide_shows() {
    let guide = include_str!("../../CONTRIBUTING.md");
    let example = guide
        .split("```rust\n")
        .find(|block| block.starts_with("//! `syllables`"))
        .and_then(|block| block.split("```").next());
    assert_eq!(example, Some(include_str!("new_stage.rs")));
}

/// Rows: F6.
#[tokio::test]
async fn the_example_stage_of_the_contributors_guide_runs() {
    let stage = Syllables {
        store: Arc::new(MemoryArtifacts::default()),
    };
    let cluster = Cluster::start(Arc::new(MemoryStore::new()), vec![Arc::new(stage)]).await;
    // There is no text to count in: the example says so, and is taken at its word.
    for task in cluster.ends(JobStatus::Failed).await {
        let error = task.last_error.unwrap();
        assert_eq!(error.stage, "syllables");
        assert!(error.message.contains("ocr_results.parquet"), "{error}");
    }
    cluster.stop().await;
}
