use serde_json::json;
use sqlx::postgres::{PgConnection, PgPoolOptions};
use uuid::Uuid;

use crate::postgres::leadership;
use crate::postgres::tests::{applied, change, lease, new_job, now, store};
use crate::{Change, Outcome, StateStore};
use parkhang_core::domain::{ErrorCategory, StageRunStatus, Task, TaskStatus, WorkerId};
use parkhang_core::policy::transition::Event;

/// Rows of tables that batches look at which this session has read without an index.
async fn read_without_index(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar(
        "select sum(seq_tup_read)::bigint from pg_stat_xact_user_tables
         where relname in ('tasks', 'volumes', 'jobs', 'stage_runs')",
    )
    .fetch_one(connection)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_batch_that_is_planned_over_a_handful_of_rows_reads_no_more_of_many() {
    let store = store().await;
    // Plans are those of a session.
    let options = store.pool.connect_options().as_ref().clone();
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.connect_with(options).await.unwrap();
    let few = store.create_job(&new_job(1), now()).await.unwrap();
    let first = store.tasks(few.id).await.unwrap().remove(0);
    super::commit(&pool, None, &[lease(&first, &few)], now())
        .await
        .unwrap();

    let many = store.create_job(&new_job(2_000), now()).await.unwrap();
    let waiting = store.tasks(many.id).await.unwrap();
    let leases: Vec<Change> = waiting.iter().take(3).map(|task| lease(task, &many)).collect();
    let mut transaction = leadership::begin_with(&pool, super::BEGIN, None).await.unwrap();
    let before = read_without_index(&mut transaction).await;
    let outcomes = super::apply_all(&mut transaction, &leases, now()).await.unwrap();
    let after = read_without_index(&mut transaction).await;

    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, Outcome::Applied(_)))
    );
    assert_eq!(after, before);
}

/// A report of success that the database takes, unless `spoil` makes it another.
fn success(task: &Task, spoil: impl FnOnce(&mut Change)) -> Change {
    let mut success = Change {
        metrics: Some(json!({ "read": 3 })),
        fingerprint: Some("f".to_owned()),
        ..change(task, Event::Succeeded)
    };
    spoil(&mut success);
    success
}

/// Rows: U24.
#[tokio::test]
async fn a_change_that_the_database_refuses_fails_alone() {
    let store = store().await;
    let job = store.create_job(&new_job(6), now()).await.unwrap();
    let waiting = store.tasks(job.id).await.unwrap();
    let mut tasks = Vec::new();
    for task in &waiting[..5] {
        tasks.push(applied(&store, lease(task, &job)).await);
    }
    let reports = [
        success(&tasks[0], |_| {}),
        success(&tasks[1], |report| report.fingerprint = Some("a\0b".to_owned())),
        success(&tasks[2], |_| {}),
        success(&tasks[3], |report| report.metrics = Some(json!({ "read": 1e30 }))),
        success(&tasks[4], |_| {}),
    ];

    let outcomes = store.commit(&reports, now()).await.unwrap();

    let stored = store.tasks(job.id).await.unwrap();
    let in_order: Vec<Task> = outcomes.into_iter().filter_map(Outcome::applied).collect();
    assert_eq!(in_order, stored[..5], "the outcomes are the rows as stored");
    for (index, task) in stored[..5].iter().enumerate() {
        let run = store.stage_runs(task.id).await.unwrap().remove(0);
        if [1, 3].contains(&index) {
            let error = task.last_error.as_ref().unwrap();
            assert_eq!(
                (task.status, task.attempts, run.status),
                (TaskStatus::Failed, 1, StageRunStatus::Failed)
            );
            assert_eq!((error.category, error.retryable), (ErrorCategory::Unknown, true));
            assert!(
                error
                    .message
                    .starts_with("the database refuses what the stage reports: "),
                "{error}"
            );
        } else {
            assert_eq!(
                (task.status, run.status),
                (TaskStatus::Done, StageRunStatus::Done)
            );
            assert_eq!(run.metrics, json!({ "read": 3 }));
        }
    }
}

#[tokio::test]
async fn a_lease_that_the_database_refuses_is_not_written() {
    let store = store().await;
    let job = store.create_job(&new_job(2), now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    let mut endless = lease(&tasks[0], &job);
    if let Event::Leased { worker, .. } = &mut endless.event {
        // Longer than the index of runs by their workers takes, however it is compressed.
        *worker = WorkerId((0..1_000).map(|_| Uuid::new_v4().to_string()).collect());
    }

    let outcomes = store
        .commit(&[endless, lease(&tasks[1], &job)], now())
        .await
        .unwrap();

    let [Outcome::Refused(reason), Outcome::Applied(leased)] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    assert!(reason.contains("index"), "{reason}");
    let stored = store.tasks(job.id).await.unwrap();
    assert_eq!([&stored[0], &stored[1]], [&tasks[0], leased]);
    assert!(store.stage_runs(tasks[0].id).await.unwrap().is_empty());
}
