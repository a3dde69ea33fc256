//! Notifications of changes that other processes make. They only wake those who wait, who then look for themselves: one that
//! gets lost costs time and nothing else.

use sqlx::postgres::{PgListener, PgPool};

use super::PostgresStore;
use crate::StateError;
use parkhang_core::domain::StageName;

/// Channel on which the database announces a new job, or one with more volumes, another status or configuration.
const JOBS: &str = "parkhang_jobs";

/// Channel on which workers that take work themselves announce the stage for which a task has become runnable.
const WORK: &str = "parkhang_work";

/// Channel on which the database announces that a message of a service is kept.
const SERVICE_MESSAGES: &str = "parkhang_service_messages";

/// Channel on which the database announces that a command to a node was placed or carried out.
const ORDERS: &str = "parkhang_orders";

impl PostgresStore {
    /// Subscribes to changes of jobs that other processes make from now on.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn job_changes(&self) -> Result<JobChanges, StateError> {
        JobChanges::listen(&self.pool, JOBS).await
    }

    /// Subscribes to messages of services that are kept from now on.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn service_messages(&self) -> Result<JobChanges, StateError> {
        JobChanges::listen(&self.pool, SERVICE_MESSAGES).await
    }

    /// Subscribes to work that becomes runnable from now on, for workers that take it themselves.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn work_changes(&self) -> Result<WorkChanges, StateError> {
        WorkChanges::listen(&self.pool).await
    }

    /// Subscribes to commands that are placed or carried out from now on.
    ///
    /// # Errors
    ///
    /// Those of every method, see [`StateError`].
    pub async fn command_changes(&self) -> Result<CommandChanges, StateError> {
        CommandChanges::listen(&self.pool).await
    }
}

/// Announces work for a stage, in a transaction of its own, which writes nothing and so waits for no disk: notifications within
/// the one that made the task runnable would make all such transactions commit one after the other.
pub(super) async fn announce_work(pool: &PgPool, stage: &StageName) -> Result<(), StateError> {
    sqlx::query("select pg_notify($1, $2)")
        .bind(WORK)
        .bind(stage.as_str())
        .execute(pool)
        .await?;
    Ok(())
}

/// Subscription to changes of one kind that other processes make.
#[derive(Debug)]
pub struct JobChanges(PgListener);

impl JobChanges {
    async fn listen(pool: &PgPool, channel: &str) -> Result<Self, StateError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(channel).await?;
        Ok(Self(listener))
    }

    /// Waits until something has changed since the last call, or may have, as after a lost connection.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the connection is lost and cannot be made again.
    pub async fn next(&mut self) -> Result<(), StateError> {
        self.0.try_recv().await?;
        Ok(())
    }
}

/// Subscription to work that other processes make runnable.
#[derive(Debug)]
pub struct WorkChanges(PgListener);

impl WorkChanges {
    async fn listen(pool: &PgPool) -> Result<Self, StateError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen_all([JOBS, WORK]).await?;
        Ok(Self(listener))
    }

    /// Waits until there may be work that was not there at the last call; returns its stage, or `None` if it may be for any, as
    /// after a lost connection.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the connection is lost and cannot be made again.
    pub async fn next(&mut self) -> Result<Option<StageName>, StateError> {
        let notification = self.0.try_recv().await?;
        Ok(notification.and_then(|notification| StageName::new(notification.payload()).ok()))
    }
}

/// Subscription to commands to nodes that are placed and carried out.
#[derive(Debug)]
pub struct CommandChanges(PgListener);

impl CommandChanges {
    async fn listen(pool: &PgPool) -> Result<Self, StateError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(ORDERS).await?;
        Ok(Self(listener))
    }

    /// Waits until something has changed since the last call, or may have, as after a lost connection.
    ///
    /// # Errors
    ///
    /// [`StateError::Unavailable`] if the connection is lost and cannot be made again.
    pub async fn next(&mut self) -> Result<(), StateError> {
        self.0.try_recv().await?;
        Ok(())
    }
}
