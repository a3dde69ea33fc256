//! Deletion of jobs. Rows are deleted in transactions of moderate size, the job last: a deletion that was cut off goes on when
//! it is asked for again, and meanwhile nothing else can be done to the job.

use chrono::{DateTime, Utc};

use super::PostgresStore;
use super::jobs::lock;
use super::rows::{TaskRow, task_columns};
use crate::StateError;
use parkhang_core::domain::{Job, JobId, Task, TaskId};
use parkhang_core::policy::job_action::{self, JobAction};

/// First tasks of a job, by the index `tasks_by_job`.
const FIRST: &str = concat!(
    "select ",
    task_columns!(),
    " from tasks t join volumes v on v.id = t.volume_id where t.job_id = $1 order by t.id limit $2"
);

impl PostgresStore {
    /// Closes a job that is to be deleted, so that nothing else can be done to it; returns the number of its stages that still
    /// run. While there are any, the job stays as it is.
    ///
    /// # Errors
    ///
    /// [`StateError::NoSuchJob`], [`StateError::Forbidden`] if the job's status does not allow it, and those of every method.
    pub async fn begin_deletion(&self, id: JobId, now: DateTime<Utc>) -> Result<u64, StateError> {
        let mut transaction = self.pool.begin().await?;
        let job = lock(&mut transaction, id).await?;
        let status = job_action::after(job.status, JobAction::Delete)?;
        // A lease that is being written waits for these locks and then finds the job closed, or is waited for and counts.
        let running: i64 = sqlx::query_scalar(
            "with held as materialized (
                 select status from tasks where job_id = $1 and current_stage <> 'done' and not terminal
                 order by id for share
             )
             select count(*) from held where status = 'running'",
        )
        .bind(id.0)
        .fetch_one(&mut *transaction)
        .await?;
        if running == 0 {
            sqlx::query(
                "update jobs set status = $2::job_status, standing = false, finished_at = coalesce(finished_at, $3)
                 where id = $1",
            )
            .bind(id.0)
            .bind(status.as_str())
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(u64::try_from(running).unwrap_or(0))
    }

    /// Returns the first tasks of a job, in task order.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn first_tasks(&self, id: JobId, limit: u32) -> Result<Vec<Task>, StateError> {
        let rows: Vec<TaskRow> = sqlx::query_as(FIRST)
            .bind(id.0)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Deletes tasks of a job with their history and results.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn delete_tasks(&self, job: JobId, tasks: &[TaskId]) -> Result<(), StateError> {
        let ids: Vec<i64> = tasks.iter().map(|task| task.0).collect();
        let mut transaction = self.pool.begin().await?;
        // Locked in the order of ids, as a commit locks them, so that the two cannot deadlock.
        let ids: Vec<i64> = sqlx::query_scalar(
            "select id from tasks where id = any($1) and job_id = $2 order by id for update",
        )
        .bind(ids)
        .bind(job.0)
        .fetch_all(&mut *transaction)
        .await?;
        // The rows below the tasks first, with one statement for each table: by the cascade of its foreign keys the database
        // would delete them task by task.
        for statement in [
            "delete from stage_runs where task_id = any($1)",
            "delete from volume_results where task_id = any($1)",
            "delete from inbox where task_id = any($1)",
            "delete from service_submits where task_id = any($1)",
            "delete from service_jobs where task_id = any($1)",
            "delete from expenses where task_id = any($1)",
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

    /// Deletes a job with its totals, once its tasks are gone. One that is not closed any more stays.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn finish_deletion(&self, job: &Job) -> Result<(), StateError> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("delete from jobs where id = $1 and status = 'cancelled'")
            .bind(job.id.0)
            .execute(&mut *transaction)
            .await?;
        // Totals go only if the job has gone: while it stays, they count tasks that may be added to it.
        for statement in [
            "delete from task_counts where job_id = $1 and not exists (select from jobs where id = $1)",
            "delete from run_counts where job_id = $1 and not exists (select from jobs where id = $1)",
            "delete from failed_page_counts where job_id = $1 and not exists (select from jobs where id = $1)",
            "delete from quality_counts where job_id = $1 and not exists (select from jobs where id = $1)",
        ] {
            sqlx::query(statement)
                .bind(job.id.0)
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
