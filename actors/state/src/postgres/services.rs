//! Services that do stages, in the database.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Row};

use super::rows::{TaskRow, stage_name, storable_text, task_columns};
use super::{PostgresStore, leadership};
use crate::{ServiceStore, StateError};
use parkhang_core::domain::{
    Attempt, Fence, Generation, ServiceJob, ServiceLease, ServiceRecord, TaskId, WorkerId,
};

/// Leases of a service, by the partial index `tasks_of_services`.
const LEASES: &str = concat!(
    "select ",
    task_columns!(),
    ", s.job from tasks t join volumes v on v.id = t.volume_id \
     left join service_jobs s on s.task_id = t.id and s.stage = t.current_stage and s.attempt = t.attempts + 1 \
         and s.generation = t.generation \
     where t.status = 'running' and t.worker_id like 'service:%' and t.worker_id = $1 and t.id > $2 \
         and (s.job is null or t.started_at <= $3) \
     order by t.id limit $4"
);

#[async_trait]
impl ServiceStore for PostgresStore {
    async fn record_service_job(&self, job: &ServiceJob) -> Result<bool, StateError> {
        let fence = &job.fence;
        let mut transaction = leadership::begin(&self.pool, self.epoch).await?;
        // Locked, so that the lease does not end between the look and the write.
        let held: Option<i64> = sqlx::query_scalar(
            "select id from tasks where id = $1 and status = 'running' and current_stage = $2 and attempts + 1 = $3
                 and generation = $4 and worker_id like 'service:%' for share",
        )
        .bind(fence.task.0)
        .bind(fence.stage.as_str())
        .bind(fence.attempt.0)
        .bind(fence.generation.0)
        .fetch_optional(&mut *transaction)
        .await?;
        if held.is_none() {
            return Ok(false);
        }
        sqlx::query(
            "insert into service_jobs (task_id, stage, attempt, generation, job, submitted_at)
             values ($1, $2, $3, $4, $5, $6) on conflict do nothing",
        )
        .bind(fence.task.0)
        .bind(fence.stage.as_str())
        .bind(fence.attempt.0)
        .bind(fence.generation.0)
        .bind(storable_text(&job.job))
        .bind(job.submitted_at)
        .execute(&mut *transaction)
        .await?;
        let known: String = sqlx::query_scalar(
            "select job from service_jobs where task_id = $1 and stage = $2 and attempt = $3 and generation = $4",
        )
        .bind(fence.task.0)
        .bind(fence.stage.as_str())
        .bind(fence.attempt.0)
        .bind(fence.generation.0)
        .fetch_one(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(known == job.job)
    }

    async fn service_leases(
        &self,
        worker: &WorkerId,
        begun_by: DateTime<Utc>,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<ServiceLease>, StateError> {
        let rows = sqlx::query(LEASES)
            .bind(&worker.0)
            .bind(after.map_or(0, |task| task.0))
            .bind(begun_by)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(ServiceLease {
                    task: TaskRow::from_row(row)?.0,
                    job: row.try_get("job")?,
                })
            })
            .collect()
    }

    async fn service_jobs(&self, task: TaskId) -> Result<Vec<ServiceJob>, StateError> {
        let rows = sqlx::query(
            "select task_id, stage, attempt, generation, job, submitted_at from service_jobs
             where task_id = $1 order by submitted_at, generation, attempt",
        )
        .bind(task.0)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(service_job).collect::<sqlx::Result<_>>()?)
    }

    async fn record_service(&self, record: &ServiceRecord) -> Result<(), StateError> {
        let mut transaction = leadership::begin(&self.pool, self.epoch).await?;
        sqlx::query(
            "insert into services (name, failures, paused_until, error, told_at) values ($1, $2, $3, $4, $5)
             on conflict (name) do update
             set failures = excluded.failures, paused_until = excluded.paused_until, error = excluded.error,
                 told_at = excluded.told_at",
        )
        .bind(&record.name)
        .bind(i32::try_from(record.failures).unwrap_or(i32::MAX))
        .bind(record.paused_until)
        .bind(record.error.as_deref().map(storable_text))
        .bind(record.told_at)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn services(&self) -> Result<Vec<ServiceRecord>, StateError> {
        let rows =
            sqlx::query("select name, failures, paused_until, error, told_at from services order by name")
                .fetch_all(&self.pool)
                .await?;
        Ok(rows.iter().map(service_record).collect::<sqlx::Result<_>>()?)
    }
}

fn service_job(row: &PgRow) -> sqlx::Result<ServiceJob> {
    Ok(ServiceJob {
        fence: Fence {
            task: TaskId(row.try_get("task_id")?),
            stage: stage_name(row, "stage")?,
            attempt: Attempt(row.try_get("attempt")?),
            generation: Generation(row.try_get("generation")?),
        },
        job: row.try_get("job")?,
        submitted_at: row.try_get("submitted_at")?,
    })
}

fn service_record(row: &PgRow) -> sqlx::Result<ServiceRecord> {
    Ok(ServiceRecord {
        name: row.try_get("name")?,
        failures: u32::try_from(row.try_get::<i32, _>("failures")?).unwrap_or_default(),
        paused_until: row.try_get("paused_until")?,
        error: row.try_get("error")?,
        told_at: row.try_get("told_at")?,
    })
}
