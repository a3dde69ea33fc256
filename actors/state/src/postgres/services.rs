//! Services that do stages, in the database.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::PostgresStore;
use super::rows::{Fences, TaskRow, stage_name, storable, storable_text, task_columns};
use crate::{ServiceStore, StateError};
use parkhang_core::domain::{
    Attempt, Fence, Generation, ServiceJob, ServiceLease, ServiceMessage, ServiceRecord, TaskId, WorkerId,
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
    async fn intend_submit(&self, lease: &Fence, at: DateTime<Utc>) -> Result<bool, StateError> {
        // The task may have been deleted a moment ago.
        let statement = sqlx::query(
            "insert into service_submits (task_id, stage, attempt, generation, intended_at)
             select id, $2, $3, $4, $5 from tasks where id = $1 for key share
             on conflict do nothing",
        )
        .bind(lease.task.0)
        .bind(lease.stage.as_str())
        .bind(lease.attempt.0)
        .bind(lease.generation.0)
        .bind(at);
        let written = self.execute(statement).await?;
        Ok(written.rows_affected() > 0)
    }

    async fn record_service_job(&self, job: &ServiceJob) -> Result<bool, StateError> {
        let fence = &job.fence;
        // Of no leader: it is what has happened, whoever leads now.
        let mut transaction = self.pool.begin().await?;
        // Locked, so that the lease does not end between the look and the write.
        let run: Option<(String, bool)> = sqlx::query_as(
            "select r.worker_id, t.status = 'running' and t.current_stage = $2 and t.attempts + 1 = $3 and t.generation = $4
             from tasks t join stage_runs r on r.task_id = t.id and r.stage = $2 and r.attempt = $3 and r.generation = $4
             where t.id = $1 and r.worker_id like 'service:%' for share of t",
        )
        .bind(fence.task.0)
        .bind(fence.stage.as_str())
        .bind(fence.attempt.0)
        .bind(fence.generation.0)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some((holder, is_held)) = run.map(|(worker, is_held)| (WorkerId(worker), is_held)) else {
            return Ok(false);
        };
        sqlx::query(
            "insert into service_jobs as s (task_id, stage, attempt, generation, job, submitted_at, service, place)
             values ($1, $2, $3, $4, $5, $6, $7, $8)
             on conflict (task_id, stage, attempt, generation) do update
             set job = excluded.job where starts_with(excluded.job, s.job || ' ')",
        )
        .bind(fence.task.0)
        .bind(fence.stage.as_str())
        .bind(fence.attempt.0)
        .bind(fence.generation.0)
        .bind(storable_text(&job.job))
        .bind(job.submitted_at)
        .bind(holder.service())
        .bind(job.place.as_deref())
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
        Ok(is_held && known == job.job)
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
            "select task_id, stage, attempt, generation, job, place, submitted_at, polls, polled_at, told_at
             from service_jobs where task_id = $1 order by submitted_at, generation, attempt",
        )
        .bind(task.0)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.iter().map(service_job).collect::<sqlx::Result<_>>()?)
    }

    async fn note_polls(&self, leases: &[Fence], at: DateTime<Utc>) -> Result<(), StateError> {
        let polled = Fences::of(leases.iter());
        let statement = sqlx::query(
            "update service_jobs s set polls = s.polls + 1, polled_at = $5
             from unnest($1::bigint[], $2::text[], $3::int[], $4::bigint[]) as l (task_id, stage, attempt, generation)
             where (s.task_id, s.stage, s.attempt, s.generation) = (l.task_id, l.stage, l.attempt, l.generation)",
        )
        .bind(polled.tasks)
        .bind(polled.stages)
        .bind(polled.attempts)
        .bind(polled.generations)
        .bind(at);
        self.execute(statement).await?;
        Ok(())
    }

    async fn note_message(&self, lease: &Fence, at: DateTime<Utc>) -> Result<(), StateError> {
        let statement = sqlx::query(
            "update service_jobs set told_at = $5
             where task_id = $1 and stage = $2 and attempt = $3 and generation = $4 and told_at is null",
        )
        .bind(lease.task.0)
        .bind(lease.stage.as_str())
        .bind(lease.attempt.0)
        .bind(lease.generation.0)
        .bind(at);
        self.execute(statement).await?;
        Ok(())
    }

    async fn keep_message(&self, message: &ServiceMessage) -> Result<(), StateError> {
        // The task may have been deleted a moment ago, and its messages with it.
        sqlx::query(
            "insert into service_messages (task_id, stage, job, content)
             select id, $2, $3, $4 from tasks where id = $1 for key share
             on conflict do nothing",
        )
        .bind(message.task.0)
        .bind(message.stage.as_str())
        .bind(storable_text(&message.job))
        .bind(Json(storable(&message.content)))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    async fn kept_messages(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<(i64, ServiceMessage)>, StateError> {
        let rows = sqlx::query(
            "select id, task_id, stage, job, content from service_messages where id > $1 order by id limit $2",
        )
        .bind(after)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.pool)
        .await?;
        let messages = rows.iter().map(|row| {
            let message = ServiceMessage {
                task: TaskId(row.try_get("task_id")?),
                stage: stage_name(row, "stage")?,
                job: row.try_get("job")?,
                content: row.try_get::<Json<Value>, _>("content")?.0,
            };
            Ok((row.try_get("id")?, message))
        });
        Ok(messages.collect::<sqlx::Result<_>>()?)
    }

    async fn drop_messages(&self, numbers: &[i64]) -> Result<(), StateError> {
        let statement = sqlx::query("delete from service_messages where id = any($1)").bind(numbers);
        self.execute(statement).await?;
        Ok(())
    }

    async fn record_service(&self, record: &ServiceRecord) -> Result<(), StateError> {
        let statement = sqlx::query(
            "insert into services (name, failures, paused_until, error, told_at, submits, errors)
             values ($1, $2, $3, $4, $5, $6, $7)
             on conflict (name) do update
             set failures = excluded.failures, paused_until = excluded.paused_until, error = excluded.error,
                 told_at = excluded.told_at, submits = excluded.submits, errors = excluded.errors",
        )
        .bind(&record.name)
        .bind(i32::try_from(record.failures).unwrap_or(i32::MAX))
        .bind(record.paused_until)
        .bind(record.error.as_deref().map(storable_text))
        .bind(record.told_at)
        .bind(i64::try_from(record.submits).unwrap_or(i64::MAX))
        .bind(Json(&record.errors));
        self.execute(statement).await?;
        Ok(())
    }

    async fn take_turn(&self, service: &str, rate: NonZeroU32) -> Result<Duration, StateError> {
        let wait: f64 = sqlx::query_scalar(
            "insert into service_turns as t (service, free_at) values ($1, clock_timestamp() + make_interval(secs => $2))
             on conflict (service) do update
             set free_at = greatest(t.free_at, clock_timestamp()) + make_interval(secs => $2)
             returning extract(epoch from free_at - make_interval(secs => $2) - clock_timestamp())::float8",
        )
        .bind(service)
        .bind(1.0 / f64::from(rate.get()))
        .fetch_one(&self.pool)
        .await?;
        Ok(Duration::try_from_secs_f64(wait).unwrap_or_default())
    }

    async fn services(&self) -> Result<Vec<ServiceRecord>, StateError> {
        let rows =
            sqlx::query("select name, failures, paused_until, error, told_at, submits, errors from services order by name")
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
        place: row.try_get("place")?,
        submitted_at: row.try_get("submitted_at")?,
        polls: u32::try_from(row.try_get::<i32, _>("polls")?).unwrap_or_default(),
        polled_at: row.try_get("polled_at")?,
        told_at: row.try_get("told_at")?,
    })
}

fn service_record(row: &PgRow) -> sqlx::Result<ServiceRecord> {
    Ok(ServiceRecord {
        name: row.try_get("name")?,
        failures: u32::try_from(row.try_get::<i32, _>("failures")?).unwrap_or_default(),
        paused_until: row.try_get("paused_until")?,
        error: row.try_get("error")?,
        submits: u64::try_from(row.try_get::<i64, _>("submits")?).unwrap_or_default(),
        errors: row.try_get::<Json<BTreeMap<String, u64>>, _>("errors")?.0,
        told_at: row.try_get("told_at")?,
    })
}
