//! Jobs: their creation, their status and configuration, and their end.
//!
//! A job's row is the lock of everything that concerns all of its tasks: growth, rerun, adjustment and end take it before any
//! task. They take it `for no key update`, as an update of the row does anyway; that does not stand in the way of the foreign
//! keys of tasks, which take `for key share`.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::types::Json;

use super::PostgresStore;
use super::leadership;
use super::rows::{JobRow, job_columns};
use super::statistics::job_task_counts;
use crate::StateError;
use crate::change::may_adjust;
use parkhang_core::domain::{Adjustment, Epoch, Job, JobId, JobKey, JobStatus, NewJob, VolumeId};
use parkhang_core::policy::job_action::{self, JobAction};

/// SQL condition on a job `j`: nothing of it is left to do, or to be taken back, and its end is not written yet. Of a job that runs, the first
/// task of the index `tasks_open` decides, and of a cancelled one those of `tasks_leased`: asked whether there is none, the planner would read
/// all tasks.
macro_rules! is_over {
    () => {
        "j.finished_at is null and not j.standing and j.status in ('running', 'cancelled') and case j.status
             when 'running' then (
                 select true from tasks t
                 where t.job_id = j.id and t.current_stage <> 'done' and not t.terminal
                 order by t.current_stage limit 1
             )
             else (select true from tasks t where t.job_id = j.id and t.status = 'running' limit 1)
         end is null"
    };
}

/// Number of rows per statement; larger batches were no faster.
const BATCH: usize = 10_000;

/// Number of tasks that one transaction locks. One over all of a large job would hold up the heartbeats of its tasks, and be
/// ended by the server for its pauses.
pub(super) const LOCKED_AT_ONCE: usize = 1_000;

impl PostgresStore {
    /// Creates a job in one transaction for each chunk of so many volumes. The job runs once it has the last of them, unless it was paused
    /// or cancelled meanwhile; one whose creation was cut off stays created, and can be resumed or cancelled.
    ///
    /// # Errors
    ///
    /// [`StateError::JobExists`] if the key is taken, and those of every method.
    pub async fn create_job_in_chunks(
        &self,
        new: &NewJob,
        chunk: usize,
        now: DateTime<Utc>,
    ) -> Result<Job, StateError> {
        let mut chunks = new.volumes.chunks(chunk.max(1));
        let first = chunks.next().unwrap_or_default();
        let job = create_with(&self.pool, new, JobStatus::Created, first, now).await?;
        for volumes in chunks {
            add_volumes(&self.pool, job.id, volumes).await?;
        }
        start(&self.pool, job.id).await
    }
}

/// Lets a job run that has just been made, unless an operator has decided about it meanwhile.
async fn start(pool: &PgPool, id: JobId) -> Result<Job, StateError> {
    let mut transaction = pool.begin().await?;
    let mut job = lock(&mut transaction, id).await?;
    if job.status == JobStatus::Created {
        let status = job_action::after(job.status, JobAction::Resume)?;
        job = set_status(&mut transaction, job, status).await?;
    }
    transaction.commit().await?;
    Ok(job)
}

/// Creates a job that runs at once.
pub(super) async fn create(pool: &PgPool, new: &NewJob, now: DateTime<Utc>) -> Result<Job, StateError> {
    create_with(pool, new, JobStatus::Running, &new.volumes, now).await
}

/// Creates a job with a status and its first volumes.
async fn create_with(
    pool: &PgPool,
    new: &NewJob,
    status: JobStatus,
    volumes: &[VolumeId],
    now: DateTime<Utc>,
) -> Result<Job, StateError> {
    let mut transaction = pool.begin().await?;
    let id = loop {
        match (insert(&mut transaction, new, status, now).await?, &new.key) {
            (Some(id), _) => break id,
            (None, Some(key)) => return Err(StateError::JobExists(key.clone())),
            // An operator named a job `J{id}` by hand; the sequence has moved past it.
            (None, None) => {}
        }
    };
    insert_tasks(&mut transaction, id, volumes).await?;
    let job: JobRow = sqlx::query_as(concat!("select ", job_columns!(), " from jobs j where j.id = $1"))
        .bind(id)
        .fetch_one(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(job.0)
}

/// Takes an existing job up again, see [`StateStore::reopen_job`](crate::StateStore::reopen_job).
pub(super) async fn reopen(pool: &PgPool, new: &NewJob) -> Result<Job, StateError> {
    let stages: Vec<&str> = new.pipeline.stages().iter().map(|stage| stage.as_str()).collect();
    let mut transaction = pool.begin().await?;
    let known: Option<JobRow> = sqlx::query_as(concat!(
        "select ",
        job_columns!(),
        " from jobs j where j.job_key = $1 for no key update"
    ))
    .bind(new.key.as_ref().map(JobKey::as_str))
    .fetch_optional(&mut *transaction)
    .await?;
    let unknown = || StateError::NoSuchJob(new.key.as_ref().map(ToString::to_string).unwrap_or_default());
    let known = known.ok_or_else(unknown)?.0;
    let status = job_action::after(known.status, JobAction::Reopen)?;
    let job: JobRow = sqlx::query_as(concat!(
        "update jobs j
         set operation = $2, pipeline = $3, config = $4, status = $5::job_status, standing = $6, finished_at = null
         where j.id = $1
         returning ",
        job_columns!()
    ))
    .bind(known.id.0)
    .bind(&new.operation)
    .bind(stages)
    .bind(Json(&new.config))
    .bind(status.as_str())
    .bind(new.standing)
    .fetch_one(&mut *transaction)
    .await?;
    insert_tasks(&mut transaction, known.id.0, &new.volumes).await?;
    transaction.commit().await?;
    Ok(job.0)
}

/// Inserts a job; returns its id, or `None` if its key is taken.
async fn insert(
    connection: &mut PgConnection,
    new: &NewJob,
    status: JobStatus,
    now: DateTime<Utc>,
) -> Result<Option<i64>, StateError> {
    let stages: Vec<&str> = new.pipeline.stages().iter().map(|stage| stage.as_str()).collect();
    // The number is drawn first, and once, as the name of a job without a key is made of it.
    let id = sqlx::query_scalar(
        "insert into jobs (id, job_key, operation, pipeline, config, status, standing, created_at)
         select id, coalesce($1, 'J' || id), $2, $3, $4, $6::job_status, $7, $5
         from (select nextval(pg_get_serial_sequence('jobs', 'id')) as id offset 0) as next
         on conflict (job_key) do nothing
         returning id",
    )
    .bind(new.key.as_ref().map(JobKey::as_str))
    .bind(&new.operation)
    .bind(stages)
    .bind(Json(&new.config))
    .bind(now)
    .bind(status.as_str())
    .bind(new.standing)
    .fetch_optional(connection)
    .await?;
    Ok(id)
}

/// Inserts the volumes that are not known yet, in the order of their names, so that two transactions that insert the same ones
/// cannot deadlock.
pub(super) async fn add_names(
    connection: &mut PgConnection,
    volumes: impl IntoIterator<Item = &VolumeId>,
) -> Result<(), StateError> {
    let by_name: Vec<&VolumeId> = volumes.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    for batch in by_name.chunks(BATCH) {
        // The sub-query spares known volumes a number of the sequence each; the conflict is for those that others insert
        // meanwhile.
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
    Ok(())
}

/// Adds tasks for volumes that the job does not have yet, in the order given; returns their number.
pub(super) async fn insert_tasks(
    connection: &mut PgConnection,
    job: i64,
    volumes: &[VolumeId],
) -> Result<u64, StateError> {
    add_names(connection, volumes).await?;
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

/// Returns the job of a key.
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

/// Returns the job of an id.
pub(super) async fn by_id(pool: &PgPool, id: JobId) -> Result<Option<Job>, StateError> {
    let row: Option<JobRow> =
        sqlx::query_as(concat!("select ", job_columns!(), " from jobs j where j.id = $1"))
            .bind(id.0)
            .fetch_optional(pool)
            .await?;
    Ok(row.map(|row| row.0))
}

/// Returns all jobs, in the order of their ids.
pub(super) async fn all(pool: &PgPool) -> Result<Vec<Job>, StateError> {
    let rows: Vec<JobRow> = sqlx::query_as(concat!("select ", job_columns!(), " from jobs j order by j.id"))
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// Returns the jobs that hand out work, in the order of their ids.
pub(super) async fn running(executor: impl PgExecutor<'_>) -> Result<Vec<Arc<Job>>, StateError> {
    let rows: Vec<JobRow> = sqlx::query_as(concat!(
        "select ",
        job_columns!(),
        " from jobs j where j.status = 'running' and j.finished_at is null order by j.id"
    ))
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(|row| Arc::new(row.0)).collect())
}

/// Adds volumes to a job; returns the number of tasks added.
pub(super) async fn add_volumes(pool: &PgPool, id: JobId, volumes: &[VolumeId]) -> Result<u64, StateError> {
    let mut transaction = pool.begin().await?;
    // Otherwise the job might be finished between a look at its last tasks and the insertion of new ones.
    lock(&mut transaction, id).await?;
    let added = insert_tasks(&mut transaction, id.0, volumes).await?;
    transaction.commit().await?;
    Ok(added)
}

/// Locks a job until the end of the transaction and returns it.
pub(super) async fn lock(connection: &mut PgConnection, id: JobId) -> Result<Job, StateError> {
    let row: Option<JobRow> = sqlx::query_as(concat!(
        "select ",
        job_columns!(),
        " from jobs j where j.id = $1 for no key update"
    ))
    .bind(id.0)
    .fetch_optional(connection)
    .await?;
    Ok(row.ok_or_else(|| StateError::NoSuchJob(id.to_string()))?.0)
}

/// Carries an action out on a job, if its status allows it.
pub(super) async fn act(pool: &PgPool, id: JobId, action: JobAction) -> Result<Job, StateError> {
    let mut transaction = pool.begin().await?;
    let job = lock(&mut transaction, id).await?;
    let status = job_action::after(job.status, action)?;
    let job = Job {
        standing: job_action::stands_after(job.standing, action),
        ..job
    };
    let job = set_status(&mut transaction, job, status).await?;
    transaction.commit().await?;
    Ok(job)
}

/// Writes the status of a job and whether it stands, also where it is the same, as the orchestrator then looks at the job's tasks again.
pub(super) async fn set_status(
    connection: &mut PgConnection,
    job: Job,
    status: JobStatus,
) -> Result<Job, StateError> {
    // A job with a new status has work again or has it taken back, so its end is written anew by `finish`.
    let finished_at = job.finished_at.filter(|_| job.status == status);
    sqlx::query("update jobs set status = $2::job_status, finished_at = $3, standing = $4 where id = $1")
        .bind(job.id.0)
        .bind(status.as_str())
        .bind(finished_at)
        .bind(job.standing)
        .execute(connection)
        .await?;
    Ok(Job {
        status,
        finished_at,
        ..job
    })
}

/// Adjusts a job: the tries of its tasks in transactions of moderate size, and the configuration last, so that an adjustment
/// that was cut off is whole once it is repeated.
pub(super) async fn adjust(pool: &PgPool, id: JobId, adjustment: &Adjustment) -> Result<Job, StateError> {
    let job = by_id(pool, id).await?;
    let job = job.ok_or_else(|| StateError::NoSuchJob(id.to_string()))?;
    may_adjust(&job, &job_task_counts(pool, Some(id)).await?, adjustment)?;
    let max_attempts = adjustment.apply(job.config.clone())?.max_attempts;
    let mut last = 0;
    if max_attempts != job.config.max_attempts {
        let tasks: Vec<i64> = sqlx::query_scalar(UNFINISHED)
            .bind(id.0)
            .bind(last)
            .fetch_all(pool)
            .await?;
        for batch in tasks.chunks(LOCKED_AT_ONCE) {
            set_tries(pool, batch, max_attempts).await?;
        }
        last = tasks.last().copied().unwrap_or(last);
    }
    let mut transaction = pool.begin().await?;
    let before = lock(&mut transaction, id).await?;
    // Checked once more: until the job was locked, it could be resumed and another adjustment could be made.
    may_adjust(
        &before,
        &job_task_counts(&mut *transaction, Some(id)).await?,
        adjustment,
    )?;
    let config = adjustment.apply(before.config.clone())?;
    sqlx::query("update jobs set config = $2 where id = $1")
        .bind(id.0)
        .bind(Json(&config))
        .execute(&mut *transaction)
        .await?;
    if max_attempts != job.config.max_attempts {
        // Tasks that were added meanwhile; with the job locked there will be no more of them.
        let added: Vec<i64> = sqlx::query_scalar(UNFINISHED)
            .bind(id.0)
            .bind(last)
            .fetch_all(&mut *transaction)
            .await?;
        set_tries(&mut *transaction, &added, max_attempts).await?;
    }
    transaction.commit().await?;
    Ok(Job { config, ..before })
}

/// Tasks of a job behind one that have not failed for good.
const UNFINISHED: &str = "select id from tasks where job_id = $1 and id > $2 and not terminal order by id";

/// Sets the tries of tasks by the rule of [`tries`](crate::change::retry_limits), here in SQL, as rows need not be read for it.
/// Setting them twice is as good as once.
async fn set_tries(
    executor: impl PgExecutor<'_>,
    tasks: &[i64],
    max_attempts: i32,
) -> Result<(), StateError> {
    // An update locks rows in the order in which its plan meets them; the sub-query locks them in the order of ids first.
    sqlx::query(
        "with held as materialized (
             select id from tasks where id = any($1) and not terminal order by id for update
         )
         update tasks t
         set max_attempts = greatest(t.max_attempts - t.allowance + $2, t.attempts + 1),
             allowance = greatest($2, t.stage_attempts + 1)
         from held
         where t.id = held.id",
    )
    .bind(tasks)
    .bind(max_attempts)
    .execute(executor)
    .await?;
    Ok(())
}

/// Jobs whose end is to be written.
pub(super) const OVER: &str = concat!(
    "select j.id from jobs j where ",
    is_over!(),
    " order by j.id for no key update"
);

/// Writes the end of jobs that have come to it; returns them.
pub(super) async fn finish(
    pool: &PgPool,
    epoch: Option<Epoch>,
    now: DateTime<Utc>,
) -> Result<Vec<Job>, StateError> {
    // Two statements. The first waits for locks of jobs, and sees their tasks as they were before: meanwhile some may have been
    // added or sent back. The second looks at the tasks again, with a snapshot of its own and the jobs locked. Locked jobs are
    // waited for and not skipped: the locks are held for a moment, and a job passed over would stay open until the next full
    // pass.
    let mut transaction = leadership::begin(pool, epoch).await?;
    let candidates: Vec<i64> = sqlx::query_scalar(OVER).fetch_all(&mut *transaction).await?;
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let mut finished: Vec<JobRow> = sqlx::query_as(concat!(
        "update jobs j
         set finished_at = $2, status = case
             when j.status = 'cancelled' then j.status
             when exists (select from tasks t where t.job_id = j.id and t.terminal) then 'failed'
             else 'completed'
         end
         where j.id = any($1) and ",
        is_over!(),
        " returning ",
        job_columns!()
    ))
    .bind(candidates)
    .bind(now)
    .fetch_all(&mut *transaction)
    .await?;
    transaction.commit().await?;
    finished.sort_by_key(|row| row.0.id);
    Ok(finished.into_iter().map(|row| row.0).collect())
}
