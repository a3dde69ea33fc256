//! Room for rows at a service, over all stages of a table that it does, and beside what it has of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parkhang_core::domain::StageName;
use parkhang_state::{ClaimedEntity, EntityTable, StateError};
use tokio::sync::Mutex;

use crate::services::WorkElsewhere;

/// Bound on the rows that a service has at once.
#[derive(Debug)]
pub(super) struct Room {
    /// `None` is no bound.
    max_in_flight: Option<usize>,
    service: String,
    /// Stages that the service does.
    stages: Vec<StageName>,
    elsewhere: Option<Arc<dyn WorkElsewhere>>,
    /// Held from the count to the claim, so that no two stages take the same room. Another process may, for this moment.
    claiming: Mutex<()>,
    /// True if a worker has found no room since somebody asked.
    is_full: AtomicBool,
}

impl Room {
    pub(super) fn new(
        service: &str,
        max_in_flight: Option<usize>,
        stages: Vec<StageName>,
        elsewhere: Option<Arc<dyn WorkElsewhere>>,
    ) -> Self {
        Self {
            service: service.to_owned(),
            max_in_flight,
            stages,
            elsewhere,
            claiming: Mutex::default(),
            is_full: AtomicBool::default(),
        }
    }

    /// Claims as many rows of a stage as there is room for, and no more than `limit`.
    pub(super) async fn claim(
        &self,
        table: &EntityTable,
        stage: &StageName,
        limit: u32,
    ) -> Result<Vec<ClaimedEntity>, StateError> {
        let Some(most) = self.max_in_flight else {
            return table.claim(stage, limit).await;
        };
        let _claiming = self.claiming.lock().await;
        let others = match &self.elsewhere {
            Some(elsewhere) => elsewhere.in_flight(&self.service).await?,
            None => 0,
        };
        let own = table.in_flight(&self.stages).await?;
        let room = most.saturating_sub(own.saturating_add(others));
        if room == 0 {
            self.is_full.store(true, Ordering::Relaxed);
            return Ok(Vec::new());
        }
        table
            .claim(stage, u32::try_from(room).unwrap_or(limit).min(limit))
            .await
    }

    /// True once after a worker has found no room.
    pub(super) fn was_full(&self) -> bool {
        self.is_full.swap(false, Ordering::Relaxed)
    }
}
