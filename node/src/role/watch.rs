//! What the leader counts for those who watch.

use std::time::Duration;

use parkhang_actors::state::{PostgresStore, StateStore};
use parkhang_actors::telemetry::TaskLevels;
use tracing::debug;

const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// Tells how many tasks stand where, again and again.
pub async fn count_tasks(store: &PostgresStore) {
    let mut levels = TaskLevels::default();
    loop {
        match store.count_tasks().await {
            Ok(counts) => levels.tell(&counts),
            Err(error) => debug!(%error, "cannot count tasks now"),
        }
        tokio::time::sleep(COUNT_INTERVAL).await;
    }
}
