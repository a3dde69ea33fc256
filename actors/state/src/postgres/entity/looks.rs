//! Looks at a table of entities.

use std::time::Duration;

use chrono::{DateTime, Utc};
use parkhang_core::domain::{EntityStatus, StageName};
use sqlx::{AssertSqlSafe, Row};

use super::columns::quoted;
use super::{EntityTable, ID};
use crate::StateError;

/// Job of a service that has no end yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedJob {
    /// Id of the row.
    pub id: String,
    pub job: String,
    pub started_at: DateTime<Utc>,
}

/// Number of rows by the status of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageCounts {
    pub stage: StageName,
    pub pending: u64,
    pub queued: u64,
    pub started: u64,
    pub completed: u64,
    pub failed: u64,
}

/// Number of rows of a table, by stage and status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityCounts {
    pub rows: u64,
    pub stages: Vec<StageCounts>,
}

impl EntityTable {
    /// Returns jobs of a stage that are older than `age`, the oldest first, after one of an earlier look.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn submitted(
        &self,
        stage: &StageName,
        age: Duration,
        after: Option<&SubmittedJob>,
        limit: u32,
    ) -> Result<Vec<SubmittedJob>, StateError> {
        let (columns, id) = (Self::columns(stage), quoted(ID));
        let statement = format!(
            "select {id}::text as id, {job_id} as job, {started_at} as started_at from {table}
             where {status} = 'started' and {job_id} is not null and {started_at} <= clock_timestamp() - $1
                 and ($2::timestamptz is null or ({started_at}, {id}) > ($2, $3::text::{id_type}))
             order by {started_at}, {id} limit $4",
            job_id = columns.job_id,
            started_at = columns.started_at,
            status = columns.status,
            table = self.table(),
            id_type = self.id_type,
        );
        let rows = sqlx::query(AssertSqlSafe(statement))
            .bind(Self::interval(age))
            .bind(after.map(|job| job.started_at))
            .bind(after.map(|job| job.id.as_str()))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        let jobs = rows.iter().map(|row| {
            Ok(SubmittedJob {
                id: row.try_get("id")?,
                job: row.try_get("job")?,
                started_at: row.try_get("started_at")?,
            })
        });
        jobs.collect()
    }

    /// Counts the rows that are started in any of these stages.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn in_flight(&self, stages: &[StageName]) -> Result<usize, StateError> {
        let table = self.table();
        let counts = stages.iter().map(|stage| {
            let status = Self::columns(stage).status;
            format!("(select count(*) from {table} where {status} = 'started')")
        });
        let counts: Vec<String> = counts.collect();
        let statement = format!("select 0 + {}", counts.join(" + "));
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(statement))
            .fetch_one(&self.pool)
            .await?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Counts the rows by stage and status. Reads the whole table.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn counts(&self) -> Result<EntityCounts, StateError> {
        let mut counts = vec!["count(*)".to_owned()];
        for stage in self.pipeline.stages() {
            let status = Self::columns(&stage.name).status;
            counts.extend(
                EntityStatus::ALL
                    .map(|word| format!("count(*) filter (where coalesce({status}, 'pending') = '{word}')")),
            );
        }
        let statement = format!("select {} from {}", counts.join(", "), self.table());
        let row = sqlx::query(AssertSqlSafe(statement))
            .fetch_one(&self.pool)
            .await?;
        let count = |index: usize| -> Result<u64, StateError> {
            let count: i64 = row.try_get(index)?;
            Ok(u64::try_from(count).unwrap_or_default())
        };
        let stages = self.pipeline.stages().iter().enumerate().map(|(index, stage)| {
            let of = |status: usize| count(1 + index * EntityStatus::ALL.len() + status);
            Ok::<_, StateError>(StageCounts {
                stage: stage.name.clone(),
                pending: of(0)?,
                queued: of(1)?,
                started: of(2)?,
                completed: of(3)?,
                failed: of(4)?,
            })
        });
        Ok(EntityCounts {
            rows: count(0)?,
            stages: stages.collect::<Result<_, _>>()?,
        })
    }
}
