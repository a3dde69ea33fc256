//! Publishing of tasks in the queues of their stages, and what came back from these, while this process leads.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use chrono::TimeDelta;
use parkhang_actors::source::{DeadLetters, Publisher, StoreClock};
use parkhang_actors::stage::StageTable;
use parkhang_state::PostgresStore;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::config::{Loaded, SourceKind};
use crate::queues;

/// Pause between two looks at the dead-letter queues.
const LOOK_AT_LETTERS: Duration = Duration::from_secs(60);

/// Publishes for ever, if nodes take their work from queues. What fails is tried again with the next round.
pub async fn publish(loaded: &Loaded, store: &PostgresStore) {
    if loaded.config.source.kind != SourceKind::Sqs {
        return std::future::pending().await;
    }
    let poll = loaded.config.source.poll;
    loop {
        if let Err(error) = rounds(loaded, store).await {
            warn!("tasks cannot be published now: {error:#}");
        }
        tokio::time::sleep(poll).await;
    }
}

/// Publishes until a queue or the database does not answer.
async fn rounds(loaded: &Loaded, store: &PostgresStore) -> Result<()> {
    let queues = queues::open(&loaded.config.source.sqs, &StageTable::built_in().names()).await?;
    let outbox = Arc::new(store.clone());
    let clock = Arc::new(StoreClock(outbox.clone()));
    // A purge shows by then, and nobody holds a message that was received before.
    let lost_after = TimeDelta::from_std(loaded.config.source.sqs.visibility)?;
    let publisher = Publisher::new(outbox.clone(), clock.clone(), queues.clone(), lost_after);
    let letters = DeadLetters::new(outbox, clock, queues);
    // Subscribed to before the first round, so that nothing falls between the two.
    let (mut jobs, mut work) = (store.job_changes().await?, store.work_changes().await?);
    let mut look = Instant::now();
    loop {
        let sent = publisher.round().await?;
        if sent > 0 {
            debug!(sent, "tasks published");
        }
        publisher.look_for_lost().await?;
        if look <= Instant::now() {
            letters.round().await?;
            look = Instant::now() + LOOK_AT_LETTERS;
        }
        // The poll is for what no notification announces: the end of a backoff, or of a withdrawal.
        tokio::select! {
            change = jobs.next() => change?,
            change = work.next() => drop(change?),
            () = tokio::time::sleep(loaded.config.source.poll) => {}
        }
    }
}
