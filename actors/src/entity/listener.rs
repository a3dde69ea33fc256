//! Listener: wakes the workers of a stage when somebody queues rows of it.

use std::sync::Arc;
use std::time::Duration;

use parkhang_state::StateError;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Entities;
use crate::services::slept;

/// Pause before a subscription is tried again that broke, and one of which nothing arrives.
const BROKEN: Duration = Duration::from_secs(5);
const SILENT: Duration = Duration::from_secs(60);

/// Listens until it is time to stop. Without notices the workers look at their interval, as they do anyway.
pub(super) async fn run(entities: Arc<Entities>, stop: CancellationToken) {
    let mut is_silence_told = false;
    loop {
        let ended = tokio::select! {
            ended = listen(&entities) => ended,
            () = stop.cancelled() => return,
        };
        let pause = match ended {
            Ok(()) => SILENT,
            Err(error) => {
                debug!(entity = entities.name(), %error, "nothing is heard of queued rows now");
                BROKEN
            }
        };
        if pause == SILENT && !is_silence_told {
            let interval = entities.options.poll_interval;
            warn!(
                entity = entities.name(),
                ?interval,
                "the database's notices do not arrive, as behind a pooler; workers look for rows at their interval"
            );
            is_silence_told = true;
        }
        if !slept(pause, &stop).await {
            return;
        }
    }
}

/// Wakes workers for as long as notices arrive; returns if they do not.
async fn listen(entities: &Entities) -> Result<(), StateError> {
    let Some(mut queued) = entities.table.queued_rows().await? else {
        return Ok(());
    };
    info!(
        entity = entities.name(),
        "rows that are queued are heard of at once"
    );
    // Rows may have been queued before the subscription.
    let mut stage = None;
    loop {
        for served in &entities.served_stages {
            if stage.as_ref().is_none_or(|stage| *stage == served.stage.name) {
                served.work.notify_one();
            }
        }
        stage = queued.next().await?;
    }
}
