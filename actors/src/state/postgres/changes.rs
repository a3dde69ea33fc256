use sqlx::postgres::{PgListener, PgPool};

use crate::state::StateError;

/// Channel on which the database tells that there is a new job, or one with more volumes or another status.
pub(super) const JOBS: &str = "parkhang_jobs";

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
