//! Backlog that the autoscaler reads, and decisions that it writes.

use sqlx::Row;
use sqlx::postgres::{PgPool, PgRow};

use super::rows::{stage_name, unreadable};
use super::{jobs, leadership};
use crate::StateError;
use crate::backlog::waiting_for;
use parkhang_core::domain::{Epoch, Hardware, JobId, Position, ScalingRecord, TaskStatus};
use parkhang_core::policy::autoscale::StageBacklog;

/// Statements that begin a transaction of one snapshot, in which no table is read from end to end where an index will do: the
/// planner would rather, as long as it believes the table to be in memory.
pub(super) const BY_INDEX: &str = "begin isolation level repeatable read read only; \
     set local enable_seqscan = off; set local enable_bitmapscan = off";

/// Waiting and running tasks of lanes, and the time since which the first of them waits. A lane is a place where tasks of a job
/// wait for a stage, or run it; `wanted` is that stage. Tasks are counted by their totals, and looked up by the partial index
/// `tasks_open`, see [`READY`](super::backlog::READY).
pub(super) const BACKLOG: &str = "select l.job_id, l.wanted, \
         coalesce(sum(c.tasks) filter (where l.status <> 'running'), 0)::bigint as waiting, \
         coalesce(sum(c.tasks) filter (where l.status = 'running'), 0)::bigint as running, \
         min(f.since) as oldest \
     from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) with ordinality \
         as l (job_id, stage, status, wanted, number) \
     cross join lateral ( \
         select sum(t.tasks) as tasks from task_counts t \
         where t.job_id = l.job_id and t.current_stage = l.stage and t.status = l.status::task_status \
             and t.current_stage <> 'done' and not t.terminal \
     ) c \
     left join lateral ( \
         select coalesce( \
             (select max(r.done_at) from stage_runs r where r.task_id = w.id), \
             (select j.created_at from jobs j where j.id = l.job_id) \
         ) as since \
         from ( \
             select t.id from tasks t \
             where t.job_id = l.job_id and t.current_stage = l.stage and t.status = l.status::task_status \
                 and t.current_stage <> 'done' and not t.terminal \
             order by t.id limit 1 \
         ) w \
         where l.status <> 'running' \
     ) f on true \
     group by l.job_id, l.wanted having sum(c.tasks) > 0 order by min(l.number)";

/// Returns the work that running jobs have for their stages.
pub(super) async fn backlog(pool: &PgPool) -> Result<Vec<StageBacklog>, StateError> {
    let (mut ids, mut places, mut statuses, mut wanted) = (vec![], vec![], vec![], vec![]);
    for job in jobs::running(pool).await? {
        for stage in job.pipeline.stages() {
            let running = (Position::At(stage.clone()), TaskStatus::Running);
            for (position, status) in waiting_for(&job.pipeline, stage).into_iter().chain([running]) {
                ids.push(job.id.0);
                places.push(position.as_str().to_owned());
                statuses.push(status.as_str());
                wanted.push(stage.as_str().to_owned());
            }
        }
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut transaction = pool.begin_with(BY_INDEX).await?;
    let rows = sqlx::query(BACKLOG)
        .bind(ids)
        .bind(places)
        .bind(statuses)
        .bind(wanted)
        .fetch_all(&mut *transaction)
        .await?;
    transaction.commit().await?;
    rows.iter()
        .map(|row| {
            Ok(StageBacklog {
                job: JobId(row.try_get("job_id")?),
                stage: stage_name(row, "wanted")?,
                waiting: count(row, "waiting")?,
                running: count(row, "running")?,
                oldest: row.try_get("oldest")?,
            })
        })
        .collect()
}

/// Writes a decision, in the place of the one before it for the same hardware.
pub(super) async fn record(
    pool: &PgPool,
    epoch: Option<Epoch>,
    record: &ScalingRecord,
) -> Result<(), StateError> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut transaction = leadership::begin(pool, epoch).await?;
    sqlx::query(
        "insert into scaling (hardware, decided_at, desired, cap, reason, running, waiting, in_work, oldest, changed_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         on conflict (hardware) do update set decided_at = excluded.decided_at, desired = excluded.desired,
             cap = excluded.cap, reason = excluded.reason, running = excluded.running, waiting = excluded.waiting,
             in_work = excluded.in_work, oldest = excluded.oldest, changed_at = excluded.changed_at",
    )
    .bind(record.hardware.as_str())
    .bind(record.decided_at)
    .bind(i64::from(record.desired))
    .bind(i64::from(record.cap))
    .bind(&record.reason)
    .bind(i64::from(record.running))
    .bind(number(record.waiting))
    .bind(number(record.in_work))
    .bind(record.oldest)
    .bind(record.changed_at)
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(())
}

/// Returns the latest decisions, by hardware.
pub(super) async fn all(pool: &PgPool) -> Result<Vec<ScalingRecord>, StateError> {
    let rows = sqlx::query("select * from scaling order by hardware collate \"C\"")
        .fetch_all(pool)
        .await?;
    rows.iter()
        .map(|row| {
            let workers = |column: &str| -> sqlx::Result<u32> {
                let number: i64 = row.try_get(column)?;
                u32::try_from(number).map_err(|error| unreadable(column, error))
            };
            let hardware: &str = row.try_get("hardware")?;
            let hardware = Hardware::ALL
                .into_iter()
                .find(|known| known.as_str() == hardware)
                .ok_or_else(|| unreadable("hardware", hardware))?;
            Ok(ScalingRecord {
                hardware,
                decided_at: row.try_get("decided_at")?,
                desired: workers("desired")?,
                cap: workers("cap")?,
                reason: row.try_get("reason")?,
                running: workers("running")?,
                waiting: count(row, "waiting")?,
                in_work: count(row, "in_work")?,
                oldest: row.try_get("oldest")?,
                changed_at: row.try_get("changed_at")?,
            })
        })
        .collect()
}

/// Number in a column, 0 where it is negative.
fn count(row: &PgRow, column: &str) -> sqlx::Result<u64> {
    Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or_default())
}
