//! Rows that are queued by a person, and those whose jobs have taken too long.

use parkhang_core::domain::{EntityStage, EntityStatus, StageName};
use parkhang_core::policy::entity::EntityEvent;
use sqlx::AssertSqlSafe;

use super::columns::quoted;
use super::{EntityOutcome, EntityTable, Finding, ID};
use crate::StateError;

/// Rows of one transaction, so that no lock is held long.
const BATCH: i64 = 1000;

/// Numbers of rows that a look at stuck jobs has reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StuckEntities {
    pub queued: u64,
    pub failed: u64,
}

impl EntityTable {
    /// Queues rows anew whose stage has one of these statuses; all of them, or those with these ids. Returns their number. Rows that
    /// somebody else locks are left out.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`]. Some rows may be queued then.
    pub async fn queue(
        &self,
        stage: &StageName,
        from: &[EntityStatus],
        ids: Option<&[String]>,
    ) -> Result<u64, StateError> {
        let (columns, table, id) = (Self::columns(stage), self.table(), quoted(ID));
        let named = match ids {
            Some(_) => format!(" and {id} = any($3::text[]::{}[])", self.id_type),
            None => " and $3::text[] is null".to_owned(),
        };
        let statement = format!(
            "with chosen as materialized (
                 select {id} from {table} where coalesce({status}, 'pending') = any($1){named} limit $2 for update skip locked
             )
             update {table} as entity
             set {status} = 'queued', {retry_count} = 0, {job_id} = null, {started_at} = null, {error} = null, {completed_at} = null
             from chosen where entity.{id} = chosen.{id}",
            status = columns.status,
            retry_count = columns.retry_count,
            job_id = columns.job_id,
            started_at = columns.started_at,
            error = columns.error,
            completed_at = columns.completed_at,
        );
        // Rows that are queued already would be chosen again and again.
        let from = from.iter().filter(|status| **status != EntityStatus::Queued);
        let from: Vec<&str> = from.map(|status| status.as_str()).collect();
        let mut queued = 0;
        loop {
            let updated = sqlx::query(AssertSqlSafe(statement.clone()))
                .bind(&from)
                .bind(BATCH)
                .bind(ids)
                .execute(&self.pool)
                .await?
                .rows_affected();
            queued += updated;
            if updated == 0 {
                return Ok(queued);
            }
        }
    }

    /// Ends jobs that have taken longer than their stage grants: their rows are queued again, or failed where no retry is left.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`]. Some rows may be reset then.
    pub async fn reset_stuck(&self, stage: &EntityStage) -> Result<StuckEntities, StateError> {
        let columns = Self::columns(&stage.name);
        let statement = format!(
            "select {id}::text from {table}
             where {status} = 'started' and ({started_at} is null or {started_at} < clock_timestamp() - $1)
             order by {started_at} limit $2",
            id = quoted(ID),
            table = self.table(),
            status = columns.status,
            started_at = columns.started_at,
        );
        let timeout = stage.limits.stuck_timeout;
        let mut reset = StuckEntities::default();
        loop {
            let ids: Vec<String> = sqlx::query_scalar(AssertSqlSafe(statement.clone()))
                .bind(Self::interval(timeout))
                .bind(BATCH)
                .fetch_all(&self.pool)
                .await?;
            let mut changed = false;
            for id in &ids {
                let error = format!("stuck: no end within {timeout:?}");
                let outcome = self
                    .step(stage, id, &EntityEvent::Checked, Finding::Error(&error))
                    .await?;
                match outcome {
                    EntityOutcome::Done {
                        status: EntityStatus::Failed,
                        ..
                    } => reset.failed += 1,
                    EntityOutcome::Done { .. } => reset.queued += 1,
                    EntityOutcome::Unchanged(_) | EntityOutcome::NoEntity => continue,
                }
                changed = true;
            }
            if !changed {
                return Ok(reset);
            }
        }
    }
}
