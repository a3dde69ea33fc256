//! Services do stages of a pipeline, and leaders die between any two effects. The service counts what it was given.

use std::time::{Duration, Instant};

use parkhang_core::domain::testing::pipeline;
use parkhang_core::domain::{JobConfig, NewJob, StageRunStatus, TaskStatus, VolumeId};
use parkhang_core::failpoint::Failpoint;
use parkhang_state::StateStore;
use parkhang_test_support::Wait;

use crate::cluster::{Cluster, Plan};
use crate::database::{cpu_of, cpu_with_children, files_of};
use crate::library::Library;
use crate::process::memory_of;
use crate::service::Service;

/// Places at which a leader dies around submits, which volumes pass that come when the service has all others.
const POINTS_OF_SUBMITS: [Failpoint; 4] = [
    Failpoint::LeasesWritten,
    Failpoint::AssignmentTaken,
    Failpoint::SubmitIntended,
    Failpoint::JobSubmitted,
];
/// Places around the ends of jobs, in an order in which each is passed. Webhooks come for the first stage alone.
const POINTS_OF_ENDS: [Failpoint; 5] = [
    Failpoint::WebhookCame,
    Failpoint::ResultWritten,
    Failpoint::WebhookWritten,
    Failpoint::ReportCommitted,
    Failpoint::JobLooked,
];
const STAGES: [&str; 2] = ["scrape", "intel"];
/// Volumes that come late, before each death around submits.
const LATE: usize = 5;
/// Longest time that a volume takes among many.
const OF_A_VOLUME: Duration = Duration::from_millis(100);
/// Leaders that are killed at any time, beside those that die at failpoints.
const KILLS: u32 = 6;
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

async fn create(cluster: &mut Cluster, name: &str, volumes: usize) {
    let numbered = |number: usize| VolumeId::new("W1", format!("I{number}")).unwrap();
    let job = NewJob {
        key: Some(name.parse().unwrap()),
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
        assert_eq!(
            jobs[0].bodies, 1,
            "a key was used again for something else: {jobs:?}"
        );
    }
}

/// The services have all volumes at once when leaders die, at every failpoint and at any time, and Postgres twice. With `PARKHANG_CHAOS_IN_FLIGHT`
/// they are more than some hundred.
/// Rows: 218, 233, 241, 242.
#[tokio::test(flavor = "multi_thread")]
async fn leaders_and_the_database_die_at_every_failpoint_of_services_with_all_jobs_in_flight() {
    let volumes = std::env::var(IN_FLIGHT).map_or(500, |text| text.parse().unwrap());
    let all = volumes + POINTS_OF_SUBMITS.len() * LATE;
    // Messages are not given up while one leader after the other dies.
    let service = Service::start("scrape", &["--hold", "--tries", "100000", "--pause", "2"]);
    let many: &'static str = all.to_string().leak();
    let settings = [
        ("service.scraper.max_in_flight", many),
        ("service.llm.max_in_flight", many),
        ("stage.scrape.stuck_timeout", "2h"),
        ("stage.intel.stuck_timeout", "2h"),
    ];
    let mut cluster = cluster(&service, &settings).await;
    create(&mut cluster, "served", volumes).await;
    let time = OF_A_VOLUME * all as u32;
    let began = Instant::now();
    cluster.start_orchestrator(0, "").await;
    let taken = async |at_least: usize| {
        Wait::until("the service has the jobs")
            .at_most(time + Duration::from_secs(300))
            .sees_async(async || service.jobs().len(), |jobs| *jobs >= at_least)
            .await
    };
    taken(volumes).await;
    say(
        &cluster,
        &format!("{volumes} jobs given after {:?}", began.elapsed()),
    );

    cluster.kill_orchestrator(0);
    for (number, point) in POINTS_OF_SUBMITS.into_iter().enumerate() {
        create(&mut cluster, &format!("late-{number}"), LATE).await;
        cluster.leader_dies_at(point).await;
    }
    cluster.start_orchestrator(0, "").await;
    cluster.kill_postgres().await;
    cluster.reopen_postgres().await;
    taken(all).await;
    say(
        &cluster,
        &format!("all of them given after {:?}", began.elapsed()),
    );
    cluster.kill_orchestrator(0);

    let released = Instant::now();
    service.release();
    for point in POINTS_OF_ENDS {
        cluster.leader_dies_at(point).await;
    }
    for kill in 1..=KILLS {
        cluster.start_orchestrator(0, "").await;
        // Of what is left, a part that is another one each time.
        let done = done(&cluster).await;
        let left = all * STAGES.len() - done;
        let some = rand::random_range(1..=(left / (KILLS as usize * 2)).max(1));
        cluster
            .until_after(time, "some more is done", async |cluster| {
                let now = self::done(cluster).await;
                now >= done + some || now == all * STAGES.len()
            })
            .await;
        if kill == KILLS / 2 {
            cluster.kill_postgres().await;
            cluster.reopen_postgres().await;
        }
        cluster.kill_orchestrator(0);
    }
    cluster.start_orchestrator(0, "").await;
    cluster
        .until_after(time, "the jobs are over", async |cluster| {
            done(cluster).await == all * STAGES.len()
        })
        .await;
    cluster.settle().await;
    say(
        &cluster,
        &format!("all done {:?} after the release", released.elapsed()),
    );
    all_is_done_once(&cluster, &service).await;
    let again = service.jobs().iter().filter(|job| job.submits > 1).count();
    eprintln!("{again} jobs were submitted again under their keys");
    assert!(again > 0, "no submit was made again");
    cluster.leave().await;
}

/// Number of stages that are done; none while the database is away.
async fn done(cluster: &Cluster) -> usize {
    let mut done = 0;
    for job in &cluster.jobs {
        let statistics = cluster.store.stage_statistics(job.id).await.unwrap_or_default();
        done += statistics.iter().map(|stage| stage.done as usize).sum::<usize>();
    }
    done
}

/// Says what the orchestrator and Postgres have used.
fn say(cluster: &Cluster, what: &str) {
    let orchestrator = cluster.orchestrator(0).id();
    let (memory, files) = (memory_of(orchestrator), files_of(orchestrator));
    let used = (cpu_of(orchestrator), cpu_with_children(cluster.postgres()));
    eprintln!(
        "{what}; orchestrator: {memory} KiB, {files} open files; CPU of it and of Postgres since each began: {used:?} s"
    );
}
