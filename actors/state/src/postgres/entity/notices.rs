//! Notices of rows that are queued by anybody but the workers. They only wake workers, who then look for themselves: one that gets lost
//! costs an interval and nothing else.

use std::time::Duration;

use parkhang_core::domain::StageName;
use sqlx::postgres::PgListener;
use tokio::time::timeout;

use super::EntityTable;
use crate::StateError;

/// Longest way of a notice.
const WAY: Duration = Duration::from_secs(3);
/// Notice of nothing, which names no stage. It does not matter who sent it: one that arrives shows that others do.
const TRIAL: &str = "";

/// Subscription to rows that are queued.
#[derive(Debug)]
pub struct QueuedRows(PgListener);

impl EntityTable {
    /// Subscribes to rows that are queued from now on, and makes sure that notices arrive: `None` if they do not, as behind a pooler that
    /// gives each transaction another session.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn queued_rows(&self) -> Result<Option<QueuedRows>, StateError> {
        let channel = self.pipeline.channel();
        let mut listener = PgListener::connect_with(&self.pool).await?;
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
