//! Questions about many tasks at once, for those who watch.

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::{PgPool, PgRow};

use super::rows::{stage_name, unreadable, word};
use crate::domain::{JobId, StageRunStatus, TaskCount, TaskStatus};
use crate::state::statistics::RunTally;
use crate::state::{StageStatistics, StateError};

pub(super) async fn ping(pool: &PgPool) -> Result<(), StateError> {
    sqlx::query("select 1").execute(pool).await?;
    Ok(())
}

pub(super) async fn count_tasks(pool: &PgPool) -> Result<Vec<TaskCount>, StateError> {
    let rows = sqlx::query(
        "select c.current_stage, c.status::text as status, sum(c.tasks)::bigint as tasks
         from task_counts c join jobs j on j.id = c.job_id
         where j.finished_at is null and j.status not in ('completed', 'failed', 'cancelled')
         group by c.current_stage, c.status having sum(c.tasks) <> 0",
    )
    .fetch_all(pool)
    .await?;
    let counts = rows.iter().map(|row| {
        let position: &str = row.try_get("current_stage")?;
        Ok(TaskCount {
            position: position
                .parse()
                .map_err(|error| unreadable("current_stage", error))?,
            status: word(row, &TaskStatus::ALL, TaskStatus::as_str)?,
            tasks: number(row, "tasks")?,
        })
    });
    counts.collect()
}

/// Runs that have ended from their totals; those that go on are the tasks that run.
pub(super) async fn stage_statistics(pool: &PgPool, job: JobId) -> Result<Vec<StageStatistics>, StateError> {
    let rows = sqlx::query(
        "select stage, status::text as status, duration_bucket, sum(runs)::bigint as runs,
             sum(microseconds)::bigint as microseconds, sum(pages)::bigint as pages
         from run_counts where job_id = $1
         group by stage, status, duration_bucket having sum(runs) <> 0
         union all
         select current_stage, status::text, 0::smallint, sum(tasks)::bigint, 0, 0
         from task_counts where job_id = $1 and status = 'running'
         group by current_stage, status having sum(tasks) <> 0",
    )
    .bind(job.0)
    .fetch_all(pool)
    .await?;
    let tallies = rows.iter().map(|row| {
        Ok(RunTally {
            stage: stage_name(row, "stage")?,
            status: word(row, &StageRunStatus::ALL, StageRunStatus::as_str)?,
            duration_bucket: row.try_get("duration_bucket")?,
            runs: number(row, "runs")?,
            seconds: row.try_get::<i64, _>("microseconds")? as f64 / 1e6,
            pages: number(row, "pages")?,
        })
    });
    let tallies: sqlx::Result<Vec<RunTally>> = tallies.collect();
    Ok(StageStatistics::of_tallies(tallies?))
}

pub(super) fn number(row: &PgRow, column: &str) -> sqlx::Result<u64> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|error| unreadable(column, error))
}

/// The server's clock, which goes on within a transaction too.
pub(super) async fn now(pool: &PgPool) -> Result<DateTime<Utc>, StateError> {
    Ok(sqlx::query_scalar("select clock_timestamp()")
        .fetch_one(pool)
        .await?)
}

#[cfg(test)]
mod tests;
