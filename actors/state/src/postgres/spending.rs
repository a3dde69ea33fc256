//! Spending of jobs at services: expenses of leases, which a trigger of the database sums up by job.

use sqlx::postgres::{PgPool, PgRow};
use sqlx::{PgExecutor, Row};

use super::jobs::{by_id, lock, set_status};
use crate::StateError;
use parkhang_core::domain::{Amount, Expense, JobId, JobStatus, Spending, Usage};
use parkhang_core::policy::spending::is_used_up;

/// Writes an expense, or pauses a job that would spend more than its budget; see [`StateStore::spend`](crate::StateStore::spend).
pub(super) async fn spend(pool: &PgPool, expense: &Expense) -> Result<bool, StateError> {
    let task = expense.fence.task.0;
    let job: Option<i64> = sqlx::query_scalar("select job_id from tasks where id = $1")
        .bind(task)
        .fetch_optional(pool)
        .await?;
    let Some(id) = job.map(JobId) else {
        return Ok(false);
    };
    let asks = expense.usage == Usage::default();
    if !asks {
        write(pool, expense).await?;
    }
    // After the write, so that of two writers at once the later one sees both.
    let spent = Spending::total(&of_jobs(pool, Some(id)).await?);
    let Some(job) = by_id(pool, id).await? else {
        return Ok(false);
    };
    if !is_used_up(job.config.budget, spent) {
        return Ok(true);
    }
    if asks && job.status == JobStatus::Running {
        pause(pool, id).await?;
    }
    Ok(false)
}

async fn write(pool: &PgPool, expense: &Expense) -> Result<(), StateError> {
    let Expense { fence, usage, .. } = expense;
    // The row goes with its task, which may have been deleted a moment ago.
    sqlx::query(
        "insert into expenses as e
             (task_id, stage, attempt, generation, service, calls, input_tokens, output_tokens, cost)
         select id, $2, $3, $4, $5, $6, $7, $8, $9 from tasks where id = $1 for key share
         on conflict (task_id, stage, attempt, generation, service) do update
         set calls = greatest(e.calls, excluded.calls),
             input_tokens = greatest(e.input_tokens, excluded.input_tokens),
             output_tokens = greatest(e.output_tokens, excluded.output_tokens),
             cost = greatest(e.cost, excluded.cost)",
    )
    .bind(fence.task.0)
    .bind(fence.stage.as_str())
    .bind(fence.attempt.0)
    .bind(fence.generation.0)
    .bind(&expense.service)
    .bind(column(usage.calls))
    .bind(column(usage.input_tokens))
    .bind(column(usage.output_tokens))
    .bind(column(expense.cost.nanos()))
    .execute(pool)
    .await?;
    Ok(())
}

/// Pauses a running job, unless its budget was raised meanwhile.
async fn pause(pool: &PgPool, id: JobId) -> Result<(), StateError> {
    let mut transaction = pool.begin().await?;
    let job = lock(&mut transaction, id).await?;
    let spent = Spending::total(&of_jobs(&mut *transaction, Some(id)).await?);
    if job.status == JobStatus::Running && is_used_up(job.config.budget, spent) {
        set_status(&mut transaction, job, JobStatus::Paused).await?;
        transaction.commit().await?;
    }
    Ok(())
}

/// Returns what jobs have spent, by job and service.
pub(super) async fn of_jobs(
    executor: impl PgExecutor<'_>,
    job: Option<JobId>,
) -> Result<Vec<Spending>, StateError> {
    let rows = sqlx::query(
        "select job_id, service, calls, input_tokens, output_tokens, cost from spending
         where $1::bigint is null or job_id = $1 order by job_id, service",
    )
    .bind(job.map(|job| job.0))
    .fetch_all(executor)
    .await?;
    Ok(rows.iter().map(spending).collect::<sqlx::Result<_>>()?)
}

fn spending(row: &PgRow) -> sqlx::Result<Spending> {
    let number = |name: &str| -> sqlx::Result<u64> {
        Ok(u64::try_from(row.try_get::<i64, _>(name)?).unwrap_or_default())
    };
    Ok(Spending {
        job: JobId(row.try_get("job_id")?),
        service: row.try_get("service")?,
        usage: Usage {
            calls: number("calls")?,
            input_tokens: number("input_tokens")?,
            output_tokens: number("output_tokens")?,
        },
        cost: Amount::from_nanos(number("cost")?),
    })
}

fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
