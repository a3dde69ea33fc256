use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::SourceError;
use parkhang_state::StateStore;

/// Clock by which the leases of a source are written, and by which they expire.
#[async_trait]
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the time.
    ///
    /// # Errors
    ///
    /// When the clock is on a server that does not answer.
    async fn now(&self) -> Result<DateTime<Utc>, SourceError>;
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        Ok(Utc::now())
    }
}

/// The clock of a state store, which all its users share. The clocks of their machines may be minutes apart, and a lease that
/// one has just written must not look expired to another.
#[derive(Debug, Clone)]
pub struct StoreClock(pub Arc<dyn StateStore>);

#[async_trait]
impl Clock for StoreClock {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        Ok(self.0.now().await?)
    }
}
