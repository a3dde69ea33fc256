//! Services work on rows of a table, and the processes that hand them over die between any two effects.

use nix::sys::signal::Signal;
use parkhang_core::failpoint::Failpoint;
use parkhang_test_support::Wait;
use sqlx::{AssertSqlSafe, Connection, PgConnection, raw_sql};

use crate::cluster::{Cluster, Plan};
use crate::deaths::die_at;
use crate::library::Library;
use crate::recorded::Recorded;
use crate::service::Service;
use crate::support::finish;

/// Places at which a process dies, in an order in which each is passed.
const POINTS: [Failpoint; 7] = [
    Failpoint::RowsClaimed,
    Failpoint::JobSubmitted,
    Failpoint::WebhookCame,
    Failpoint::StepWritten,
    Failpoint::StepCommitted,
    Failpoint::WebhookWritten,
    Failpoint::JobLooked,
];
const STAGES: [&str; 2] = ["scrape", "intel"];
const ROWS: usize = 60;
const STUCK: &str = "5s";

/// Rows, and a note of each time that a stage of one is completed.
const THEIRS: &str = "create table leads (
        id bigint generated always as identity primary key, email text, created_at timestamptz not null default now()
    );
    insert into leads (email) select n || '@example.com' from generate_series(1, 60) n;
    create table completions (id bigint, stage text);
    create function note() returns trigger language plpgsql as $$
    declare stage text;
    begin
        foreach stage in array array['scrape', 'intel'] loop
            if to_jsonb(new) ->> (stage || '_status') = 'completed'
                and to_jsonb(old) ->> (stage || '_status') is distinct from 'completed' then
                insert into completions values (new.id, stage);
            end if;
        end loop;
        return null;
    end $$;
    create trigger noted after update on leads for each row execute function note();";

/// Place of a table, whose two stages are the service's: it tells of the first by itself, and is asked about the second.
async fn prepared(service: &Service) -> Cluster {
    let url: &'static str = service.url().to_owned().leak();
    let settings = [
        ("service.scraper.url", url),
        ("service.scraper.webhook", "true"),
        ("service.llm.url", url),
        ("entity.leads.stages", "scrape,intel"),
        ("entity.leads.stage.scrape.service", "scraper"),
        ("entity.leads.stage.scrape.max_retries", "20"),
        ("entity.leads.stage.scrape.stuck_timeout", STUCK),
        ("entity.leads.stage.intel.service", "llm"),
        ("entity.leads.stage.intel.max_retries", "20"),
        ("entity.leads.stage.intel.stuck_timeout", STUCK),
        ("entity.leads.stage.intel.poll_interval", "500ms"),
    ];
    let mut plan = Plan::small(Library::alike(1, 1)).with(&settings);
    plan.workers.clear();
    let cluster = Cluster::prepare(plan).await;
    run(&cluster, THEIRS).await;
    let command = cluster.command(["entities", "schema", "leads"]);
    let schema = tokio::task::spawn_blocking(move || finish(command).exits(0))
        .await
        .unwrap();
    run(&cluster, &schema.stdout).await;
    run(&cluster, "update leads set scrape_status = 'queued'").await;
    cluster
}

async fn connect(cluster: &Cluster) -> PgConnection {
    PgConnection::connect(&cluster.database_url()).await.unwrap()
}

async fn run(cluster: &Cluster, script: &str) {
    let script = raw_sql(AssertSqlSafe(script.to_owned()));
    script.execute(&mut connect(cluster).await).await.unwrap();
}

/// Number of rows whose last stage is completed; none while the database is away.
async fn completed(cluster: &Cluster) -> i64 {
    let Ok(mut connection) = PgConnection::connect(&cluster.database_url()).await else {
        return 0;
    };
    let count = "select count(*) from leads where scrape_status = 'completed' and intel_status = 'completed'";
    let count = sqlx::query_scalar(count).fetch_one(&mut connection).await;
    count.unwrap_or(0)
}

/// A process that works on the rows; with a webhook if there is a port for it.
async fn start(cluster: &Cluster, name: &str, webhook_port: Option<u16>, failpoints: &str) -> Recorded {
    let mut command = cluster.command(["--role", "entity", "--entity", "leads"]);
    command.args(["--set", "health.listen=127.0.0.1:0"]);
    if let Some(port) = webhook_port {
        command.args(["--set", &format!("webhook.listen=127.0.0.1:{port}")]);
    }
    command.env("FAILPOINTS", failpoints);
    Recorded::start(name, command, &cluster.journal).await
}

/// Rows: 218, 228, 233, 235, 241, 242.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_entities_dies_at_every_failpoint() {
    let service = Service::start("scrape", &[]);
    let mut cluster = prepared(&service).await;
    let port = Some(service.webhook_port);
    for point in POINTS {
        let begin = cluster.journal.end();
        let mut process = start(&cluster, "entity-a", port, &die_at(point)).await;
        assert_eq!(process.dies_at_failpoint(begin).await, point.name());
    }
    let before = completed(&cluster).await;
    assert!(before < ROWS as i64, "nothing is left for what follows");
    let mut kept = start(&cluster, "entity-a", port, "").await;
    let killed = start(&cluster, "entity-b", None, "").await;
    Wait::until("a row is completed by them")
        .sees_async(
            async || completed(&cluster).await,
            |completed| *completed > before,
        )
        .await;
    killed.kill();
    cluster.crash_postgres().await;
    cluster.reopen_postgres().await;
    cluster
        .until("every row is completed", async |cluster| {
            completed(cluster).await == ROWS as i64
        })
        .await;
    kept.signal(Signal::SIGTERM);
    assert!(kept.end().await.success(), "{}", cluster.journal);
    all_is_done_once(&cluster, &service).await;
}

/// Each stage of a row was completed once, and the service had no job twice that it was given once.
async fn all_is_done_once(cluster: &Cluster, service: &Service) {
    let mut connection = connect(cluster).await;
    let completions: Vec<(i64, String, i64)> =
        sqlx::query_as("select id, stage, count(*) from completions group by 1, 2")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    assert_eq!(completions.len(), ROWS * STAGES.len());
    assert!(
        completions.iter().all(|(_, _, times)| *times == 1),
        "{completions:?}"
    );
    let mut again = 0;
    for ((stage, id), jobs) in service.jobs_by_purpose() {
        let retries = format!("select {stage}_retry_count from leads where id = {id}");
        let retries: i32 = sqlx::query_scalar(AssertSqlSafe(retries))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert!(
            jobs.len() <= retries as usize + 1,
            "{stage} of {id}: {retries} retries, {jobs:?}"
        );
        again += jobs.len() - 1;
    }
    eprintln!("{again} of {} jobs were given again", ROWS * STAGES.len());
}
