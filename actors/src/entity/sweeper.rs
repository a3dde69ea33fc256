//! Sweeper: takes back the rows whose jobs have no end for too long, of processes that died among others.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Entities;
use crate::services::slept;

/// Bounds of the interval between two sweeps.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// Sweeps all stages at each interval until it is time to stop.
pub(super) async fn run(entities: Arc<Entities>, stop: CancellationToken) {
    let timeouts = entities
        .served_stages
        .iter()
        .map(|served| served.stage.limits.stuck_timeout);
    // A job is late by a tenth of its time at most.
    let interval = (timeouts.min().unwrap_or(LONGEST) / 10).clamp(SHORTEST, LONGEST);
    while slept(interval, &stop).await {
        for served in &entities.served_stages {
            match entities.table.reset_stuck(&served.stage).await {
                Ok(reset) if reset.queued + reset.failed > 0 => {
                    let (queued, failed) = (reset.queued, reset.failed);
                    let stage = served.stage.name.as_str();
                    info!(
                        entity = entities.name(),
                        stage, queued, failed, "jobs took too long"
                    );
                    served.work.notify_one();
                }
                Ok(_) => {}
                Err(error) => {
                    warn!(entity = entities.name(), %error, "the table of entities does not answer");
                }
            }
        }
    }
}
