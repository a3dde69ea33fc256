use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::SourceError;
use parkhang_state::StateStore;

/// Tells the time by which leases of a source are written, and by which they run out.
#[async_trait]
pub trait Clock: Send + Sync + fmt::Debug {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError>;
}

/// That of this machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        Ok(Utc::now())
    }
}

/// That of a state store, which all its users share, whatever the clocks of their machines say.
#[derive(Debug, Clone)]
pub struct StoreClock(pub Arc<dyn StateStore>);

#[async_trait]
impl Clock for StoreClock {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        Ok(self.0.now().await?)
    }
}
