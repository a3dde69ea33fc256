use sqlx::postgres::{PgListener, PgPool};

use crate::state::StateError;

/// Channel on which the database tells that there is a new job, or one with more volumes or another status.
pub(super) const JOBS: &str = "parkhang_jobs";

/// Channel on which workers that take work themselves tell each other that a task has become runnable.
pub(super) const WORK: &str = "parkhang_work";

/// A transaction of its own, which writes nothing and so waits for no disk: notifications within the one that made the task
/// runnable would make all such transactions commit one after the other.
pub(super) async fn announce_work(pool: &PgPool) -> Result<(), StateError> {
    sqlx::query("select pg_notify($1, '')")
        .bind(WORK)
        .execute(pool)
        .await?;
    Ok(())
}

/// Hears of changes to jobs that other processes make.
#[derive(Debug)]
pub struct JobChanges(PgListener);

impl JobChanges {
    pub(super) async fn listen(pool: &PgPool, channels: &[&str]) -> Result<Self, StateError> {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen_all(channels.iter().copied()).await?;
        Ok(Self(listener))
    }

    /// Returns when something changed since the last call, or may have: after a lost connection nobody can say.
    pub async fn next(&mut self) -> Result<(), StateError> {
        self.0.try_recv().await?;
        Ok(())
    }
}
