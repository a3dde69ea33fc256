//! Claims of rows, and the steps of their stages.

use chrono::{DateTime, Utc};
use parkhang_core::domain::{EntityStage, EntityStatus, StageName};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::entity::{EntityEvent, EntityState};
use serde_json::Value;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row};

use super::columns::quoted;
use super::{CREATED_AT, EntityTable, ID, OWN_STEP};
use crate::StateError;
use crate::postgres::rows::{storable, storable_text};

/// SQLSTATE class of values that a type cannot hold, such as an id that is no UUID.
const DATA_EXCEPTION: &str = "22";

/// Row that a worker holds, to be submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedEntity {
    pub id: String,
    /// Time of the claim, by which its further steps know it.
    pub claim: DateTime<Utc>,
    pub retry_count: u32,
    /// All columns of the row.
    pub row: Value,
}

/// Text or value that a step leaves in the row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding<'a> {
    Nothing,
    Result(&'a Value),
    Error(&'a str),
}

/// Effect of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntityOutcome {
    /// Written, with the stage that was queued by it, if one was.
    Done {
        status: EntityStatus,
        queued: Option<StageName>,
    },
    /// Nothing was written, as the stage has gone on or begun anew.
    Unchanged(EntityState),
    /// There is no such row.
    NoEntity,
}

impl EntityTable {
    /// Takes up to `limit` queued rows of a stage, the oldest first. Rows that other workers take at the same time are passed over.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn claim(&self, stage: &StageName, limit: u32) -> Result<Vec<ClaimedEntity>, StateError> {
        let (columns, table, id) = (Self::columns(stage), self.table(), quoted(ID));
        let created_at = quoted(CREATED_AT);
        // Materialized, or a plan could run the inner select again, and claim more rows than the limit.
        let statement = format!(
            "with chosen as materialized (
                 select {id} from {table} where {status} = 'queued' order by {created_at} limit $1 for update skip locked
             )
             update {table} as entity
             set {status} = 'started', {started_at} = clock_timestamp(), {job_id} = null, {error} = null, {completed_at} = null
             from chosen where entity.{id} = chosen.{id}
             returning entity.{id}::text as id, entity.{started_at} as claim,
                 greatest(coalesce(entity.{retry_count}, 0), 0)::int as retry_count, to_jsonb(entity) as row",
            status = columns.status,
            started_at = columns.started_at,
            job_id = columns.job_id,
            error = columns.error,
            completed_at = columns.completed_at,
            retry_count = columns.retry_count,
        );
        let rows = sqlx::query(AssertSqlSafe(statement))
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        let claimed = rows.iter().map(|row| {
            Ok(ClaimedEntity {
                id: row.try_get("id")?,
                claim: row.try_get("claim")?,
                retry_count: count_of(row, "retry_count")?,
                row: row.try_get("row")?,
            })
        });
        claimed.collect()
    }

    /// Carries out what an event makes of a stage of a row, in one transaction: with the end of a stage the next one is queued.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`]. Nothing was written then, or the same step later changes nothing.
    pub async fn step(
        &self,
        stage: &EntityStage,
        id: &str,
        event: &EntityEvent,
        finding: Finding<'_>,
    ) -> Result<EntityOutcome, StateError> {
        let mut transaction = self.pool.begin().await?;
        let next = stage.next.as_ref().and_then(|next| self.pipeline.stage(next));
        let Some((now, state, following)) = self.lock(&mut transaction, stage, next, id).await? else {
            return Ok(EntityOutcome::NoEntity);
        };
        let Some(after) = state.after(event, &stage.limits, now) else {
            // Now, and not when the connection is used again: a claim passes over a row that is locked.
            transaction.rollback().await?;
            return Ok(EntityOutcome::Unchanged(state));
        };
        let is_completed = after.status == EntityStatus::Completed;
        let followed = next.filter(|_| is_completed).zip(following);
        let followed = followed.and_then(|(next, state)| {
            let after = state.after(&EntityEvent::Preceded, &next.limits, now)?;
            Some((next, after))
        });
        self.write(&mut transaction, &stage.name, id, &after, finding)
            .await?;
        if let Some((next, state)) = &followed {
            self.write(&mut transaction, &next.name, id, state, Finding::Nothing)
                .await?;
        }
        Failpoint::StepWritten.pass();
        transaction.commit().await?;
        Failpoint::StepCommitted.pass();
        Ok(EntityOutcome::Done {
            status: after.status,
            queued: followed.map(|(next, _)| next.name.clone()),
        })
    }

    /// Locks a row and reads its stage, and the next one.
    async fn lock(
        &self,
        connection: &mut PgConnection,
        stage: &EntityStage,
        next: Option<&EntityStage>,
        id: &str,
    ) -> Result<Option<(DateTime<Utc>, EntityState, Option<EntityState>)>, StateError> {
        let read = |stage: &EntityStage, prefix: &str| {
            let columns = Self::columns(&stage.name);
            format!(
                "coalesce({}, 'pending')::text as {prefix}status, {} as {prefix}job_id, {} as {prefix}started_at,
                 greatest(coalesce({}, 0), 0)::int as {prefix}retry_count",
                columns.status, columns.job_id, columns.started_at, columns.retry_count
            )
        };
        let following = next.map_or(String::new(), |next| format!(", {}", read(next, "next_")));
        let statement = format!(
            "select set_config('{OWN_STEP}', 'on', true), clock_timestamp() as now, {}{following} from {} where {} for update",
            read(stage, ""),
            self.table(),
            self.is_id(1)
        );
        let found = sqlx::query(AssertSqlSafe(statement))
            .bind(storable_text(id))
            .fetch_optional(connection)
            .await;
        let row = match found {
            Err(sqlx::Error::Database(refusal))
                if refusal
                    .code()
                    .is_some_and(|code| code.starts_with(DATA_EXCEPTION)) =>
            {
                return Ok(None);
            }
            found => found?,
        };
        let Some(row) = row else { return Ok(None) };
        let following = next.map(|_| state_of(&row, "next_")).transpose()?;
        Ok(Some((row.try_get("now")?, state_of(&row, "")?, following)))
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        stage: &StageName,
        id: &str,
        state: &EntityState,
        finding: Finding<'_>,
    ) -> Result<(), StateError> {
        let columns = Self::columns(stage);
        let statement = format!(
            "update {table} set {status} = $2, {retry_count} = $3, {job_id} = $4, {started_at} = $5, {error} = $6,
                 {result} = coalesce($7, {result}),
                 {completed_at} = case when $2 in ('completed', 'failed') then clock_timestamp() end
             where {is_id}",
            table = self.table(),
            status = columns.status,
            retry_count = columns.retry_count,
            job_id = columns.job_id,
            started_at = columns.started_at,
            error = columns.error,
            result = columns.result,
            completed_at = columns.completed_at,
            is_id = self.is_id(1),
        );
        let (result, error) = match finding {
            Finding::Nothing => (None, None),
            Finding::Result(result) => (Some(storable(result)), None),
            Finding::Error(error) => (None, Some(storable_text(error))),
        };
        sqlx::query(AssertSqlSafe(statement))
            .bind(id)
            .bind(state.status.as_str())
            .bind(i32::try_from(state.retry_count).unwrap_or(i32::MAX))
            .bind(state.job.as_deref().map(storable_text))
            .bind(state.started_at)
            .bind(error)
            .bind(result)
            .execute(connection)
            .await?;
        Ok(())
    }
}

fn count_of(row: &PgRow, column: &str) -> Result<u32, StateError> {
    let count: i32 = row.try_get(column)?;
    Ok(u32::try_from(count).unwrap_or_default())
}

fn state_of(row: &PgRow, prefix: &str) -> Result<EntityState, StateError> {
    let column = |name: &str| format!("{prefix}{name}");
    let status: String = row.try_get(&*column("status"))?;
    Ok(EntityState {
        status: status
            .parse()
            .map_err(|error| StateError::Corrupt(format!("{error}")))?,
        retry_count: count_of(row, &column("retry_count"))?,
        job: row.try_get(&*column("job_id"))?,
        started_at: row.try_get(&*column("started_at"))?,
    })
}
