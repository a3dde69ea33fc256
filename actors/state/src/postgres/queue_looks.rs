//! Looks at queues that the leader records, and the runs that its alarms go by.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use super::rows::{number, stage_name, unreadable};
use crate::postgres::PostgresStore;
use crate::{RecentRuns, StateError};
use parkhang_core::domain::{QueuePurpose, QueueRecord, StageName};
use parkhang_core::policy::alarm::LATELY;

/// Runs that ended after a time, by the partial indexes `stage_runs_done` and `stage_runs_failed`.
pub(super) const RECENT_RUNS: &str = "select stage, sum(done)::bigint as done, sum(failed)::bigint as failed from ( \
         select stage, count(*) as done, 0 as failed from stage_runs where status = 'done' and done_at > $1 group by stage \
         union all \
         select stage, 0, count(*) from stage_runs where status = 'failed' and done_at > $1 group by stage \
     ) runs group by stage";

impl PostgresStore {
    /// Writes what was seen of queues, in the place of the looks before at the queues with the same purposes.
    ///
    /// # Errors
    ///
    /// [`StateError::Deposed`] if the store belongs to a leader that was replaced, and those of every method.
    pub async fn record_queues(&self, records: &[QueueRecord]) -> Result<(), StateError> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut transaction = self.begin().await?;
        for record in records {
            sqlx::query(
                "insert into queue_looks
                     (purpose, serves, queue, looked_at, visible, in_flight, delayed, dead_letters, oldest, alarms)
                 values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                 on conflict (purpose, serves) do update set queue = excluded.queue, looked_at = excluded.looked_at,
                     visible = excluded.visible, in_flight = excluded.in_flight, delayed = excluded.delayed,
                     dead_letters = excluded.dead_letters, oldest = excluded.oldest, alarms = excluded.alarms",
            )
            .bind(record.purpose.kind())
            .bind(record.purpose.name())
            .bind(&record.queue)
            .bind(record.looked_at)
            .bind(number(record.visible))
            .bind(number(record.in_flight))
            .bind(number(record.delayed))
            .bind(record.dead_letters.map(number))
            .bind(record.oldest)
            .bind(Json(&record.alarms))
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Returns what was last seen of each queue: those of stages first, each by name.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn queue_records(&self) -> Result<Vec<QueueRecord>, StateError> {
        let rows =
            sqlx::query("select * from queue_looks order by purpose = 'standing_job', serves collate \"C\"")
                .fetch_all(&self.pool)
                .await?;
        Ok(rows.iter().map(record).collect::<sqlx::Result<_>>()?)
    }

    /// Counts the runs that succeeded or failed in the last ten minutes, by stage. Those that were interrupted are neither.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn recent_runs(
        &self,
        now: DateTime<Utc>,
    ) -> Result<BTreeMap<StageName, RecentRuns>, StateError> {
        let rows = sqlx::query(RECENT_RUNS)
            .bind(now - LATELY)
            .fetch_all(&self.pool)
            .await?;
        let runs = rows.iter().map(|row| {
            let runs = RecentRuns {
                done: number(row, "done")?,
                failed: number(row, "failed")?,
            };
            Ok((stage_name(row, "stage")?, runs))
        });
        Ok(runs.collect::<sqlx::Result<_>>()?)
    }
}

fn record(row: &PgRow) -> sqlx::Result<QueueRecord> {
    let letters: Option<i64> = row.try_get("dead_letters")?;
    let letters = letters.map(u64::try_from).transpose();
    let (kind, name): (&str, &str) = (row.try_get("purpose")?, row.try_get("serves")?);
    Ok(QueueRecord {
        purpose: QueuePurpose::new(kind, name).map_err(|error| unreadable("purpose", error))?,
        queue: row.try_get("queue")?,
        looked_at: row.try_get("looked_at")?,
        visible: number(row, "visible")?,
        in_flight: number(row, "in_flight")?,
        delayed: number(row, "delayed")?,
        dead_letters: letters.map_err(|error| unreadable("dead_letters", error))?,
        oldest: row.try_get("oldest")?,
        alarms: row.try_get::<Json<_>, _>("alarms")?.0,
    })
}

#[cfg(test)]
mod tests;
