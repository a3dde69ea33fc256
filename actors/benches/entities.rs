//! Rows through five stages of a service, each of which takes 200 ms: by the workers of this program, with webhooks and without, and by a
//! loop that looks at intervals, as pipelines of this kind are often written. Prints rows a minute, the time from the end of a job to the
//! next submit, and what Postgres did. `PARKHANG_BENCH_ROWS` is the number of rows, and `PARKHANG_BENCH_ONLY` the one way that is measured.
//! `PARKHANG_BENCH_DATABASE_URL` names a database of a server that is there, where new ones may be made; statements are counted where
//! that server preloads `pg_stat_statements`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a bench fails by panicking")]

#[path = "support/looking.rs"]
mod looking;
#[path = "support/rows_service.rs"]
mod rows_service;
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parkhang_actors::entity::{Entities, EntityOptions};
use parkhang_actors::services::{RetryOverrides, StageService};
use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{EntityPipeline, EntityStage, StageLimits};
use parkhang_service::{JobsClient, JobsSettings, Transport};
use parkhang_state::EntityTable;
use rows_service::RowsService;
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{AssertSqlSafe, raw_sql};
use support::{Server, pass};
use tokio_util::sync::CancellationToken;

pub(crate) const STAGES: [&str; 5] = ["scrape", "intel", "strategy", "subject", "messaging"];
/// Number of rows, if it is not to be the usual one.
const ROWS: &str = "PARKHANG_BENCH_ROWS";
const ONLY: &str = "PARKHANG_BENCH_ONLY";
/// URL of a database, if the rows are not to be in a private server.
const DATABASE_URL: &str = "PARKHANG_BENCH_DATABASE_URL";
/// Rows that are triggered one by one.
const TRIGGERS: usize = 100;

/// Way to bring rows through their stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each stage claims five rows every 500 ms, and asks about all of its jobs every 2 s.
    Looking,
    /// Workers of this program, with these intervals.
    Asking,
    /// The same; the service tells of ends by itself.
    Told,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Looking => "looking",
            Self::Asking => "asking",
            Self::Told => "told",
        }
    }
}

fn pipeline() -> Arc<EntityPipeline> {
    let named = |(index, name): (usize, &&str)| EntityStage {
        name: stage(name),
        next: STAGES.get(index + 1).map(|next| stage(next)),
        limits: StageLimits::default(),
    };
    let stages = STAGES.iter().enumerate().map(named).collect();
    Arc::new(EntityPipeline::new("leads", "leads", stages).unwrap())
}

pub(crate) fn client(url: &str) -> JobsClient {
    JobsClient::new(JobsSettings::at(url), Transport::new().unwrap()).unwrap()
}

async fn run(pool: &PgPool, script: &str) {
    let script = AssertSqlSafe(script.to_owned());
    raw_sql(script).execute(pool).await.unwrap();
}

/// Transactions of a database so far.
async fn transactions(pool: &PgPool) -> i64 {
    // Sessions report what they did once a second.
    pass(Duration::from_millis(1_500)).await;
    let count = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()";
    sqlx::query_scalar(count).fetch_one(pool).await.unwrap()
}

/// Statements of a database so far, and those of them that begin and end transactions; `None` where the server does not count them.
async fn statements(pool: &PgPool) -> Option<(i64, i64)> {
    let create = raw_sql("create extension if not exists pg_stat_statements");
    create.execute(pool).await.ok()?;
    let counts = "select coalesce(sum(calls), 0)::bigint,
            coalesce(sum(calls) filter (where query ~* '^(begin|commit|rollback)'), 0)::bigint
        from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database())";
    sqlx::query_as(counts).fetch_one(pool).await.ok()
}

/// Options of connections to a new database for a way.
async fn options_of(server: Option<&Server>, way: Way) -> PgConnectOptions {
    if let Some(server) = server {
        return server.options(way.name()).await;
    }
    let url = std::env::var(DATABASE_URL).unwrap();
    let options: PgConnectOptions = url.parse().unwrap();
    let name = format!("bench_{}", way.name());
    let pool = PgPool::connect_with(options.clone()).await.unwrap();
    run(&pool, &format!("drop database if exists {name}")).await;
    run(&pool, &format!("create database {name}")).await;
    options.database(&name)
}

/// Starts the work on the rows; it ends with the token.
async fn start(
    way: Way,
    options: &PgConnectOptions,
    pool: &PgPool,
    service: &RowsService,
) -> CancellationToken {
    let stop = CancellationToken::new();
    if way == Way::Looking {
        looking::start(pool.clone(), service.url.clone(), stop.clone());
        return stop;
    }
    let store = parkhang_state::PostgresStore::connect_with(options.clone())
        .await
        .unwrap();
    let table = store.entity_database().open(pipeline()).await.unwrap();
    let services = STAGES.iter().map(|name| {
        let service = StageService {
            name: "llm".to_owned(),
            client: Arc::new(client(&service.url)),
            template: None,
            max_body: 1 << 20,
            poll_interval: Duration::from_secs(2),
            has_webhook: way == Way::Told,
            retry: RetryOverrides::default(),
            reader: None,
        };
        (stage(name), service)
    });
    let entities = Entities::new(
        table,
        EntityOptions::default(),
        services.collect(),
        &BTreeMap::new(),
    );
    let entities = Arc::new(entities.unwrap());
    if way == Way::Told {
        service.tell(entities.clone());
    }
    let stopped = stop.clone();
    tokio::spawn(async move { entities.run(&stopped).await });
    stop
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

async fn measure(server: Option<&Server>, way: Way, rows: usize) {
    let name = way.name();
    let options = options_of(server, way).await;
    let pool = PgPool::connect_with(options.clone()).await.unwrap();
    run(&pool, &EntityTable::schema(&pipeline())).await;
    let insert =
        format!("insert into leads (created_at) select now() from generate_series(1, {rows}); analyze leads");
    run(&pool, &insert).await;
    let service = RowsService::start().await;
    let stop = start(way, &options, &pool, &service).await;
    let before = transactions(&pool).await;
    let stated = statements(&pool).await;
    let began = Instant::now();
    run(&pool, "update leads set scrape_status = 'queued'").await;
    service.until_ended("messaging", rows).await;
    let took = began.elapsed();
    let after = transactions(&pool).await;
    let stated = stated.zip(statements(&pool).await);
    let mut gaps = service.gaps();
    gaps.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| percentile(&gaps, percent));

    let mut triggered = Vec::new();
    let insert = "insert into leads (scrape_status) values ('queued') returning id";
    for _ in 0..TRIGGERS {
        let begun = Instant::now();
        let id: i64 = sqlx::query_scalar(insert).fetch_one(&pool).await.unwrap();
        triggered.push(service.until_submitted("scrape", id).await - begun);
    }
    triggered.sort_unstable();
    let [t50, t99] = [50, 99].map(|percent| percentile(&triggered, percent));
    service.until_ended("messaging", rows + TRIGGERS).await;
    stop.cancel();
    println!(
        "{name}: {rows} rows in {took:.1?}, {:.0} a minute; end to next submit p50 {p50:.1?} p99 {p99:.1?}; \
         trigger to submit p50 {t50:.1?} p99 {t99:.1?}; {:.0} transactions a second, {:.1} a row and stage",
        rows as f64 * 60.0 / took.as_secs_f64(),
        (after - before) as f64 / took.as_secs_f64(),
        (after - before) as f64 / (rows * STAGES.len()) as f64,
    );
    if let Some(((all, bounds), (all_after, bounds_after))) = stated {
        let each = |number: i64| number as f64 / (rows * STAGES.len()) as f64;
        println!(
            "{name}: {:.1} statements a row and stage, {:.1} of them the bounds of transactions",
            each(all_after - all),
            each(bounds_after - bounds),
        );
    }
}

#[tokio::main]
async fn main() {
    let rows = std::env::var(ROWS).map_or(5_000, |text| text.parse().unwrap());
    let only = std::env::var(ONLY).ok();
    let server = std::env::var(DATABASE_URL).is_err().then(Server::start);
    for way in [Way::Told, Way::Asking, Way::Looking] {
        if only.as_ref().is_none_or(|only| only == way.name()) {
            measure(server.as_ref(), way, rows).await;
        }
    }
}
