//! Questions about many tasks at once, for those who watch.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::PgPool;

use super::rows::{stage_name, word};
use crate::domain::{JobId, Position, TaskStatus};
use crate::state::{DURATION_BOUNDS_S, StageStatistics, StateError, TaskCount};

pub(super) async fn ping(pool: &PgPool) -> Result<(), StateError> {
    sqlx::query("select 1").execute(pool).await?;
    Ok(())
}

/// Tasks that are not done, by the indexes `tasks_open` and `tasks_terminal`, without reading the rows of the first.
pub(super) const COUNT_UNFINISHED: &str = "select current_stage, status::text as status, count(*) as tasks from tasks \
         where job_id = any($1) and current_stage <> 'done' and not terminal group by current_stage, status \
     union all \
     select current_stage, status::text as status, count(*) as tasks from tasks \
         where job_id = any($1) and terminal group by current_stage, status";

/// Begins a transaction of one snapshot, in which no table is read from end to end where an index will do: the planner would
/// rather, as long as it believes the table to be in memory.
pub(super) const BY_INDEX: &str = "begin isolation level repeatable read read only; \
     set local enable_seqscan = off; set local enable_bitmapscan = off";

/// Done is what the others leave over of all.
pub(super) async fn count_tasks(pool: &PgPool) -> Result<Vec<TaskCount>, StateError> {
    let mut transaction = pool.begin_with(BY_INDEX).await?;
    let open: Vec<(i64, i64)> = sqlx::query_as(
        "select id, tasks from jobs where finished_at is null and status not in ('completed', 'failed', 'cancelled')",
    )
    .fetch_all(&mut *transaction)
    .await?;
    let jobs: Vec<i64> = open.iter().map(|(id, _)| *id).collect();
    let rows = sqlx::query(COUNT_UNFINISHED)
        .bind(jobs)
        .fetch_all(&mut *transaction)
        .await?;
    transaction.commit().await?;
    let mut counts: BTreeMap<(String, &'static str), TaskCount> = BTreeMap::new();
    let mut done = u64::try_from(open.iter().map(|(_, tasks)| tasks).sum::<i64>()).unwrap_or_default();
    for row in &rows {
        let position: &str = row.try_get("current_stage")?;
        let status = word(row, &TaskStatus::ALL, TaskStatus::as_str)?;
        let tasks = u64::try_from(row.try_get::<i64, _>("tasks")?).unwrap_or_default();
        let known = counts
            .entry((position.to_owned(), status.as_str()))
            .or_insert(TaskCount {
                position: position
                    .parse::<Position>()
                    .map_err(|error| StateError::Corrupt(error.to_string()))?,
                status,
                tasks: 0,
            });
        known.tasks += tasks;
        done = done.saturating_sub(tasks);
    }
    let done = TaskCount {
        position: Position::Done,
        status: TaskStatus::Done,
        tasks: done,
    };
    Ok(counts
        .into_values()
        .chain((done.tasks > 0).then_some(done))
        .collect())
}

/// Pages are those that a run made, not those it found made.
pub(super) async fn stage_statistics(pool: &PgPool, job: JobId) -> Result<Vec<StageStatistics>, StateError> {
    let rows = sqlx::query(
        "with run as (
             select r.stage, r.status, extract(epoch from r.done_at - r.started_at)::float8 as seconds,
                 coalesce((r.metrics ->> 'read')::bigint, 0) + coalesce((r.metrics ->> 'failed')::bigint, 0) as pages
             from stage_runs r join tasks t on t.id = r.task_id
             where t.job_id = $1
         ),
         counted as (
             select stage, width_bucket(seconds, $2) as place, count(*) as runs
             from run where status = 'done' group by stage, place
         )
         select stage,
             count(*) filter (where status = 'running') as running,
             count(*) filter (where status = 'done') as done,
             count(*) filter (where status = 'failed') as failed,
             count(*) filter (where status = 'interrupted') as interrupted,
             percentile_disc(0.5) within group (order by seconds) filter (where status = 'done') as p50,
             percentile_disc(0.95) within group (order by seconds) filter (where status = 'done') as p95,
             coalesce(sum(seconds) filter (where status = 'done'), 0) as seconds,
             coalesce(sum(pages) filter (where status = 'done'), 0)::bigint as pages,
             array(
                 select coalesce(counted.runs, 0)
                 from generate_series(0, cardinality($2)) place
                 left join counted on counted.stage = run.stage and counted.place = place.place
                 order by place.place
             ) as durations
         from run group by stage order by stage collate \"C\"",
    )
    .bind(job.0)
    .bind(DURATION_BOUNDS_S.as_slice())
    .fetch_all(pool)
    .await?;
    rows.iter()
        .map(|row| {
            let durations: Vec<i64> = row.try_get("durations")?;
            let count = |column: &str| -> Result<u64, StateError> {
                Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default())
            };
            Ok(StageStatistics {
                stage: stage_name(row, "stage")?,
                running: count("running")?,
                done: count("done")?,
                failed: count("failed")?,
                interrupted: count("interrupted")?,
                p50_s: row.try_get("p50")?,
                p95_s: row.try_get("p95")?,
                seconds: row.try_get("seconds")?,
                durations: durations
                    .into_iter()
                    .filter_map(|runs| u64::try_from(runs).ok())
                    .collect(),
                pages: count("pages")?,
            })
        })
        .collect()
}

/// The server's clock, which goes on within a transaction too.
pub(super) async fn now(pool: &PgPool) -> Result<DateTime<Utc>, StateError> {
    Ok(sqlx::query_scalar("select clock_timestamp()")
        .fetch_one(pool)
        .await?)
}
