//! Tasks of a pipeline: two of its stages are services'.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use parkhang_actors::external::{ExternalStage, ExternalStages, Site};
use parkhang_actors::orchestrator::OrchestratorHandle;
use parkhang_actors::services::{ServiceBounds, StageService, WorkElsewhere};
use parkhang_actors::stage::{StageLogic, StageTable};
use parkhang_core::domain::testing::{new_job, stage};
use parkhang_core::domain::{
    Job, JobConfig, JobStatus, NewJob, Position, RetryScope, StageLimits, StageRunStatus, Task, TaskStatus,
};
use parkhang_sandbox::{FakeStage, NodePlan, Sandbox, SandboxBuilder, Script};
use parkhang_state::{EmbeddedPostgres, PostgresStore, ServiceStore, StateStore};
use parkhang_store::artifact::ArtifactLayout;
use parkhang_store::storage::{ArtifactStore, MemoryArtifacts};
use parkhang_test_support::Wait;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::service::{FAULTS, Service, UNREACHABLE, UNREADABLE};

const VOLUMES: usize = 50;
pub(crate) const MAX_RETRIES: u32 = 4;
pub(crate) const IN_FLIGHT: usize = 12;
/// Place of the artifacts, as bodies of submits name it.
pub(crate) const BUCKET: &str = "s3://press/archive";

/// Job over volumes: a stage of ours, two of services, and another one of ours.
pub(crate) fn job(volumes: usize) -> NewJob {
    NewJob {
        config: JobConfig {
            retry_backoff_s: 0.02,
            // Fewer than a service has: its failures are not counted among them.
            max_attempts: 1,
            retry_scope: RetryScope::Stage,
            ..JobConfig::default()
        },
        ..new_job(&["detect", "scrape", "intel", "finish"], volumes)
    }
}

/// Orchestrator whose leases run out soon.
pub(crate) fn leader(store: Arc<dyn StateStore>) -> SandboxBuilder {
    Sandbox::over(store).configured(|config| {
        config.lease = Duration::from_secs(2);
        config.full_pass = Duration::from_millis(200);
    })
}

/// Starts the work on external stages of an orchestrator.
pub(crate) fn external(
    orchestrator: &OrchestratorHandle,
    store: Arc<dyn StateStore>,
    services: Arc<dyn ServiceStore>,
    artifacts: Arc<dyn ArtifactStore>,
    stages: Vec<(&str, StageService)>,
) -> (Arc<ExternalStages>, JoinHandle<()>) {
    let external = at_rest(orchestrator, store, services, artifacts, stages, None);
    let running = external.clone();
    (external, tokio::spawn(async move { running.run().await }))
}

/// External stages of an orchestrator, which nobody runs yet.
pub(crate) fn at_rest(
    orchestrator: &OrchestratorHandle,
    store: Arc<dyn StateStore>,
    services: Arc<dyn ServiceStore>,
    artifacts: Arc<dyn ArtifactStore>,
    stages: Vec<(&str, StageService)>,
    elsewhere: Option<Arc<dyn WorkElsewhere>>,
) -> Arc<ExternalStages> {
    let stages = stages.into_iter().map(|(name, service)| ExternalStage {
        name: stage(name),
        limits: StageLimits {
            max_retries: MAX_RETRIES,
            stuck_timeout: Duration::from_secs(5),
        },
        service,
        price: "0.25".parse().unwrap(),
    });
    let bounds = ServiceBounds {
        max_in_flight: IN_FLIGHT,
        rate: None,
    };
    let bounds = ["scraper", "llm"].map(|name| (name.to_owned(), bounds));
    let site = Site {
        store,
        services,
        artifacts,
        stages: StageTable::new([]),
        storage: BUCKET.to_owned(),
        elsewhere,
        webhook_url: None,
        now: Utc::now,
    };
    Arc::new(ExternalStages::new(
        site,
        orchestrator.clone(),
        stages.collect(),
        &BTreeMap::from(bounds),
    ))
}

/// Everything of a leader, with a node of its own.
async fn lead(
    store: &PostgresStore,
    artifacts: &Arc<MemoryArtifacts>,
    job: Option<NewJob>,
    (scraper, llm): (&Service, &Service),
) -> (Sandbox, Arc<ExternalStages>, JoinHandle<()>) {
    let shared = Arc::new(store.clone());
    let mut builder = leader(shared.clone());
    if let Some(job) = job {
        builder = builder.job(job);
    }
    let sandbox = builder.start().await;
    let ours = ["detect", "finish"]
        .map(|name| -> Arc<dyn StageLogic> { FakeStage::new(name, Script::Succeed).shared() });
    sandbox
        .node(
            NodePlan::new(ours.to_vec())
                .slots(8)
                .heartbeat(Duration::from_millis(500)),
        )
        .await;
    let stages = vec![
        ("scrape", scraper.at_stage("scraper", true)),
        ("intel", llm.at_stage("llm", false)),
    ];
    let (external, running) = external(
        &sandbox.orchestrator,
        shared.clone(),
        shared,
        artifacts.clone(),
        stages,
    );
    scraper.tell(external.clone());
    llm.tell(external.clone());
    (sandbox, external, running)
}

/// Rows: 84, 218, 229, 230, 231, 233, 234, 235, 236, 237, 241, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_task_ends_once_though_services_misbehave_and_leaders_die() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let options = server.create_database("tasks").await.unwrap();
    let store = PostgresStore::connect_with(options).await.unwrap();
    let artifacts = Arc::new(MemoryArtifacts::default());
    let (scraper, llm) = (Service::start(&FAULTS).await, Service::start(&FAULTS).await);
    let services = (&scraper, &llm);

    let (first, _, running) = lead(&store, &artifacts, Some(job(VOLUMES)), services).await;
    let job = first.job().clone();
    let done = async |stage: &str| {
        let tasks = store.tasks(job.id).await.unwrap();
        let mut done = 0;
        for task in tasks {
            let runs = store.stage_runs(task.id).await.unwrap();
            done += usize::from(
                runs.iter()
                    .any(|run| run.fence.stage.as_str() == stage && run.status == StageRunStatus::Done),
            );
        }
        done
    };
    Wait::until("some tasks have gone through the first service")
        .sees_async(async || done("scrape").await, |done| *done >= 10)
        .await;
    // Nothing is released: what services have in hand stays with them, like after the death of a process.
    running.abort();
    first.orchestrator.kill();
    assert!(running.await.unwrap_err().is_cancelled());

    let (second, _, running) = lead(&store, &artifacts, None, services).await;
    let tasks = second.job_ends(job.id, JobStatus::Failed).await;
    running.abort();
    scraper.assert_faults();
    for service in [&scraper, &llm] {
        service.assert_one_key_a_try();
    }
    assert_eq!(tasks.len(), VOLUMES);
    for task in &tasks {
        check(&store, &artifacts, &job, task).await;
    }
    second.stop().await;
}

async fn check(store: &PostgresStore, artifacts: &MemoryArtifacts, job: &Job, task: &Task) {
    let runs = store.stage_runs(task.id).await.unwrap();
    let ends = |stage: &str, status: StageRunStatus| {
        let of_stage = runs.iter().filter(|run| run.fence.stage.as_str() == stage);
        of_stage
            .filter(|run| run.status == status)
            .cloned()
            .collect::<Vec<_>>()
    };
    let (ended, reason) = match task.id.0 {
        id if id % UNREACHABLE == 0 => ("scrape", "ENOTFOUND: DNS lookup failed"),
        UNREADABLE => ("intel", "HTTP 500: out of memory"),
        _ => ("", ""),
    };
    let layout = ArtifactLayout::new(job.config.layout, &job.key).volume(&task.volume);
    for name in ["scrape", "intel"] {
        let done = ends(name, StageRunStatus::Done);
        if name == ended {
            assert_eq!(
                (task.status, &task.position),
                (TaskStatus::Failed, &Position::At(stage(name)))
            );
            assert_eq!(task.last_error.as_ref().unwrap().message, reason);
            assert!(done.is_empty() && ends("finish", StageRunStatus::Done).is_empty());
            return;
        }
        let [run] = &done[..] else {
            panic!("{name} of {} is done {} times", task.id, done.len())
        };
        let bytes = artifacts.get(&layout.service_result(&run.fence)).await.unwrap();
        let object: Value = serde_json::from_slice(&bytes).unwrap();
        let scraped = ends("scrape", StageRunStatus::Done)
            .into_iter()
            .map(|run| layout.service_result(&run.fence).to_string());
        let before = match name {
            "scrape" => json!({"detect": []}),
            _ => json!({"detect": [], "scrape": scraped.collect::<Vec<_>>()}),
        };
        let found = json!({"stage": name, "task": task.id.0, "before": before});
        assert_eq!(
            (&object["result"], &object["volume"]),
            (&found, &json!(task.volume.to_string()))
        );
        assert_eq!(object["service_job"], run.metrics["service_job"]);
    }
    assert_eq!((&task.position, task.status), (&Position::Done, TaskStatus::Done));
    assert_eq!(ends("finish", StageRunStatus::Done).len(), 1);
}
