use parkhang_test_support::Wait;

use crate::postgres::PostgresStore;
use crate::postgres::commit::apply_all;
use crate::postgres::tests::{applied, change, lease, new_job, now, store};
use crate::{Change, StateError, StateStore};
use parkhang_core::domain::{Job, JobStatus, TaskId, VolumeResults};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::transition::Event;

async fn rows(store: &PostgresStore) -> Vec<i64> {
    let mut counts = Vec::new();
    for statement in [
        "select count(*) from jobs",
        "select count(*) from tasks",
        "select count(*) from stage_runs",
        "select coalesce(sum(tasks), 0)::bigint from task_counts",
        "select coalesce(sum(runs), 0)::bigint from run_counts",
        "select coalesce(sum(volumes), 0)::bigint from quality_counts",
    ] {
        counts.push(
            sqlx::query_scalar(statement)
                .fetch_one(&store.pool)
                .await
                .unwrap(),
        );
    }
    counts
}

async fn delete(store: &PostgresStore, job: &Job, batch: u32) {
    assert_eq!(store.begin_deletion(job.id, now()).await.unwrap(), 0);
    loop {
        let tasks = store.first_tasks(job.id, batch).await.unwrap();
        if tasks.is_empty() {
            break;
        }
        let tasks: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
        store.delete_tasks(job.id, &tasks).await.unwrap();
    }
    store.finish_deletion(job).await.unwrap();
}

/// Rows: F3.
#[tokio::test]
async fn a_job_goes_with_all_that_is_its_own() {
    let store = store().await;
    let job = store.create_job(&new_job(5), now()).await.unwrap();
    let other = store.create_job(&new_job(2), now()).await.unwrap();
    for job in [&job, &other] {
        let task = store.tasks(job.id).await.unwrap().remove(0);
        let running = applied(&store, lease(&task, job)).await;
        let results = Some(VolumeResults::default());
        let success = Change {
            results,
            ..change(&running, Event::Succeeded)
        };
        applied(&store, success).await;
    }
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    assert_eq!(rows(&store).await, [2, 7, 2, 7, 2, 2]);
    delete(&store, &job, 2).await;
    assert_eq!(rows(&store).await, [1, 2, 1, 2, 1, 1]);
    assert_eq!(store.job_by_id(job.id).await.unwrap(), None);
    assert_eq!(store.jobs().await.unwrap(), [other]);
}

#[tokio::test]
async fn a_deletion_that_was_cut_off_closes_the_job_and_goes_on() {
    let store = store().await;
    let job = store.create_job(&new_job(5), now()).await.unwrap();
    sqlx::raw_sql("update jobs set status = 'completed', finished_at = created_at")
        .execute(&store.pool)
        .await
        .unwrap();
    store.begin_deletion(job.id, now()).await.unwrap();
    let first = store.first_tasks(job.id, 2).await.unwrap();
    store
        .delete_tasks(job.id, &[first[0].id, first[1].id])
        .await
        .unwrap();
    for action in [JobAction::Rerun, JobAction::Reopen, JobAction::Resume] {
        let refused = store.act_on_job(job.id, action).await;
        assert!(matches!(refused, Err(StateError::Forbidden(_))), "{action:?}");
    }
    delete(&store, &job, 100).await;
    assert_eq!(rows(&store).await, [0; 6]);
}

#[tokio::test]
async fn what_runs_is_not_deleted() {
    let store = store().await;
    let job = store.create_job(&new_job(1), now()).await.unwrap();
    let refused = store.begin_deletion(job.id, now()).await;
    assert!(matches!(refused, Err(StateError::Forbidden(_))), "{refused:?}");
    let task = store.tasks(job.id).await.unwrap().remove(0);
    let running = applied(&store, lease(&task, &job)).await;
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    assert_eq!(store.begin_deletion(job.id, now()).await.unwrap(), 1);
    let untouched = store.job_by_id(job.id).await.unwrap().unwrap();
    assert_eq!(
        (untouched.status, untouched.finished_at),
        (JobStatus::Cancelled, None)
    );
    applied(&store, change(&running, Event::Cancelled)).await;
    assert_eq!(store.begin_deletion(job.id, now()).await.unwrap(), 0);
    store.finish_deletion(&job).await.unwrap();
    assert_eq!(
        rows(&store).await,
        [0, 0, 0, 0, 0, 0],
        "what was left goes with the job"
    );
}

#[tokio::test]
async fn a_lease_that_is_being_written_is_waited_for() {
    let store = store().await;
    let job = store.create_job(&new_job(2), now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    let mut writer = store.pool.begin().await.unwrap();
    apply_all(&mut writer, &[lease(&tasks[1], &job)], now())
        .await
        .unwrap();
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();

    let deleter = store.clone();
    let deletion = tokio::spawn(async move { deleter.begin_deletion(job.id, now()).await });
    let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let look = async || -> i64 {
        let waits = sqlx::query_scalar(waiting).fetch_one(&store.pool).await;
        waits.unwrap()
    };
    Wait::until("the deletion waits, or is over")
        .sees_async(look, |waits| *waits > 0 || deletion.is_finished())
        .await;
    writer.commit().await.unwrap();
    assert_eq!(deletion.await.unwrap().unwrap(), 1, "the stage runs");
}
