//! Notices of rows that are queued by anybody but the workers. They only wake workers, who then look for themselves: one that gets lost
//! costs an interval and nothing else.

use std::time::Duration;

use parkhang_core::domain::StageName;
use sqlx::postgres::PgListener;
use sqlx::{Row, raw_sql};
use tokio::time::timeout;

use super::EntityTable;
use crate::StateError;

/// Longest way of a notice.
const WAY: Duration = Duration::from_secs(3);
/// Times that the sessions of two connections are compared.
const COMPARISONS: u32 = 3;
/// Notice of nothing, which names no stage. It does not matter who sent it: one that arrives shows that others do.
const TRIAL: &str = "";

/// Subscription to rows that are queued.
#[derive(Debug)]
pub struct QueuedRows(PgListener);

impl EntityTable {
    /// Subscribes to rows that are queued from now on, and makes sure that notices arrive: `None` if they do not, as behind a pooler that
    /// gives each transaction another session. Such a session is not asked to listen: it would give its notices to whoever has it next.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn queued_rows(&self) -> Result<Option<QueuedRows>, StateError> {
        let channel = self.pipeline.channel();
        let mut listener = PgListener::connect_with(&self.pool).await?;
        if self.is_lent_sessions(&mut listener).await? {
            return Ok(None);
        }
        listener.listen(&channel).await?;
        sqlx::query("select pg_notify($1, $2)")
            .bind(&channel)
            .bind(TRIAL)
            .execute(&self.pool)
            .await?;
        let heard = async {
            while listener.recv().await?.payload() != TRIAL {}
            Ok::<_, sqlx::Error>(())
        };
        match timeout(WAY, heard).await {
            Ok(heard) => heard?,
            Err(_) => return Ok(None),
        }
        Ok(Some(QueuedRows(listener)))
    }

    /// Returns true if the listener shares its session with others. It is asked in the simple protocol, as sessions that are shared may
    /// not know each other's prepared statements.
    async fn is_lent_sessions(&self, listener: &mut PgListener) -> Result<bool, StateError> {
        const SESSION: &str = "select pg_backend_pid()";
        for _ in 0..COMPARISONS {
            let own: i32 = raw_sql(SESSION).fetch_one(&mut *listener).await?.try_get(0)?;
            // A session is in the hands of one connection until its transaction ends.
            let mut transaction = self.pool.begin().await?;
            let other: i32 = raw_sql(SESSION).fetch_one(&mut *transaction).await?.try_get(0)?;
            // A pooler with one session has none for the listener meanwhile.
            let is_lent = own == other || {
                let again: i32 = raw_sql(SESSION).fetch_one(&mut *listener).await?.try_get(0)?;
                own != again
            };
            transaction.rollback().await?;
            if is_lent {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl QueuedRows {
    /// Waits until rows may have been queued; returns their stage, or `None` if it may be any, as after a lost connection.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the connection is lost and cannot be made again.
    pub async fn next(&mut self) -> Result<Option<StageName>, StateError> {
        let notification = self.0.try_recv().await?;
        Ok(notification.and_then(|notification| StageName::new(notification.payload()).ok()))
    }
}

#[cfg(test)]
mod tests;
