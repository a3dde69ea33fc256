//! Rows of a table through five stages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parkhang_actors::entity::{Entities, EntityOptions};
use parkhang_actors::services::{ServiceBounds, StageService, WorkElsewhere};
use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{EntityPipeline, EntityStage, EntityStatus, StageLimits};
use parkhang_state::{EmbeddedPostgres, EntityTable, PostgresStore};
use parkhang_test_support::Wait;
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, raw_sql};
use tokio_util::sync::CancellationToken;

use crate::service::{FAULTS, Fault, Service, UNREACHABLE, UNREADABLE};

const STAGES: [&str; 5] = ["scrape", "intel", "strategy", "subject", "messaging"];
const LEADS: i64 = 50;
const MAX_RETRIES: u32 = 4;
/// Most rows that a service has at once.
pub(crate) const IN_FLIGHT: usize = 7;
const OFTEN: Duration = Duration::from_millis(50);
const NEVER: Duration = Duration::from_secs(3600);

/// Rows, and a note of each time that a stage of one is completed.
pub(crate) const THEIRS: &str = "create table leads (
        id bigint generated always as identity primary key, email text, created_at timestamptz not null default now()
    );
    insert into leads (email) select n || '@example.com' from generate_series(1, 50) n;
    create table completions (id bigint, stage text);
    create function note() returns trigger language plpgsql as $$
    declare stage text;
    begin
        foreach stage in array array['scrape', 'intel', 'strategy', 'subject', 'messaging'] loop
            if to_jsonb(new) ->> (stage || '_status') = 'completed'
                and to_jsonb(old) ->> (stage || '_status') is distinct from 'completed' then
                insert into completions values (new.id, stage);
            end if;
        end loop;
        return null;
    end $$;
    create trigger noted after update on leads for each row execute function note();";

pub(crate) fn pipeline() -> Arc<EntityPipeline> {
    let named = |(index, name): (usize, &&str)| EntityStage {
        name: stage(name),
        next: STAGES.get(index + 1).map(|next| stage(next)),
        limits: StageLimits {
            max_retries: MAX_RETRIES,
            stuck_timeout: Duration::from_secs(5),
        },
    };
    let stages = STAGES.iter().enumerate().map(named).collect();
    Arc::new(EntityPipeline::new("leads", "leads", stages).unwrap())
}

pub(crate) async fn connect(options: &PgConnectOptions) -> PgConnection {
    options.connect().await.unwrap()
}

pub(crate) async fn run(connection: &mut PgConnection, script: String) {
    raw_sql(AssertSqlSafe(script)).execute(connection).await.unwrap();
}

/// A process with the role entity, whose workers look at this interval.
pub(crate) async fn process(
    options: &PgConnectOptions,
    (scraper, llm): (&Service, &Service),
    poll_interval: Duration,
    elsewhere: Option<Arc<dyn WorkElsewhere>>,
) -> Arc<Entities> {
    let store = PostgresStore::connect_with(options.clone()).await.unwrap();
    let table = store.entity_database().open(pipeline()).await.unwrap();
    let services = STAGES.iter().map(|name| {
        let service: StageService = match *name {
            "scrape" => scraper.at_stage("scraper", true),
            _ => llm.at_stage("llm", false),
        };
        (stage(name), service)
    });
    let options = EntityOptions {
        poll_interval,
        elsewhere,
        ..EntityOptions::default()
    };
    let bounds = ServiceBounds {
        max_in_flight: IN_FLIGHT,
        rate: None,
    };
    let bounds = ["scraper", "llm"].map(|name| (name.to_owned(), bounds));
    let entities = Entities::new(table, options, services.collect(), &BTreeMap::from(bounds)).unwrap();
    let entities = Arc::new(entities);
    scraper.tell(entities.clone());
    llm.tell(entities.clone());
    entities
}

/// Rows: 218, 219, 221, 224, 229, 230, 231, 233, 234, 235, 236, 237, 241, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_row_is_completed_once_or_has_failed_with_its_reason() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let options = server.create_database("leads").await.unwrap();
    let mut connection = connect(&options).await;
    run(&mut connection, THEIRS.to_owned()).await;
    run(&mut connection, EntityTable::schema(&pipeline())).await;
    let (scraper, llm) = (Service::start(&FAULTS).await, Service::start(&FAULTS).await);
    // A person triggers by a status alone.
    run(
        &mut connection,
        "update leads set scrape_status = 'queued'".to_owned(),
    )
    .await;

    let first = process(&options, (&scraper, &llm), OFTEN, None).await;
    let looked = PostgresStore::connect_with(options.clone()).await.unwrap();
    let table = looked.entity_database().open(pipeline()).await.unwrap();
    let never = CancellationToken::new();
    let running = tokio::spawn(async move { first.run(&never).await });
    Wait::until("some rows have gone through the first stage")
        .sees_async(
            async || table.counts().await.unwrap(),
            |counts| counts.stages[0].completed >= 10,
        )
        .await;
    // Nothing is released, and whatever was under way stays as it is, like after the death of a process.
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());

    let second = process(&options, (&scraper, &llm), OFTEN, None).await;
    let stop = CancellationToken::new();
    let (working, stopping) = (second.clone(), stop.clone());
    let running = tokio::spawn(async move { working.run(&stopping).await });
    let is_over = |counts: &parkhang_state::EntityCounts| {
        counts
            .stages
            .iter()
            .all(|stage| stage.queued + stage.started == 0)
    };
    Wait::until("nothing is queued or started")
        .at_most(Duration::from_secs(180))
        .sees_async(async || table.counts().await.unwrap(), is_over)
        .await;
    stop.cancel();
    running.await.unwrap();
    scraper.assert_faults();
    check(&mut connection).await;
}

async fn check(connection: &mut PgConnection) {
    let rows: Vec<(i64, Value)> = sqlx::query_as("select id, to_jsonb(leads) from leads order by id")
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    assert_eq!(rows.len() as i64, LEADS);
    for (id, row) in &rows {
        let status: Vec<EntityStatus> = STAGES
            .iter()
            .map(|stage| row[format!("{stage}_status")].as_str().unwrap().parse().unwrap())
            .collect();
        let ended = status
            .iter()
            .position(|status| *status != EntityStatus::Completed);
        let Some(ended) = ended else {
            for (before, stage) in STAGES.iter().enumerate() {
                let result = &row[format!("{stage}_result")];
                assert_eq!(
                    result["before"], before,
                    "{stage} of {id} was made of all before it"
                );
                assert_eq!(result["email"], row["email"]);
            }
            continue;
        };
        assert_eq!(status[ended], EntityStatus::Failed, "{id}: {status:?}");
        assert!(
            status[ended + 1..]
                .iter()
                .all(|status| *status == EntityStatus::Pending)
        );
        let column = |ending: &str| &row[format!("{}_{ending}", STAGES[ended])];
        let (error, retries) = (
            column("error").as_str().unwrap(),
            column("retry_count").as_u64().unwrap(),
        );
        match STAGES[ended] {
            // It may have met a fault of the service before that was worth another try.
            "scrape" if id % UNREACHABLE == 0 => assert_eq!(error, "ENOTFOUND: DNS lookup failed"),
            "intel" if *id == UNREADABLE => {
                assert_eq!((error, retries), ("HTTP 500: out of memory", MAX_RETRIES.into()));
            }
            stage => panic!("{id} failed in {stage} after {retries} retries: {error}"),
        }
    }
    let unreachable = rows
        .iter()
        .filter(|(_, row)| row["scrape_status"] == "failed")
        .count();
    assert_eq!(unreachable as i64, LEADS / UNREACHABLE);
    let often: Vec<(i64, String, i64)> =
        sqlx::query_as("select id, stage, count(*) from completions group by 1, 2 having count(*) > 1")
            .fetch_all(connection)
            .await
            .unwrap();
    assert_eq!(often, [], "completed more than once");
}

/// Rows: 218, 225.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_queues_is_submitted_before_the_next_interval() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let options = server.create_database("leads").await.unwrap();
    let mut connection = connect(&options).await;
    run(&mut connection, EntityTable::schema(&pipeline())).await;
    let (scraper, llm) = (Service::start(&[]).await, Service::start(&[]).await);
    let entities = process(&options, (&scraper, &llm), NEVER, None).await;
    let stop = CancellationToken::new();
    let (working, stopping) = (entities.clone(), stop.clone());
    let running = tokio::spawn(async move { working.run(&stopping).await });
    // The first ones may be found as the work begins.
    for row in 1..=4 {
        let queued = "insert into leads (scrape_status) values ('queued')".to_owned();
        run(&mut connection, queued).await;
        Wait::until("the row is submitted")
            .sees_async(async || scraper.submits().0, |submits| *submits == row)
            .await;
    }
    stop.cancel();
    running.await.unwrap();
}

/// The service never ends what it has, so that it is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_has_no_more_rows_at_once_than_it_may() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let options = server.create_database("leads").await.unwrap();
    let mut connection = connect(&options).await;
    run(&mut connection, EntityTable::schema(&pipeline())).await;
    // Requests of two stages of one service, and none that it cannot read.
    let queued = "alter table leads alter id restart with 101;
        insert into leads (intel_status) select 'queued' from generate_series(1, 20);
        insert into leads (subject_status) select 'queued' from generate_series(1, 20)";
    run(&mut connection, queued.to_owned()).await;
    let (scraper, llm) = (
        Service::start(&[]).await,
        Service::start(&[(1, Fault::Never); 40]).await,
    );
    let entities = process(&options, (&scraper, &llm), OFTEN, None).await;
    let stop = CancellationToken::new();
    let (working, stopping) = (entities.clone(), stop.clone());
    let running = tokio::spawn(async move { working.run(&stopping).await });
    Wait::until("the service is full")
        .sees_async(async || llm.submits().0, |submits| *submits >= IN_FLIGHT)
        .await;
    let ended = "update leads set intel_status = 'failed' where intel_status = 'started';
        update leads set subject_status = 'failed' where subject_status = 'started'";
    run(&mut connection, ended.to_owned()).await;
    let submits = Wait::until("it is full again")
        .sees_async(async || llm.submits().0, |submits| *submits >= 2 * IN_FLIGHT)
        .await;
    assert_eq!(submits, 2 * IN_FLIGHT);
    stop.cancel();
    running.await.unwrap();
    assert_eq!(llm.submits().0, 2 * IN_FLIGHT);
}
