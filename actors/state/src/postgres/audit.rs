//! Audit log of the commands of operators.

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::PostgresStore;
use super::newest::{newest, newest_rows};
use super::rows::{storable, storable_text};
use crate::browse::MOST_ANSWERED;
use crate::{AuditEntry, AuditQuery, Newest, StateError};

/// Bytes of arguments from which they count as long.
const LONG: i32 = 16 << 10;
/// Letters of long arguments, and of a refusal, that are answered.
const SHORT: i32 = 2000;

impl PostgresStore {
    /// Writes a command of an operator, carried out or refused; returns the number of the entry.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn record_audit(&self, entry: &AuditEntry) -> Result<i64, StateError> {
        let id = sqlx::query_scalar(
            "insert into audit (at, done_at, who, via, command, arguments, refusal)
             values ($1, $2, $3, $4, $5, $6, $7) returning id",
        )
        .bind(entry.at)
        .bind(entry.done_at)
        .bind(&entry.who)
        .bind(&entry.via)
        .bind(&entry.command)
        .bind(storable(&entry.arguments))
        .bind(entry.refusal.as_deref().map(storable_text))
        .fetch_one(&self.pool)
        .await?;
        Ok(id)
    }

    /// Writes the end of a command, with the reason if it was refused. The first end stands.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn complete_audit(
        &self,
        entry: i64,
        refusal: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<(), StateError> {
        sqlx::query("update audit set done_at = $2, refusal = $3 where id = $1 and done_at is null")
            .bind(entry)
            .bind(now)
            .bind(refusal.map(storable_text))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Returns entries, no more of them than an answer may hold.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn audit(&self, query: &AuditQuery) -> Result<Newest<AuditEntry>, StateError> {
        let rows = sqlx::query(newest_rows!(
            bytes: "octet_length(arguments) + coalesce(octet_length(refusal), 0)",
            order: "at desc, id desc",
            limit: "$2",
            most: "$6",
            of: "select id, at, done_at, who, via, command,
                     case when $3 or octet_length(arguments::text) <= $4 then arguments::text
                         else left(arguments::text, $5) end as arguments,
                     case when $3 then refusal else left(refusal, $5) end as refusal
                 from audit where $1::timestamptz is null or at < $1"
        ))
        .bind(query.before)
        .bind(i64::from(query.limit))
        .bind(query.full)
        .bind(LONG)
        .bind(SHORT)
        .bind(MOST_ANSWERED)
        .fetch_all(&self.pool)
        .await?;
        let entry = |row: &PgRow| -> Result<AuditEntry, StateError> {
            let arguments: String = row.try_get("arguments")?;
            Ok(AuditEntry {
                at: row.try_get("at")?,
                done_at: row.try_get("done_at")?,
                who: row.try_get("who")?,
                via: row.try_get("via")?,
                command: row.try_get("command")?,
                // Postgres keeps numbers that are too large for us, and what was cut is no JSON; whoever sent it is to be found all the same.
                arguments: serde_json::from_str(&arguments).unwrap_or(Value::String(arguments)),
                refusal: row.try_get("refusal")?,
            })
        };
        newest(&rows, entry)
    }
}
