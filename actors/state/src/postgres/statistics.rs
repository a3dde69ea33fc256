//! Counts of tasks and sums over runs, from the totals that triggers keep: a few rows for each job, however many tasks it has.

use sqlx::postgres::PgPool;
use sqlx::{PgExecutor, Row};

use super::rows::{JobTaskCountRow, number, stage_name, unreadable, word};
use crate::statistics::RunCounts;
use crate::{JobTaskCount, StageStatistics, StateError};
use parkhang_core::domain::{JobId, StageRunStatus, TaskCount, TaskStatus};

/// Counts the tasks of one job, or of each of all jobs, by position and status.
pub(super) async fn job_task_counts(
    executor: impl PgExecutor<'_>,
    job: Option<JobId>,
) -> Result<Vec<JobTaskCount>, StateError> {
    // Totals are rows of changes, which may cancel each other out: such a place has no tasks and is left out.
    let rows: Vec<JobTaskCountRow> = sqlx::query_as(
        "select job_id, current_stage, status::text as status, terminal, sum(tasks)::bigint as tasks
         from task_counts where $1::bigint is null or job_id = $1
         group by job_id, current_stage, status, terminal having sum(tasks) <> 0",
    )
    .bind(job.map(|job| job.0))
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Counts the tasks of jobs that are not over by position and status.
pub(super) async fn count_tasks(pool: &PgPool) -> Result<Vec<TaskCount>, StateError> {
    let rows = sqlx::query(
        "select c.current_stage, c.status::text as status, sum(c.tasks)::bigint as tasks
         from task_counts c join jobs j on j.id = c.job_id
         where j.finished_at is null and j.status not in ('completed', 'failed', 'cancelled')
         group by c.current_stage, c.status having sum(c.tasks) <> 0",
    )
    .fetch_all(pool)
    .await?;
    rows.iter()
        .map(|row| {
            let position: &str = row.try_get("current_stage")?;
            Ok(TaskCount {
                position: position
                    .parse()
                    .map_err(|error| unreadable("current_stage", error))?,
                status: word(row, &TaskStatus::ALL, TaskStatus::as_str)?,
                tasks: number(row, "tasks")?,
            })
        })
        .collect()
}

/// Sums up the runs of a job by stage: those that have ended from their totals, those that go on as the tasks that run.
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
    let tallies = rows
        .iter()
        .map(|row| {
            Ok(RunCounts {
                stage: stage_name(row, "stage")?,
                status: word(row, &StageRunStatus::ALL, StageRunStatus::as_str)?,
                duration_bucket: row.try_get("duration_bucket")?,
                runs: number(row, "runs")?,
                seconds: row.try_get::<i64, _>("microseconds")? as f64 / 1e6,
                pages: number(row, "pages")?,
            })
        })
        .collect::<sqlx::Result<Vec<RunCounts>>>()?;
    Ok(StageStatistics::of_tallies(tallies))
}

#[cfg(test)]
mod tests;
