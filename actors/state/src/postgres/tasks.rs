//! Single tasks, their history and results, and the renewal of their leases.

use std::collections::HashMap;

use sqlx::Row;
use sqlx::postgres::{PgExecutor, PgPool};

use super::leadership::hold_epoch;
use super::rows::{Fences, StageRunRow, TaskRow, VolumeResultsRow, stage_name, task_columns};
use crate::StateError;
use chrono::{DateTime, Utc};
use parkhang_core::domain::{
    Attempt, Epoch, Fence, Generation, JobId, LeaseStatus, StageRun, Task, TaskId, VolumeResults,
};
use parkhang_core::policy::poison::ADVANCE;

/// Returns the tasks of a job, in the order of their ids.
pub(super) async fn of_job(pool: &PgPool, job: JobId) -> Result<Vec<Task>, StateError> {
    let rows: Vec<TaskRow> = sqlx::query_as(concat!(
        "select ",
        task_columns!(),
        " from tasks t join volumes v on v.id = t.volume_id where t.job_id = $1 order by t.id"
    ))
    .bind(job.0)
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Returns tasks by their ids, in task order.
pub(super) async fn by_ids(executor: impl PgExecutor<'_>, ids: &[i64]) -> Result<Vec<Task>, StateError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<TaskRow> = sqlx::query_as(concat!(
        "select ",
        task_columns!(),
        " from tasks t join volumes v on v.id = t.volume_id where t.id = any($1) order by t.id"
    ))
    .bind(ids)
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Moves the deadlines of leases that are in force and wanted; returns the state of each lease, in the order of the fences.
pub(super) async fn renew(
    pool: &PgPool,
    epoch: Option<Epoch>,
    fences: &[Fence],
    until: DateTime<Utc>,
) -> Result<Vec<LeaseStatus>, StateError> {
    if fences.is_empty() {
        return Ok(Vec::new());
    }
    let renewed = Fences::of(fences.iter());
    // Does not wait for the disk: a heartbeat lost in a crash of the server costs at most a lease.
    let mut transaction = pool
        .begin_with("begin; set local synchronous_commit = off")
        .await?;
    // Beats are grouped, as an update takes one of several rows that match; rows are locked in the order of ids, as a plain
    // update locks them in the order of its plan; a deadline never moves back, as beats may overtake each other. Locks are
    // waited for and not skipped: a commit holds them for a moment, and a beat passed over would look like a lost lease. The epoch is held
    // by the same statement, as there are more heartbeats than anything else.
    let rows = sqlx::query(
        "with leads as materialized (
             select from leadership where epoch = $6 for share
         ), renewal as (
             select distinct id, stage, attempt, generation
             from unnest($1::bigint[], $2::text[], $3::int[], $4::bigint[]) as r (id, stage, attempt, generation)
         ), held as materialized (
             select t.id, case when j.status <> 'cancelled' then $5::timestamptz end as until
             from tasks t
             join jobs j on j.id = t.job_id
             join renewal r on t.id = r.id and t.current_stage = r.stage and t.attempts + 1 = r.attempt
                 and t.generation = r.generation
             where t.status = 'running' and ($6::bigint is null or exists (select from leads))
             order by t.id
             for update of t
         )
         update tasks t
         set lease_until = greatest(t.lease_until, held.until)
         from held
         where t.id = held.id
         returning t.id, t.current_stage, t.attempts + 1 as attempt, t.generation, held.until is not null as renewed",
    )
    .bind(renewed.tasks)
    .bind(renewed.stages)
    .bind(renewed.attempts)
    .bind(renewed.generations)
    .bind(until)
    .bind(epoch.map(|epoch| epoch.0))
    .fetch_all(&mut *transaction)
    .await?;
    if rows.is_empty() {
        // All of them are lost, or it is not for this leader to say.
        hold_epoch(&mut transaction, epoch).await?;
    }
    transaction.commit().await?;

    let mut statuses = HashMap::with_capacity(rows.len());
    for row in &rows {
        let fence = Fence {
            task: TaskId(row.try_get("id")?),
            stage: stage_name(row, "current_stage")?,
            attempt: Attempt(row.try_get("attempt")?),
            generation: Generation(row.try_get("generation")?),
        };
        let status = if row.try_get("renewed")? {
            LeaseStatus::Held
        } else {
            LeaseStatus::Cancelled
        };
        statuses.insert(fence, status);
    }
    Ok(fences
        .iter()
        .map(|fence| statuses.get(fence).copied().unwrap_or(LeaseStatus::Lost))
        .collect())
}

/// Ends the row of losses of the tasks that have got on. Of most leases nothing is written: their volumes have no losses.
pub(super) async fn note_progress(
    pool: &PgPool,
    epoch: Option<Epoch>,
    finished: &[(Fence, i32)],
) -> Result<(), StateError> {
    if finished.is_empty() {
        return Ok(());
    }
    let leases = Fences::of(finished.iter().map(|(fence, _)| fence));
    // The rule is that of `poison::got_on`. One statement, as it comes with each heartbeat and seldom finds anything.
    sqlx::query(
        "with leads as materialized (
             select from leadership where epoch = $7 for share
         ), held as materialized (
             select t.id, n.pages
             from tasks t
             join unnest($1::bigint[], $2::text[], $3::int[], $4::bigint[], $5::int[])
                 as n (id, stage, attempt, generation, pages)
                 on t.id = n.id and t.current_stage = n.stage and t.attempts + 1 = n.attempt
                 and t.generation = n.generation
             where t.status = 'running' and (t.interruptions > 0 or t.pages_done > 0)
                 and ($7::bigint is null or exists (select from leads))
                 and n.pages >= t.pages_done::bigint + $6
             order by t.id
             for update of t
         )
         update tasks t set pages_done = held.pages, interruptions = 0 from held where t.id = held.id",
    )
    .bind(leases.tasks)
    .bind(leases.stages)
    .bind(leases.attempts)
    .bind(leases.generations)
    .bind(finished.iter().map(|(_, pages)| *pages).collect::<Vec<_>>())
    .bind(ADVANCE)
    .bind(epoch.map(|epoch| epoch.0))
    .execute(pool)
    .await?;
    Ok(())
}

/// Returns the history of a task, in the order in which its leases began.
pub(super) async fn stage_runs(pool: &PgPool, task: TaskId) -> Result<Vec<StageRun>, StateError> {
    let rows: Vec<StageRunRow> = sqlx::query_as(
        "select task_id, stage, attempt, generation, status::text as status, worker_id, started_at, done_at, error,
             metrics, fingerprint
         from stage_runs where task_id = $1 order by id",
    )
    .bind(task.0)
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Returns the results of a task.
pub(super) async fn volume_results(pool: &PgPool, task: TaskId) -> Result<Option<VolumeResults>, StateError> {
    let row: Option<VolumeResultsRow> = sqlx::query_as("select * from volume_results where task_id = $1")
        .bind(task.0)
        .fetch_optional(pool)
        .await?;
    Ok(row.map(|row| row.0))
}
