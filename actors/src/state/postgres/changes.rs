use sqlx::postgres::{PgListener, PgPool};

use crate::domain::StageName;
use crate::state::StateError;

/// Channel on which the database tells that there is a new job, or one with more volumes or another status.
const JOBS: &str = "parkhang_jobs";

/// Channel on which workers that take work themselves tell each other for which stage a task has become runnable.
const WORK: &str = "parkhang_work";

/// Channel on which the database tells that an order to a node was placed or settled.
const ORDERS: &str = "parkhang_orders";

/// A transaction of its own, which writes nothing and so waits for no disk: notifications within the one that made the task
/// runnable would make all such transactions commit one after the other.
pub(super) async fn announce_work(pool: &PgPool, stage: &StageName) -> Result<(), StateError> {
    sqlx::query("select pg_notify($1, $2)")
        .bind(WORK)
        .bind(stage.as_str())
        .execute(pool)
        .await?;
    Ok(())
}

/// Hears of changes to jobs that other processes make.
#[derive(Debug)]
pub struct JobChanges(PgListener);

impl JobChanges {
    pub(super) async fn listen(pool: &PgPool) -> Result<Self, StateError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(JOBS).await?;
        Ok(Self(listener))
    }

    /// Returns when something changed since the last call, or may have: after a lost connection nobody can say.
    pub async fn next(&mut self) -> Result<(), StateError> {
        self.0.try_recv().await?;
        Ok(())
    }
}

/// Hears of work that other processes make runnable.
#[derive(Debug)]
pub struct WorkChanges(PgListener);

impl WorkChanges {
    pub(super) async fn listen(pool: &PgPool) -> Result<Self, StateError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen_all([JOBS, WORK]).await?;
        Ok(Self(listener))
    }

    /// Returns when there may be work since the last call, and for which stage; `None` when it may be for any, as after a lost
    /// connection.
    pub async fn next(&mut self) -> Result<Option<StageName>, StateError> {
        let notification = self.0.try_recv().await?;
        let stage = notification.map(|notification| StageName::new(notification.payload()));
        Ok(stage.and_then(Result::ok))
    }
}

/// Hears of orders to nodes that are placed and settled.
#[derive(Debug)]
pub struct OrderChanges(PgListener);

impl OrderChanges {
    pub(super) async fn listen(pool: &PgPool) -> Result<Self, StateError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(ORDERS).await?;
        Ok(Self(listener))
    }

    /// Returns when something changed since the last call, or may have: after a lost connection nobody can say.
    pub async fn next(&mut self) -> Result<(), StateError> {
        self.0.try_recv().await?;
        Ok(())
    }
}
