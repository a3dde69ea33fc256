//! Room for rows at a service, over all stages of a table that it does.

use std::sync::atomic::{AtomicBool, Ordering};

use parkhang_core::domain::StageName;
use parkhang_state::{ClaimedEntity, EntityTable, StateError};
use tokio::sync::Mutex;

/// Bound on the rows that a service has at once.
#[derive(Debug)]
pub(super) struct Room {
    /// `None` is no bound.
    max_in_flight: Option<usize>,
    /// Stages that the service does.
    stages: Vec<StageName>,
    /// Held from the count to the claim, so that no two stages take the same room. Another process may, for this moment.
    claiming: Mutex<()>,
    /// True if a worker has found no room since somebody asked.
    is_full: AtomicBool,
}

impl Room {
    pub(super) fn new(max_in_flight: Option<usize>, stages: Vec<StageName>) -> Self {
        Self {
            max_in_flight,
            stages,
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
        let room = most.saturating_sub(table.in_flight(&self.stages).await?);
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
