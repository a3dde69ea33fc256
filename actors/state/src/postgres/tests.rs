use std::sync::{LazyLock, atomic};

use serde_json::json;
use sqlx::{ConnectOptions, Connection, PgConnection, Row, raw_sql};

use super::*;
use crate::{EmbeddedPostgres, Expected, Sample};
use parkhang_core::domain::testing::{self, at, stage, worker};
use parkhang_core::domain::{ErrorCategory, JobStatus, Position, StageError, TaskStatus};
use parkhang_core::policy::rerun::TaskFilter;
use parkhang_core::policy::transition::{Event, runnable_stage};

static SERVER: LazyLock<EmbeddedPostgres> =
    LazyLock::new(|| EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}")));

async fn empty_database() -> PgConnectOptions {
    static COUNT: atomic::AtomicUsize = atomic::AtomicUsize::new(0);
    let name = format!("unit_{}", COUNT.fetch_add(1, atomic::Ordering::Relaxed));
    SERVER.create_database(&name).await.unwrap()
}

pub(super) async fn store() -> PostgresStore {
    PostgresStore::connect_with(empty_database().await).await.unwrap()
}

pub(super) fn now() -> DateTime<Utc> {
    at(0)
}

pub(super) fn new_job(volumes: usize) -> NewJob {
    let stages = ["line_detection", "line_extraction", "ocr", "reduce"];
    NewJob {
        volumes: (0..volumes as i64).rev().map(testing::volume).collect(),
        ..testing::new_job(&stages, 0)
    }
}

pub(super) fn change(task: &Task, event: Event) -> Change {
    Change::new(Expected::of(task), event)
}

pub(super) fn lease(task: &Task, job: &Job) -> Change {
    let stage = runnable_stage(task, &job.pipeline, job.config.retry_scope).unwrap();
    change(
        task,
        Event::Leased {
            stage: stage.clone(),
            worker: worker("w"),
            until: now(),
        },
    )
}

pub(super) fn failure(category: ErrorCategory, message: &str) -> Event {
    Event::Failed {
        error: StageError::new("line_detection", category, message),
        not_before: None,
    }
}

pub(super) async fn applied(store: &PostgresStore, change: Change) -> Task {
    match store.commit(&[change], now()).await.unwrap().remove(0) {
        Outcome::Applied(task) => task,
        refused => panic!("{refused:?}"),
    }
}

#[tokio::test]
async fn no_statement_is_compiled() {
    let store = store().await;
    let jit: String = sqlx::query_scalar("show jit")
        .fetch_one(&store.pool)
        .await
        .unwrap();
    assert_eq!(jit, "off");
}

#[tokio::test]
async fn a_pass_over_open_tasks_does_not_read_finished_ones() {
    let store = store().await;
    let job = store.create_job(&new_job(4), now()).await.unwrap();
    raw_sql(
        "insert into volumes (bdrc_w_id, bdrc_i_id) select 'W2', 'I' || n from generate_series(1, 100000) n;
         insert into tasks (job_id, volume_id, max_attempts, allowance, current_stage, status, done_at)
         select 1, id, 3, 3, 'done', 'done', now() from volumes where bdrc_w_id = 'W2';
         analyze",
    )
    .execute(&store.pool)
    .await
    .unwrap();
    let room = BTreeMap::from([(job.pipeline.first().clone(), 10)]);
    assert_eq!(store.ready_tasks(&room, now()).await.unwrap().tasks.len(), 4);

    look_at_pass(&store, true).await;
}

#[tokio::test]
async fn a_pass_over_open_tasks_does_not_read_all_of_them() {
    let store = store().await;
    store.create_job(&new_job(100_000), now()).await.unwrap();
    raw_sql("analyze").execute(&store.pool).await.unwrap();
    // The index of the ids is as good as that of places where all tasks wait in one.
    look_at_pass(&store, false).await;
}

/// Looks at the plans of the statements of a pass, for parameters that are known and for any: none reads a table from end to end, and each goes by
/// its own index if so wanted.
async fn look_at_pass(store: &PostgresStore, by_own_index: bool) {
    let lanes = "'{1,1}', '{pending,ocr}', '{pending,failed}'";
    let lane = "'{1}', '{ocr}', '{failed}'";
    for mode in [
        "begin; set local plan_cache_mode = force_custom_plan",
        "begin; set local plan_cache_mode = force_generic_plan",
    ] {
        let mut transaction = store.pool.begin_with(mode).await.unwrap();
        for (statement, parameters, index) in [
            (backlog::READY, format!("{lanes}, '{{9,9}}', 'now'"), "tasks_open"),
            (backlog::NEXT_DUE, format!("{lane}, 'now'"), "tasks_backing_off"),
            (
                scaling::BACKLOG,
                "'{1,1}', '{pending,ocr}', '{pending,running}', '{line_detection,ocr}'".to_owned(),
                "tasks_open",
            ),
            (jobs::OVER, String::new(), "tasks_open"),
            (backlog::HELD, "'now', 2".to_owned(), "tasks_leased"),
            (backlog::TO_END, "'now'".to_owned(), "tasks_leased"),
            (
                claims::LOCK_READY,
                format!("{lanes}, 'now', 9, 2, false"),
                "tasks_open",
            ),
            (claims::LOCK_EXPIRED, "9, 'now'".to_owned(), "tasks_leased"),
            (claims::LOCK_UNWANTED, "9".to_owned(), "tasks_leased"),
            (
                outbox::INTEND,
                format!("{lanes}, '{{9,9}}', 'now', 'ocr'"),
                "tasks_open",
            ),
        ] {
            let plan = plan_on(&mut transaction, statement, &parameters).await;
            assert!(!by_own_index || plan.contains(index), "{mode}: {plan}");
            for table in ["tasks", "volumes"] {
                assert!(!plan.contains(&format!("Seq Scan on {table}")), "{mode}: {plan}");
            }
        }
    }
}

/// Plan by which the server would run a statement.
pub(super) async fn plan_of(store: &PostgresStore, statement: &str, parameters: &str) -> String {
    let mut connection = store.pool.acquire().await.unwrap();
    plan_on(&mut connection, statement, parameters).await
}

/// Plan by which the server would run a statement on a connection, with its settings.
pub(super) async fn plan_on(connection: &mut PgConnection, statement: &str, parameters: &str) -> String {
    raw_sql(sqlx::AssertSqlSafe(format!("prepare looked_at as {statement}")))
        .execute(&mut *connection)
        .await
        .unwrap();
    let parameters = Some(parameters).filter(|parameters| !parameters.is_empty());
    let parameters = parameters
        .map(|parameters| format!("({parameters})"))
        .unwrap_or_default();
    let explain = sqlx::AssertSqlSafe(format!("explain execute looked_at {parameters}"));
    let rows = raw_sql(explain).fetch_all(&mut *connection).await.unwrap();
    raw_sql("deallocate looked_at")
        .execute(&mut *connection)
        .await
        .unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    lines.join("\n")
}

#[tokio::test]
async fn a_large_job_keeps_its_order() {
    let store = store().await;
    let new = new_job(25_001);
    let job = store.create_job(&new, now()).await.unwrap();
    let volumes: Vec<VolumeId> = store
        .tasks(job.id)
        .await
        .unwrap()
        .into_iter()
        .map(|t| t.volume)
        .collect();
    assert!(volumes == new.volumes);
}

#[tokio::test]
async fn a_zero_in_an_error_message_is_replaced() {
    let store = store().await;
    let job = store.create_job(&new_job(1), now()).await.unwrap();
    let task = store.tasks(job.id).await.unwrap().remove(0);
    let running = applied(&store, lease(&task, &job)).await;
    let failed = Change {
        metrics: Some(json!({"names": ["a\0b"]})),
        ..change(&running, failure(ErrorCategory::Input, "bad \0 header"))
    };
    applied(&store, failed).await;
    let stored = store.task(task.id).await.unwrap().unwrap().last_error.unwrap();
    assert_eq!(stored.message, "bad \u{fffd} header");
    let runs = store.stage_runs(task.id).await.unwrap();
    assert_eq!(runs[0].metrics, json!({"names": ["a\u{fffd}b"]}));
}

/// Rows: U31.
#[tokio::test]
async fn a_session_gives_up_on_stuck_statements() {
    let store = store().await;
    for (name, value) in [
        ("statement_timeout", "1min"),
        ("lock_timeout", "30s"),
        ("idle_in_transaction_session_timeout", "5s"),
        ("application_name", "parkhang"),
    ] {
        let actual: String = sqlx::query_scalar("select current_setting($1)")
            .bind(name)
            .fetch_one(&store.pool)
            .await
            .unwrap();
        assert_eq!(actual, value, "{name}");
    }
}

#[tokio::test]
async fn whatever_is_done_to_a_job_is_announced() {
    let store = store().await;
    let mut changes = store.job_changes().await.unwrap();
    let mut announced = async |what: &str| {
        let heard = tokio::time::timeout(Duration::from_secs(30), changes.next()).await;
        heard
            .unwrap_or_else(|_| panic!("{what} is not heard of"))
            .unwrap();
    };
    let job = store.create_job(&new_job(1), now()).await.unwrap();
    announced("a new job").await;
    store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    announced("a pause").await;
    let adjustment = Adjustment::new(["max_running=1"]).unwrap();
    store.adjust_job(job.id, &adjustment).await.unwrap();
    announced("a limit").await;
    let rerun = Rerun {
        tasks: TaskFilter::default(),
        from: job.pipeline.first().clone(),
        force: false,
    };
    store.rerun(job.id, &rerun, now()).await.unwrap();
    announced("a rerun").await;
}

#[tokio::test]
async fn a_large_job_can_be_done_again() {
    let store = store().await;
    let job = store.create_job(&new_job(2_500), now()).await.unwrap();
    raw_sql("update tasks set current_stage = 'done', status = 'done', done_at = now()")
        .execute(&store.pool)
        .await
        .unwrap();
    store.finish_jobs(now()).await.unwrap();
    let rerun = Rerun {
        tasks: TaskFilter::default(),
        from: stage("ocr"),
        force: false,
    };
    let result = store.rerun(job.id, &rerun, now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    assert!(result.tasks.number == 2_500 && result.tasks.first == tasks[..Sample::SIZE]);
    assert!(tasks.iter().all(|task| task.generation.0 == 1));
    assert_eq!(store.job_by_id(job.id).await.unwrap(), Some(job));
}

#[tokio::test]
async fn the_tries_of_a_large_job_are_set_in_many_transactions() {
    let store = store().await;
    let job = store.create_job(&new_job(2_500), now()).await.unwrap();
    let adjustment = Adjustment::new(["max_attempts=7"]).unwrap();
    for _ in 0..2 {
        let adjusted = store.adjust_job(job.id, &adjustment).await.unwrap();
        assert_eq!(adjusted.config.max_attempts, 7);
        let tasks = store.tasks(job.id).await.unwrap();
        assert!(
            tasks
                .iter()
                .all(|task| (task.max_attempts, task.retry_budget) == (7, 7))
        );
        let transactions: i64 = sqlx::query_scalar("select count(distinct xmin::text) from tasks")
            .fetch_one(&store.pool)
            .await
            .unwrap();
        assert_eq!(transactions, 3);
    }
    store
        .add_volumes(job.id, &[VolumeId::new("W9", "I1").unwrap()])
        .await
        .unwrap();
    assert_eq!(store.tasks(job.id).await.unwrap()[2_500].max_attempts, 7);
}

/// Columns of `task_stages`: task, stage, status, job, error and retries.
type StageView = (i64, String, String, Option<String>, Option<String>, i32);

#[tokio::test]
async fn the_views_speak_the_other_vocabularies() {
    let store = store().await;
    let job = store.create_job(&new_job(3), now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    let detected = applied(&store, lease(&tasks[0], &job)).await;
    let detected = applied(&store, change(&detected, Event::Succeeded)).await;
    applied(&store, lease(&detected, &job)).await;
    for (task, category) in [
        (&tasks[1], ErrorCategory::Network),
        (&tasks[2], ErrorCategory::Input),
    ] {
        let running = applied(&store, lease(task, &job)).await;
        applied(&store, change(&running, failure(category, "no"))).await;
    }

    let kinds: Vec<(Option<String>, String)> =
        sqlx::query_as("select failure_kind, status_v1 from tasks_v1 order by id")
            .fetch_all(&store.pool)
            .await
            .unwrap();
    let expected = [
        (None, "running"),
        (Some("retryable"), "retryable_failed"),
        (Some("terminal"), "terminal_failed"),
    ];
    assert_eq!(
        kinds,
        expected.map(|(kind, status)| (kind.map(str::to_owned), status.to_owned()))
    );

    let stages: Vec<StageView> = sqlx::query_as(
        "select task_id, stage, status, job_id, error, retry_count from task_stages order by task_id, position",
    )
    .fetch_all(&store.pool)
    .await
    .unwrap();
    let statuses: Vec<&str> = stages.iter().map(|(_, _, status, ..)| &status[..]).collect();
    assert_eq!(
        statuses,
        [
            ["completed", "started", "pending", "pending"],
            ["queued", "pending", "pending", "pending"],
            ["failed", "pending", "pending", "pending"]
        ]
        .concat()
    );
    let id = tasks[1].id;
    assert_eq!(
        stages[4],
        (
            id.0,
            "line_detection".to_owned(),
            "queued".to_owned(),
            Some(format!("{id}-line_detection-1")),
            Some("no".to_owned()),
            1,
        )
    );
}

/// Tables of the Python pipeline, as far as its documents name them.
const UPSTREAM: &str = "
    create type job_status as enum ('created', 'running', 'completed', 'failed', 'canceled');
    create type task_status as enum ('pending', 'running', 'done', 'retryable_failed', 'terminal_failed');
    create table jobs (id serial primary key, job_key text, config jsonb, status job_status not null,
        finished_at timestamptz);
    create table volumes (id serial primary key, bdrc_w_id text not null, bdrc_i_id text not null);
    create table tasks (id serial primary key, job_id int references jobs, volume_id int references volumes,
        status task_status not null default 'pending', attempts int not null default 0,
        max_attempts int not null default 3, started_at timestamptz, done_at timestamptz, last_error jsonb);
    create index tasks_pending on tasks (id) where status = 'pending';
    insert into jobs (job_key, config, status) values
        ('batch-1', '{\"k_factor\": 2.0}', 'running'), (null, null, 'canceled');
    insert into volumes (bdrc_w_id, bdrc_i_id) select 'W1', 'I' || n from generate_series(1, 6) n;
    insert into tasks (job_id, volume_id, status, attempts, done_at, last_error) values
        (1, 1, 'pending', 0, null, null),
        (1, 2, 'running', 1, null, null),
        (1, 3, 'done', 0, '2025-01-01', null),
        (1, 4, 'retryable_failed', 1, null, '{\"message\": \"S3 was slow\"}'),
        (1, 5, 'terminal_failed', 1, null, '\"broken\"'),
        (1, 6, 'retryable_failed', 3, null, null);";

#[tokio::test]
async fn a_database_of_the_python_pipeline_is_adopted() {
    let options = empty_database().await;
    let mut connection = options.connect().await.unwrap();
    raw_sql(UPSTREAM).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();

    let store = PostgresStore::connect_with(options.clone()).await.unwrap();
    let job = store
        .job(&JobKey::new("batch-1").unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((job.status, job.config.k_factor), (JobStatus::Running, 2.0));
    let second = store.job_by_id(JobId(2)).await.unwrap().unwrap();
    assert_eq!((second.key.as_str(), second.status), ("J2", JobStatus::Cancelled));

    let tasks = store.tasks(job.id).await.unwrap();
    let first = || Position::At(job.pipeline.first().clone());
    let places: Vec<_> = tasks.iter().map(|t| (t.position.clone(), t.status)).collect();
    assert_eq!(
        places,
        [
            (Position::Pending, TaskStatus::Pending),
            (Position::Pending, TaskStatus::Pending),
            (Position::Done, TaskStatus::Done),
            (first(), TaskStatus::Failed),
            (first(), TaskStatus::Failed),
            (first(), TaskStatus::Failed)
        ]
    );
    let message = |task: &Task| task.last_error.clone().map(|error| error.message);
    assert_eq!(message(&tasks[3]).as_deref(), Some("S3 was slow"));
    assert_eq!(message(&tasks[4]).as_deref(), Some("broken"));
    let room = BTreeMap::from([(job.pipeline.first().clone(), 9)]);
    let ready = store.ready_tasks(&room, now()).await.unwrap().tasks;
    let ready: Vec<Task> = ready.into_iter().map(|(task, _)| task).collect();
    assert_eq!(ready, [tasks[0].clone(), tasks[1].clone(), tasks[3].clone()]);
    applied(&store, lease(&tasks[3], &job)).await;
    assert_eq!(store.create_job(&new_job(7), now()).await.unwrap().id, JobId(3));

    let kept: i64 =
        sqlx::query("select count(*) from parkhang_upstream.tasks where status = 'retryable_failed'")
            .fetch_one(&store.pool)
            .await
            .unwrap()
            .get(0);
    assert_eq!(kept, 2, "the old rows are left for the operator to drop");
    PostgresStore::connect_with(options)
        .await
        .expect("a second start migrates nothing");
}

/// While a cluster is brought to the next build, or back, processes of both share one database.
#[tokio::test]
async fn a_schema_of_a_later_release_is_refused_only_if_it_breaks_with_this_one() {
    let options = empty_database().await;
    let store = PostgresStore::connect_with(options.clone()).await.unwrap();
    let migrated = async |version: i64, description: &str| {
        let insert = "insert into _sqlx_migrations (version, description, success, checksum, execution_time) values ($1, $2, true, '', 0)";
        sqlx::query(insert)
            .bind(version)
            .bind(description)
            .execute(&store.pool)
            .await
            .unwrap();
    };
    migrated(9998, "columns for later").await;
    let again = PostgresStore::connect_with(options.clone()).await.unwrap();
    assert_eq!(again.create_job(&new_job(1), now()).await.unwrap().id, JobId(1));
    migrated(9999, "breaking renames").await;
    let refused = PostgresStore::connect_with(options).await.unwrap_err();
    assert!(
        matches!(&refused, StateError::Corrupt(why) if why.contains("9999")),
        "{refused}"
    );
}

/// Rows: U25.
#[test]
fn users_and_passwords_may_have_any_characters() {
    let url = "postgres://op%40rator:a%20b%2Fc%3A%2Bd%25@host/work";
    let options = PostgresStore::options_of(url).unwrap();
    assert_eq!(options.get_username(), "op@rator");
    // As it is written back, it is read as the same.
    let written = options.to_url_lossy();
    let again = PostgresStore::options_of(written.as_str()).unwrap();
    assert_eq!(again.get_username(), "op@rator");
    assert_eq!(written.password(), Some("a%20b%2Fc%3A%2Bd%25"));
}

#[tokio::test]
async fn no_message_holds_the_password() {
    let store = store().await;
    assert!(!format!("{store:?}").contains("postgres@"));
    for url in [
        "postgres://user:s3cret@127.0.0.1:1/none",
        "postgres://user:s3cret@[bad/none",
        "postgres://user:s3cret@host/none?sslmode=s3cret",
    ] {
        let error = PostgresStore::connect(url).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}
