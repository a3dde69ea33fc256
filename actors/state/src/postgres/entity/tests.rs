use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{EntityStage, EntityStatus, StageLimits};
use parkhang_core::policy::entity::EntityEvent;
use serde_json::json;
use sqlx::{AssertSqlSafe, raw_sql};

use super::*;
use crate::postgres::tests;

const STAGES: [&str; 5] = ["scrape", "intel", "strategy", "subject", "messaging"];

/// Table of another program, as it is before anybody asked for our columns. Its names need quotes.
const THEIRS: &str = "create schema \"C R M\";
    create table \"C R M\".\"Lead's\" (
        id uuid primary key default gen_random_uuid(), email text, created_at timestamptz not null default now()
    );
    insert into \"C R M\".\"Lead's\" (email, created_at)
    select n || '@example.com', now() - n * interval '1 minute' from generate_series(1, 20) n;";

fn pipeline(table: &str, limits: StageLimits) -> Arc<EntityPipeline> {
    let named = |(index, name): (usize, &&str)| EntityStage {
        name: stage(name),
        next: STAGES.get(index + 1).map(|next| stage(next)),
        limits,
    };
    let stages = STAGES.iter().enumerate().map(named).collect();
    Arc::new(EntityPipeline::new("leads", table, stages).unwrap())
}

async fn run(store: &PostgresStore, script: String) {
    raw_sql(AssertSqlSafe(script)).execute(&store.pool).await.unwrap();
}

/// The table of [`THEIRS`] with all our columns.
async fn leads(limits: StageLimits) -> (PostgresStore, EntityTable) {
    let store = tests::store().await;
    run(&store, THEIRS.to_owned()).await;
    let pipeline = pipeline("C R M.Lead's", limits);
    run(&store, EntityTable::schema(&pipeline)).await;
    let table = store.entity_database().open(pipeline).await.unwrap();
    (store, table)
}

fn first(table: &EntityTable) -> EntityStage {
    table.pipeline().first().unwrap().clone()
}

async fn submitted(table: &EntityTable, stage: &EntityStage, job: &str) -> ClaimedEntity {
    let claimed = table.claim(&stage.name, 1).await.unwrap().remove(0);
    let event = EntityEvent::Submitted {
        claim: claimed.claim,
        job: job.to_owned(),
    };
    let outcome = table
        .step(stage, &claimed.id, &event, Finding::Nothing)
        .await
        .unwrap();
    assert!(matches!(outcome, EntityOutcome::Done { .. }), "{outcome:?}");
    claimed
}

fn completed(job: &str) -> EntityEvent {
    EntityEvent::Completed { job: job.to_owned() }
}

/// Rows: 220, 226, 239, 243, 245.
#[tokio::test]
async fn a_table_says_what_it_lacks_until_the_script_has_run() {
    let store = tests::store().await;
    let pipeline = pipeline("C R M.Lead's", StageLimits::default());
    let lacks = async || store.entity_database().check(&pipeline).await.unwrap();
    assert_eq!(
        lacks().await,
        [EntityLack::Table("\"C R M\".\"Lead's\"".to_owned())]
    );
    run(&store, THEIRS.to_owned()).await;
    assert_eq!(lacks().await.len(), 5 * (7 + 3 + 1) + 1);
    let error = store
        .entity_database()
        .open(pipeline.clone())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("there is no column scrape_status text; ")
            && error.ends_with("`node entities schema leads` prints what to run"),
        "{error}"
    );
    for _ in 0..2 {
        run(&store, EntityTable::schema(&pipeline)).await;
        assert_eq!(lacks().await, []);
    }
    let dropping = EntityTable::schema(&pipeline).to_lowercase();
    assert!(!dropping.contains("drop ") && !dropping.contains("delete "));
    run(
        &store,
        "alter table \"C R M\".\"Lead's\" alter intel_result type text".to_owned(),
    )
    .await;
    let other = lacks().await;
    assert_eq!(
        other[0].to_string(),
        "the column intel_result is text, and not jsonb"
    );
    assert!(store.entity_database().open(pipeline).await.is_err());
}

/// Rows: 245.
#[tokio::test]
async fn the_script_alone_makes_a_table_that_works() {
    let store = tests::store().await;
    let pipeline = pipeline("leads", StageLimits::default());
    run(&store, EntityTable::schema(&pipeline)).await;
    run(
        &store,
        "insert into leads (scrape_status) values ('queued')".to_owned(),
    )
    .await;
    let table = store.entity_database().open(pipeline).await.unwrap();
    assert_eq!(table.claim(&stage("scrape"), 5).await.unwrap()[0].id, "1");
}

/// Rows: 220.
#[tokio::test]
async fn a_stage_has_seven_columns_that_say_that_nothing_has_begun() {
    let store = tests::store().await;
    run(
        &store,
        EntityTable::schema(&pipeline("leads", StageLimits::default())),
    )
    .await;
    run(&store, "insert into leads default values".to_owned()).await;
    let row: serde_json::Value = sqlx::query_scalar("select to_jsonb(leads) from leads")
        .fetch_one(&store.pool)
        .await
        .unwrap();
    for stage in STAGES {
        let own = row.as_object().unwrap().iter();
        let own = own.filter_map(|(name, value)| Some((name.strip_prefix(stage)?, value.clone())));
        let expected = [
            ("_completed_at", json!(null)),
            ("_error", json!(null)),
            ("_job_id", json!(null)),
            ("_result", json!(null)),
            ("_retry_count", json!(0)),
            ("_started_at", json!(null)),
            ("_status", json!("pending")),
        ];
        assert_eq!(own.collect::<Vec<_>>(), expected, "{stage}");
    }
}

/// Rows: 223.
#[tokio::test]
async fn a_stage_is_added_by_the_configuration_and_the_script() {
    let store = tests::store().await;
    let whole = pipeline("leads", StageLimits::default());
    let only_first = EntityStage {
        next: None,
        ..whole.first().unwrap().clone()
    };
    let before = Arc::new(EntityPipeline::new("leads", "leads", vec![only_first.clone()]).unwrap());
    run(&store, EntityTable::schema(&before)).await;
    run(
        &store,
        "insert into leads (scrape_status) values ('queued')".to_owned(),
    )
    .await;
    let table = store.entity_database().open(before).await.unwrap();
    let claimed = submitted(&table, &only_first, "j").await;

    // The job began before there was another stage.
    run(&store, EntityTable::schema(&whole)).await;
    let table = store.entity_database().open(whole).await.unwrap();
    let result = json!(1);
    let outcome = table
        .step(
            &first(&table),
            &claimed.id,
            &completed("j"),
            Finding::Result(&result),
        )
        .await
        .unwrap();
    let queued = Some(stage("intel"));
    let status = EntityStatus::Completed;
    assert_eq!(outcome, EntityOutcome::Done { status, queued });
    assert_eq!(
        table.claim(&stage("intel"), 5).await.unwrap()[0].row["scrape_result"],
        result
    );
}

/// Rows: 228.
#[tokio::test]
async fn a_row_that_somebody_else_holds_is_passed_over_at_once() {
    let (store, table) = leads(StageLimits::default()).await;
    let scrape = stage("scrape");
    table
        .queue(&scrape, &[EntityStatus::Pending], None)
        .await
        .unwrap();
    let mut holder = store.pool.begin().await.unwrap();
    let held: String = sqlx::query_scalar(
        "select id::text from \"C R M\".\"Lead's\" order by created_at limit 1 for update",
    )
    .fetch_one(&mut *holder)
    .await
    .unwrap();
    let claimed = table.claim(&scrape, 20).await.unwrap();
    assert_eq!(claimed.len(), 19);
    assert!(claimed.iter().all(|claimed| claimed.id != held));
    holder.rollback().await.unwrap();
    assert_eq!(table.claim(&scrape, 20).await.unwrap()[0].id, held);
}

/// Rows: 227, 228.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_take_each_row_once_and_the_oldest_first() {
    let (_store, table) = leads(StageLimits::default()).await;
    let scrape = stage("scrape");
    assert_eq!(
        table
            .queue(&scrape, &[EntityStatus::Pending], None)
            .await
            .unwrap(),
        20
    );
    let oldest = table.claim(&scrape, 2).await.unwrap();
    let emails: BTreeSet<&str> = oldest
        .iter()
        .map(|claimed| claimed.row["email"].as_str().unwrap())
        .collect();
    assert_eq!(emails, BTreeSet::from(["20@example.com", "19@example.com"]));
    let claims = join_all((0..8).map(|_| async {
        let mut taken = Vec::new();
        loop {
            let claimed = table.claim(&scrape, 5).await.unwrap();
            assert!(claimed.len() <= 5);
            if claimed.is_empty() {
                return taken;
            }
            taken.extend(claimed.into_iter().map(|claimed| claimed.id));
        }
    }))
    .await;
    // A worker may find the last rows locked by others and stop; nobody takes one twice.
    let claims: Vec<String> = claims.into_iter().flatten().collect();
    let distinct: BTreeSet<&String> = claims.iter().collect();
    assert_eq!((claims.len(), distinct.len()), (18, 18));
}

/// Rows: 218, 229, 233.
#[tokio::test]
async fn an_end_queues_the_next_stage_and_comes_again_without_effect() {
    let (store, table) = leads(StageLimits::default()).await;
    let scrape = first(&table);
    table
        .queue(&scrape.name, &[EntityStatus::Pending], None)
        .await
        .unwrap();
    let claimed = submitted(&table, &scrape, "j1").await;
    let stranger = table
        .step(&scrape, &claimed.id, &completed("j2"), Finding::Nothing)
        .await
        .unwrap();
    assert!(matches!(stranger, EntityOutcome::Unchanged(state) if !state.is_over_for("j2")));
    let result = json!({"pages": ["a\0b"]});
    let end = table
        .step(&scrape, &claimed.id, &completed("j1"), Finding::Result(&result))
        .await
        .unwrap();
    let done = EntityOutcome::Done {
        status: EntityStatus::Completed,
        queued: Some(stage("intel")),
    };
    assert_eq!(end, done);
    let again = table
        .step(&scrape, &claimed.id, &completed("j1"), Finding::Result(&json!(2)))
        .await
        .unwrap();
    assert!(matches!(again, EntityOutcome::Unchanged(state) if state.is_over_for("j1")));
    let intel = table.claim(&stage("intel"), 5).await.unwrap();
    assert_eq!(intel[0].id, claimed.id);
    assert_eq!(intel[0].row["scrape_result"], json!({"pages": ["a\u{fffd}b"]}));
    assert!(intel[0].row["scrape_completed_at"].is_string());
    let view: (String, String) = sqlx::query_as(
        "select current_stage, current_status from \"C R M\".\"Lead'_pipeline_status\" where id = $1::uuid",
    )
    .bind(uuid_of(&claimed.id))
    .fetch_one(&store.pool)
    .await
    .unwrap();
    assert_eq!((view.0.as_str(), view.1.as_str()), ("intel", "started"));
    for (id, event) in [
        ("no uuid", completed("j1")),
        ("00000000-0000-0000-0000-000000000000", completed("j1")),
    ] {
        let outcome = table.step(&scrape, id, &event, Finding::Nothing).await.unwrap();
        assert_eq!(outcome, EntityOutcome::NoEntity);
    }
}

fn uuid_of(id: &str) -> sqlx::types::Uuid {
    id.parse().unwrap()
}

/// Rows: 237, 240, 242, D11.
#[tokio::test]
async fn a_job_without_an_end_is_tried_again_and_its_late_end_changes_nothing() {
    let limits = StageLimits {
        max_retries: 1,
        stuck_timeout: Duration::ZERO,
    };
    let (store, table) = leads(limits).await;
    let scrape = first(&table);
    let all = [EntityStatus::Pending];
    table.queue(&scrape.name, &all, None).await.unwrap();
    let claimed = submitted(&table, &scrape, "j1").await;
    let reset = |queued, failed| StuckEntities { queued, failed };
    assert_eq!(table.reset_stuck(&scrape).await.unwrap(), reset(1, 0));
    let columns = async |id: &str| -> (String, i32, bool) {
        let columns =
            "select scrape_status, scrape_retry_count, scrape_job_id is null and scrape_started_at is null
             from \"C R M\".\"Lead's\" where id::text = $1";
        sqlx::query_as(columns)
            .bind(id)
            .fetch_one(&store.pool)
            .await
            .unwrap()
    };
    assert_eq!(columns(&claimed.id).await, ("queued".to_owned(), 1, true));
    let late = table
        .step(&scrape, &claimed.id, &completed("j1"), Finding::Nothing)
        .await
        .unwrap();
    assert!(matches!(late, EntityOutcome::Unchanged(_)));
    let again = submitted(&table, &scrape, "j2").await;
    assert_eq!((&again.id, again.retry_count), (&claimed.id, 1));
    assert_eq!(table.reset_stuck(&scrape).await.unwrap(), reset(0, 1));
    assert_eq!(columns(&claimed.id).await, ("failed".to_owned(), 2, true));
    assert_eq!(table.reset_stuck(&scrape).await.unwrap(), reset(0, 0));
    let counts = table.counts().await.unwrap();
    let scraped = &counts.stages[0];
    assert_eq!(
        (counts.rows, scraped.queued, scraped.started, scraped.failed),
        (20, 19, 0, 1)
    );
    assert_eq!(
        table
            .queue(&scrape.name, &[EntityStatus::Failed], None)
            .await
            .unwrap(),
        1
    );
    assert_eq!(table.counts().await.unwrap().stages[0].queued, 20);
}

/// Rows: 225.
#[tokio::test]
async fn rows_are_queued_by_their_ids_and_jobs_are_looked_at_in_turn() {
    let (_store, table) = leads(StageLimits::default()).await;
    let scrape = first(&table);
    let all = [EntityStatus::Pending];
    assert_eq!(table.queue(&scrape.name, &all, None).await.unwrap(), 20);
    let mut ids = Vec::new();
    for job in ["a", "b", "c"] {
        ids.push(submitted(&table, &scrape, job).await.id);
    }
    let page = async |after: Option<&SubmittedJob>| {
        table
            .submitted(&scrape.name, Duration::ZERO, after, 2)
            .await
            .unwrap()
    };
    let two = page(None).await;
    let rest = page(two.last()).await;
    let seen: Vec<&str> = two.iter().chain(&rest).map(|job| job.job.as_str()).collect();
    assert_eq!(seen, ["a", "b", "c"]);
    let later = table
        .submitted(&scrape.name, Duration::from_secs(600), None, 2)
        .await
        .unwrap();
    assert_eq!(later, []);
    table
        .step(&scrape, &ids[0], &completed("a"), Finding::Result(&json!(1)))
        .await
        .unwrap();
    let from = [EntityStatus::Completed, EntityStatus::Failed];
    assert_eq!(table.queue(&scrape.name, &from, Some(&ids)).await.unwrap(), 1);
}

/// Rows: 226, 243.
#[tokio::test]
async fn the_queries_of_workers_go_by_partial_indexes() {
    let (store, table) = leads(StageLimits::default()).await;
    run(
        &store,
        "insert into \"C R M\".\"Lead's\" (email, scrape_status) select 'x', 'completed' from generate_series(1, 50000);
         update \"C R M\".\"Lead's\" set scrape_status = 'queued' where email <> 'x';
         analyze"
            .to_owned(),
    )
    .await;
    let plan: Vec<String> = sqlx::query_scalar(
        "explain select id from \"C R M\".\"Lead's\" where scrape_status = 'queued' order by created_at limit 5 for update skip locked",
    )
    .fetch_all(&store.pool)
    .await
    .unwrap();
    let plan = plan.join("\n");
    assert!(plan.contains("idx_Lead's_scrape_queued"), "{plan}");
    let definitions: Vec<String> = sqlx::query_scalar(
        "select replace(indexdef, ' ON \"C R M\".\"Lead''s\" USING btree', '') from pg_indexes
         where indexname like 'idx_Lead''s_scrape_%' order by indexname",
    )
    .fetch_all(&store.pool)
    .await
    .unwrap();
    let expected = [
        "CREATE INDEX \"idx_Lead's_scrape_job_id\" (scrape_job_id) WHERE (scrape_job_id IS NOT NULL)",
        "CREATE INDEX \"idx_Lead's_scrape_queued\" (created_at) WHERE (scrape_status = 'queued'::text)",
        "CREATE INDEX \"idx_Lead's_scrape_started\" (scrape_started_at) WHERE (scrape_status = 'started'::text)",
    ];
    assert_eq!(definitions, expected);
    assert_eq!(table.claim(&stage("scrape"), 5).await.unwrap().len(), 5);
}
