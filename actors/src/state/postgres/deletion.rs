//! Jobs that go. Their rows are deleted in transactions of moderate size, the job last: a deletion that was cut off goes on when it
//! is asked for again, and meanwhile nothing else can be done to the job.

use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;

use super::jobs::lock;
use super::rows::{TaskRow, task_columns};
use super::tasks;
use crate::domain::{Job, JobId, Task, TaskId, TaskStatus};
use crate::policy::job_action::{self, JobAction};
use crate::state::StateError;

/// By the index `tasks_by_job`.
const FIRST: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id where t.job_id = $1 order by t.id limit $2"
);

/// Closes the job for good, unless its status forbids it; says how many of its stages still run.
pub(super) async fn begin(pool: &PgPool, id: JobId, now: DateTime<Utc>) -> Result<u64, StateError> {
    let mut transaction = pool.begin().await?;
    let job = lock(&mut transaction, id).await?;
    let status = job_action::after(job.status, JobAction::Delete)?;
    let counts = tasks::counts(&mut *transaction, Some(id)).await?;
    let running = counts.iter().filter(|count| count.status == TaskStatus::Running);
    let running: u64 = running.map(|count| count.tasks).sum();
    if running == 0 {
        sqlx::query(
            "update jobs set status = $2::job_status, finished_at = coalesce(finished_at, $3) where id = $1",
        )
        .bind(id.0)
        .bind(status.as_str())
        .bind(now)
        .execute(&mut *transaction)
        .await?;
    }
    transaction.commit().await?;
    Ok(running)
}

/// The first tasks that are left.
pub(super) async fn first(pool: &PgPool, id: JobId, limit: u32) -> Result<Vec<Task>, StateError> {
    let rows: Vec<TaskRow> = sqlx::query_as(FIRST)
        .bind(id.0)
        .bind(i64::from(limit))
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// What is below the tasks goes first, as one statement each; the database would take it task by task.
pub(super) async fn delete_tasks(pool: &PgPool, job: JobId, tasks: &[TaskId]) -> Result<(), StateError> {
    let ids: Vec<i64> = tasks.iter().map(|task| task.0).collect();
    let mut transaction = pool.begin().await?;
    let ids: Vec<i64> =
        sqlx::query_scalar("select id from tasks where id = any($1) and job_id = $2 order by id for update")
            .bind(ids)
            .bind(job.0)
            .fetch_all(&mut *transaction)
            .await?;
    for statement in [
        "delete from stage_runs where task_id = any($1)",
        "delete from volume_results where task_id = any($1)",
        "delete from tasks where id = any($1)",
    ] {
        sqlx::query(statement)
            .bind(&ids)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// The job itself, with its totals, once its tasks are gone and as long as it is closed.
pub(super) async fn finish(pool: &PgPool, job: &Job) -> Result<(), StateError> {
    let mut transaction = pool.begin().await?;
    sqlx::query("delete from jobs where id = $1 and status = 'cancelled'")
        .bind(job.id.0)
        .execute(&mut *transaction)
        .await?;
    for statement in [
        "delete from task_counts where job_id = $1 and not exists (select from jobs where id = $1)",
        "delete from run_counts where job_id = $1 and not exists (select from jobs where id = $1)",
        "delete from failed_page_counts where job_id = $1 and not exists (select from jobs where id = $1)",
    ] {
        sqlx::query(statement)
            .bind(job.id.0)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}

#[cfg(test)]
mod tests;
