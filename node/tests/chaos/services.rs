//! Services do stages of a pipeline, and leaders die between any two effects. The service counts what it was given.

use std::time::{Duration, Instant};

use parkhang_core::domain::testing::pipeline;
use parkhang_core::domain::{JobConfig, NewJob, StageRunStatus, TaskStatus, VolumeId};
use parkhang_core::failpoint::Failpoint;
use parkhang_state::StateStore;
use parkhang_test_support::Wait;

use crate::cluster::{Cluster, Plan};
use crate::database::{cpu_of, cpu_with_children, memory_of};
use crate::library::Library;
use crate::service::Service;

/// Places at which a leader dies, in an order in which each is passed.
const POINTS: [Failpoint; 9] = [
    Failpoint::LeasesWritten,
    Failpoint::AssignmentTaken,
    Failpoint::SubmitIntended,
    // Webhooks come for the first stage alone, whose jobs are over soon.
    Failpoint::WebhookCame,
    Failpoint::ResultWritten,
    Failpoint::WebhookWritten,
    Failpoint::JobSubmitted,
    Failpoint::ReportCommitted,
    Failpoint::JobLooked,
];
const STAGES: [&str; 2] = ["scrape", "intel"];
const VOLUMES: usize = 20;
/// Longest time that a volume takes among many.
const OF_A_VOLUME: Duration = Duration::from_millis(100);
/// Variable with the number of jobs that services have at once.
const IN_FLIGHT: &str = "PARKHANG_CHAOS_IN_FLIGHT";

/// Cluster without nodes, whose two stages are the service's: it tells of the first by itself, and is asked about the second.
async fn cluster(service: &Service, settings: &[(&'static str, &'static str)]) -> Cluster {
    let leak = |text: String| -> &'static str { text.leak() };
    let url = leak(service.url().to_owned());
    let listen = leak(format!("127.0.0.1:{}", service.webhook_port));
    let own = [
        ("service.scraper.url", url),
        ("service.scraper.webhook", "true"),
        ("service.llm.url", url),
        ("stage.scrape.service", "scraper"),
        ("stage.intel.service", "llm"),
        ("stage.intel.poll_interval", "500ms"),
        ("pipeline.served.stages", "scrape,intel"),
        ("webhook.listen", listen),
        ("cluster.idle_timeout", "6s"),
        ("cluster.lease", "8s"),
    ];
    let mut plan = Plan::small(Library::alike(1, 1)).with(&own).with(settings);
    plan.workers.clear();
    Cluster::prepare(plan).await
}

async fn create(cluster: &mut Cluster, volumes: usize) {
    let numbered = |number: usize| VolumeId::new("W1", format!("I{number}")).unwrap();
    let job = NewJob {
        key: Some("served".parse().unwrap()),
        operation: "served".to_owned(),
        pipeline: pipeline(&STAGES),
        config: JobConfig::default(),
        volumes: (0..volumes).map(numbered).collect(),
        standing: false,
    };
    let job = cluster.store.create_job(&job, chrono::Utc::now()).await.unwrap();
    cluster.jobs.push(job);
}

/// Each task is done, no death has cost a try, and the service has done each stage of it once.
async fn all_is_done_once(cluster: &Cluster, service: &Service) {
    for task in cluster.tasks().await {
        assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0), "{task:?}");
        let runs = cluster.store.stage_runs(task.id).await.unwrap();
        for stage in STAGES {
            let of_stage = runs.iter().filter(|run| run.fence.stage.as_str() == stage);
            let done = of_stage.filter(|run| run.status == StageRunStatus::Done).count();
            assert_eq!(done, 1, "{stage}: {runs:?}");
        }
    }
    let purposes = service.jobs_by_purpose();
    assert_eq!(purposes.len(), cluster.tasks().await.len() * STAGES.len());
    for (purpose, jobs) in purposes {
        assert_eq!(jobs.len(), 1, "{purpose:?}: {jobs:?}");
    }
}

/// Rows: 218, 233, 241, 242.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_dies_at_every_failpoint_of_services() {
    let service = Service::start("scrape", &[]);
    let mut cluster = cluster(&service, &[]).await;
    create(&mut cluster, VOLUMES).await;
    for point in POINTS {
        cluster.leader_dies_at(point).await;
    }
    cluster.start_orchestrator(0, "").await;
    cluster.crash_postgres().await;
    cluster.reopen_postgres().await;
    cluster.settle().await;
    all_is_done_once(&cluster, &service).await;
    let submits: Vec<usize> = service.jobs().iter().map(|job| job.submits).collect();
    assert!(
        submits.iter().any(|submits| *submits > 1),
        "no submit was made again: {submits:?}"
    );
    cluster.leave().await;
}

/// The service has all volumes at once when the leader is killed. With `PARKHANG_CHAOS_IN_FLIGHT` they are more than some hundred.
/// Rows: 241, 242.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_dies_with_all_jobs_in_flight() {
    let volumes = std::env::var(IN_FLIGHT).map_or(500, |text| text.parse().unwrap());
    let service = Service::start("scrape", &["--hold"]);
    let many: &'static str = volumes.to_string().leak();
    let settings = [
        ("service.scraper.max_in_flight", many),
        ("service.llm.max_in_flight", many),
    ];
    let mut cluster = cluster(&service, &settings).await;
    create(&mut cluster, volumes).await;
    let (began, postgres) = (Instant::now(), cluster.postgres());
    let cpu = |cluster: &Cluster| (cpu_of(cluster.orchestrator(0).id()), cpu_with_children(postgres));
    cluster.start_orchestrator(0, "").await;
    Wait::until("the service has all jobs")
        .at_most(Duration::from_secs(300))
        .sees_async(async || service.jobs().len(), |jobs| *jobs >= volumes)
        .await;
    let (took, used) = (began.elapsed(), cpu(&cluster));
    let memory = memory_of(cluster.orchestrator(0).id());
    eprintln!(
        "{volumes} jobs given in {took:?}; orchestrator {memory} KiB; CPU of it and of Postgres: {used:?}"
    );

    cluster.kill_orchestrator(0);
    let killed = Instant::now();
    cluster.start_orchestrator(0, "").await;
    service.release();
    cluster
        .until_after(OF_A_VOLUME * volumes as u32, "the job is over", async |cluster| {
            let job = cluster.store.job_by_id(cluster.jobs[0].id).await;
            job.is_ok_and(|job| job.unwrap().status.is_final())
        })
        .await;
    let used = cpu(&cluster);
    eprintln!(
        "all done {:?} after the kill; CPU of the orchestrator and of Postgres: {used:?}",
        killed.elapsed()
    );
    all_is_done_once(&cluster, &service).await;
    cluster.leave().await;
}
