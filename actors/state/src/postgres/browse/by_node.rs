//! Work of one node, by the index `stage_runs_by_node`: it costs what the node has done since its process began, however much
//! others did.

use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Row};

use super::paces::{LATELY, pace};
use crate::postgres::PostgresStore;
use crate::postgres::rows::{TaskRow, number, stage_name, task_columns, unreadable, word};
use crate::statistics::RunCounts;
use crate::{Pace, StageStatistics, StateError, TaskListing, TaskQuery};
use parkhang_core::domain::{Job, JobId, JobKey, StageRunStatus, Task, TaskStatus};

/// Runs of a node by stage, status and duration. The job of a run is looked up run by run, for the server not to read all tasks
/// instead.
pub(super) const RUNS: &str = "select r.stage, r.status::text as status, \
         coalesce(duration_bucket(r.done_at - r.started_at), 0::smallint) as duration_bucket, count(*) as runs, \
         coalesce(sum(extract(epoch from r.done_at - r.started_at)), 0)::float8 as seconds, \
         sum(metric(r.metrics, 'read') + metric(r.metrics, 'failed'))::bigint as pages \
     from stage_runs r \
     where split_part(r.worker_id, '/', 1) = $1 \
         and ($2::bigint is null or (select t.job_id from tasks t where t.id = r.task_id) = $2) \
     group by 1, 2, 3";

/// Runs of a node that ended after a time, by stage.
pub(super) const LATEST: &str = "select r.stage, count(*) as runs, \
         sum(metric(r.metrics, 'read') + metric(r.metrics, 'failed'))::bigint as pages, min(r.started_at) as since, \
         max(r.done_at) as until \
     from stage_runs r \
     where split_part(r.worker_id, '/', 1) = $1 and r.status = 'done' and r.done_at > $2 \
     group by r.stage";

/// Tasks that a node holds leases of, by the partial index `tasks_leased`.
pub(super) const HOLDS: &str = concat!(
    "select ",
    task_columns!(),
    ", j.job_key from tasks t join volumes v on v.id = t.volume_id join jobs j on j.id = t.job_id \
     where t.status = 'running' and split_part(t.worker_id, '/', 1) = $1 order by t.id"
);

/// Tasks of a job of which a node has run a stage.
pub(super) const WORKED_ON: &str = concat!(
    "select ",
    task_columns!(),
    " from ( \
         select distinct r.task_id from stage_runs r where split_part(r.worker_id, '/', 1) = $4 and r.task_id > $2 \
     ) w \
     cross join lateral (select * from tasks where id = w.task_id offset 0) t \
     join volumes v on v.id = t.volume_id \
     where t.job_id = $1 and ($5::text is null or (t.current_stage = $5 and t.status <> 'done') \
         or (t.current_stage = $7 and t.status = $8::task_status)) and ($6::text[] is null or case \
         when t.current_stage = 'done' then 'done' when t.terminal then 'failed' when t.status = 'failed' then 'retrying' \
         when t.status = 'running' then 'running' else 'waiting' end = any($6)) \
     order by t.id limit $3"
);

impl PostgresStore {
    /// Returns statistics of the runs of a node, or of those that belong to one job.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn node_statistics(
        &self,
        node: &str,
        job: Option<JobId>,
    ) -> Result<Vec<StageStatistics>, StateError> {
        let rows = sqlx::query(RUNS)
            .bind(node)
            .bind(job.map(|job| job.0))
            .fetch_all(&self.pool)
            .await?;
        let tallies: sqlx::Result<Vec<RunCounts>> = rows.iter().map(counts).collect();
        Ok(StageStatistics::of_tallies(tallies?))
    }

    /// Returns the paces of the stages of a node in the last ten minutes: over the time from the beginning of the first run that
    /// ended in them to the end of the last one, so that a node that has nothing more to do is as fast as it was. If a run began
    /// before them, other runs of that time are not known, and the pace is that of the whole ten minutes.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn node_paces(&self, node: &str, now: DateTime<Utc>) -> Result<Vec<Pace>, StateError> {
        let rows = sqlx::query(LATEST)
            .bind(node)
            .bind(now - LATELY)
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| {
                let since: DateTime<Utc> = row.try_get("since")?;
                let until = if since < now - LATELY {
                    now
                } else {
                    row.try_get("until")?
                };
                pace(row, until)
            })
            .collect()
    }

    /// Returns the tasks that workers of a node hold leases of, with the names of their jobs.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn held_by(&self, node: &str) -> Result<Vec<(JobKey, Task)>, StateError> {
        let rows = sqlx::query(HOLDS).bind(node).fetch_all(&self.pool).await?;
        rows.iter()
            .map(|row| {
                let key: &str = row.try_get("job_key")?;
                let key = JobKey::new(key).map_err(|error| unreadable("job_key", error))?;
                Ok((key, TaskRow::from_row(row)?.0))
            })
            .collect()
    }

    /// Returns a page of the tasks of a job of which workers of a node have run a stage.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn tasks_of_node(
        &self,
        job: &Job,
        node: &str,
        query: &TaskQuery,
    ) -> Result<TaskListing, StateError> {
        let waiting = query
            .stage
            .as_ref()
            .and_then(|stage| stage.waiting(&job.pipeline));
        let (position, status) = waiting.unzip();
        let phases: Option<Vec<&str>> = query.phase.map(|phase| {
            phase
                .of_tasks(job.status)
                .iter()
                .map(|phase| phase.as_str())
                .collect()
        });
        let rows: Vec<TaskRow> = sqlx::query_as(WORKED_ON)
            .bind(job.id.0)
            .bind(query.after.map_or(0, |task| task.0))
            .bind(i64::from(query.limit) + 1)
            .bind(node)
            .bind(query.stage.as_ref().map(|stage| stage.name().as_str()))
            .bind(phases)
            .bind(position.map(|position| position.as_str().to_owned()))
            .bind(status.map(TaskStatus::as_str))
            .fetch_all(&self.pool)
            .await?;
        let tasks = rows.into_iter().map(|row| row.0).collect();
        Ok(TaskListing::of(tasks, query.limit))
    }
}

/// Counts of a row of [`RUNS`].
fn counts(row: &PgRow) -> sqlx::Result<RunCounts> {
    Ok(RunCounts {
        stage: stage_name(row, "stage")?,
        status: word(row, &StageRunStatus::ALL, StageRunStatus::as_str)?,
        duration_bucket: row.try_get("duration_bucket")?,
        runs: number(row, "runs")?,
        seconds: row.try_get("seconds")?,
        pages: number(row, "pages")?,
    })
}

#[cfg(test)]
mod tests;
