use std::collections::{BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::types::Json;

use super::rows::{JobRow, job_columns};
use crate::domain::{Job, JobId, JobKey, JobStatus, NewJob, VolumeId};
use crate::state::StateError;

/// Rows per statement; larger batches were no faster.
const BATCH: usize = 10_000;

pub(super) async fn create(pool: &PgPool, new: &NewJob, now: DateTime<Utc>) -> Result<Job, StateError> {
    let mut transaction = pool.begin().await?;
    let id = loop {
        match (insert(&mut transaction, new, now).await?, &new.key) {
            (Some(id), _) => break id,
            (None, Some(key)) => return Err(StateError::JobExists(key.clone())),
            // Somebody named a job `J{id}` by hand; the sequence has moved past it.
            (None, None) => {}
        }
    };
    insert_tasks(&mut transaction, id, &new.volumes).await?;
    let job: JobRow = sqlx::query_as(concat!("select ", job_columns!(), " from jobs j where j.id = $1"))
        .bind(id)
        .fetch_one(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(job.0)
}

pub(super) async fn reopen(pool: &PgPool, new: &NewJob) -> Result<Job, StateError> {
    let stages: Vec<&str> = new.pipeline.stages().iter().map(|stage| stage.as_str()).collect();
    let mut transaction = pool.begin().await?;
    let job: Option<JobRow> = sqlx::query_as(concat!(
        "update jobs j
         set operation = $2, pipeline = $3, config = $4, max_attempts = $5, status = 'running', finished_at = null
         where j.job_key = $1
         returning ",
        job_columns!()
    ))
    .bind(new.key.as_ref().map(JobKey::as_str))
    .bind(&new.operation)
    .bind(stages)
    .bind(Json(&new.config))
    .bind(new.max_attempts)
    .fetch_optional(&mut *transaction)
    .await?;
    let unknown = || StateError::NoSuchJob(new.key.as_ref().map(ToString::to_string).unwrap_or_default());
    let job = job.ok_or_else(unknown)?.0;
    insert_tasks(&mut transaction, job.id.0, &new.volumes).await?;
    transaction.commit().await?;
    Ok(job)
}

/// The id of the job, or `None` if its key is taken.
async fn insert(
    connection: &mut PgConnection,
    new: &NewJob,
    now: DateTime<Utc>,
) -> Result<Option<i64>, StateError> {
    let stages: Vec<&str> = new.pipeline.stages().iter().map(|stage| stage.as_str()).collect();
    let id = sqlx::query_scalar(
        "insert into jobs (id, job_key, operation, pipeline, config, max_attempts, status, created_at)
         select id, coalesce($1, 'J' || id), $2, $3, $4, $5, 'running', $6
         from (select nextval(pg_get_serial_sequence('jobs', 'id')) as id offset 0) as next
         on conflict (job_key) do nothing
         returning id",
    )
    .bind(new.key.as_ref().map(JobKey::as_str))
    .bind(&new.operation)
    .bind(stages)
    .bind(Json(&new.config))
    .bind(new.max_attempts)
    .bind(now)
    .fetch_optional(connection)
    .await?;
    Ok(id)
}

/// Adds what the job does not have yet, in the order given; returns how many. Volumes are inserted in the order of their
/// names, so that two jobs over the same volumes cannot deadlock.
async fn insert_tasks(
    connection: &mut PgConnection,
    job: i64,
    volumes: &[VolumeId],
) -> Result<u64, StateError> {
    let by_name: Vec<&VolumeId> = volumes.iter().collect::<BTreeSet<_>>().into_iter().collect();
    for batch in by_name.chunks(BATCH) {
        sqlx::query(
            "insert into volumes (bdrc_w_id, bdrc_i_id)
             select w_id, i_id from unnest($1::text[], $2::text[]) as n (w_id, i_id)
             where not exists (
                 select from volumes v where v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id
             )
             on conflict do nothing",
        )
        .bind(batch.iter().map(|volume| volume.w_id()).collect::<Vec<_>>())
        .bind(batch.iter().map(|volume| volume.i_id()).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await?;
    }
    let mut seen = HashSet::new();
    let in_order: Vec<&VolumeId> = volumes.iter().filter(|volume| seen.insert(*volume)).collect();
    let mut added = 0;
    for batch in in_order.chunks(BATCH) {
        added += sqlx::query(
            "insert into tasks (job_id, volume_id, max_attempts, allowance)
             select j.id, v.id, j.max_attempts, j.max_attempts
             from unnest($2::text[], $3::text[]) with ordinality as n (w_id, i_id, position)
             join volumes v on v.bdrc_w_id = n.w_id and v.bdrc_i_id = n.i_id
             join jobs j on j.id = $1
             order by n.position
             on conflict (job_id, volume_id) do nothing",
        )
        .bind(job)
        .bind(batch.iter().map(|volume| volume.w_id()).collect::<Vec<_>>())
        .bind(batch.iter().map(|volume| volume.i_id()).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await?
        .rows_affected();
    }
    Ok(added)
}

pub(super) async fn by_key(pool: &PgPool, key: &JobKey) -> Result<Option<Job>, StateError> {
    let row: Option<JobRow> = sqlx::query_as(concat!(
        "select ",
        job_columns!(),
        " from jobs j where j.job_key = $1"
    ))
    .bind(key.as_str())
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| row.0))
}

pub(super) async fn by_id(pool: &PgPool, id: JobId) -> Result<Option<Job>, StateError> {
    let row: Option<JobRow> =
        sqlx::query_as(concat!("select ", job_columns!(), " from jobs j where j.id = $1"))
            .bind(id.0)
            .fetch_optional(pool)
            .await?;
    Ok(row.map(|row| row.0))
}

/// Locks the job, so that it is not settled between the look at its tasks and their growth.
pub(super) async fn add_volumes(pool: &PgPool, id: JobId, volumes: &[VolumeId]) -> Result<u64, StateError> {
    let mut transaction = pool.begin().await?;
    let known: Option<i64> = sqlx::query_scalar("select id from jobs where id = $1 for no key update")
        .bind(id.0)
        .fetch_optional(&mut *transaction)
        .await?;
    if known.is_none() {
        return Err(StateError::NoSuchJob(id.to_string()));
    }
    let added = insert_tasks(&mut transaction, id.0, volumes).await?;
    transaction.commit().await?;
    Ok(added)
}

pub(super) async fn set_status(
    pool: &PgPool,
    id: JobId,
    status: JobStatus,
    now: DateTime<Utc>,
) -> Result<(), StateError> {
    let touched = sqlx::query(
        "update jobs
         set status = $2::job_status, finished_at = case when status::text = $2 then finished_at else $3 end
         where id = $1",
    )
    .bind(id.0)
    .bind(status.as_str())
    .bind(status.is_final().then_some(now))
    .execute(pool)
    .await?
    .rows_affected();
    if touched == 0 {
        return Err(StateError::NoSuchJob(id.to_string()));
    }
    Ok(())
}

/// In two statements: the second looks at the tasks again once the jobs are locked, as tasks may have been added while
/// the first waited.
pub(super) async fn settle(pool: &PgPool, now: DateTime<Utc>) -> Result<Vec<Job>, StateError> {
    let mut transaction = pool.begin().await?;
    let candidates: Vec<i64> = sqlx::query_scalar(
        "select j.id
         from jobs j
         where j.status = 'running' and not exists (
             select from tasks t where t.job_id = j.id and t.current_stage <> 'done' and not t.terminal
         )
         order by j.id
         for no key update",
    )
    .fetch_all(&mut *transaction)
    .await?;
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let mut settled: Vec<JobRow> = sqlx::query_as(concat!(
        "update jobs j
         set finished_at = $2, status = case
             when exists (select from tasks t where t.job_id = j.id and t.terminal) then 'failed'::job_status
             else 'completed'
         end
         where j.id = any($1) and j.status = 'running' and not exists (
             select from tasks t where t.job_id = j.id and t.current_stage <> 'done' and not t.terminal
         )
         returning ",
        job_columns!()
    ))
    .bind(candidates)
    .bind(now)
    .fetch_all(&mut *transaction)
    .await?;
    transaction.commit().await?;
    settled.sort_by_key(|row| row.0.id);
    Ok(settled.into_iter().map(|row| row.0).collect())
}
