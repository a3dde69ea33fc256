//! Publishing of tasks in the queues of their stages, what came back from these, and the watch over them, while this process leads.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::source::{DeadLetters, Publisher, QueueWatch, StageQueues, StoreClock};
use parkhang_actors::stage::StageTable;
use parkhang_actors::telemetry::QueueLevels;
use parkhang_core::domain::{QueueRecord, StageName};
use parkhang_core::policy::alarm::Work;
use parkhang_state::{PostgresStore, StateStore};
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{debug, warn};

use crate::config::Loaded;
use crate::queues::{self, QueueFinder, is_missing, named_queues};

/// Pause between two looks at the dead-letter queues.
const LOOK_AT_LETTERS: Duration = Duration::from_secs(60);

/// Pause between two looks at the queues. Each costs two requests a queue.
const LOOK_AT_QUEUES: Duration = Duration::from_secs(60);
/// Longest time that a look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(30);

/// Publishes for ever, if nodes take their work from queues. What fails is tried again with the next round.
pub async fn publish(loaded: &Loaded, store: &PostgresStore) {
    if !loaded.config.source.kind.properties().is_published {
        return std::future::pending().await;
    }
    let poll = loaded.config.source.poll;
    let mut told = None;
    loop {
        let began = Instant::now();
        if let Err(error) = rounds(loaded, store).await {
            let reason = format!("{error:#}");
            // It is no news with each try, unless tasks were published in between.
            if told.as_ref() == Some(&reason) && began.elapsed() < LOOK_AT_QUEUES {
                debug!("tasks still cannot be published: {reason}");
            } else {
                warn!("tasks cannot be published now: {reason}");
                told = Some(reason);
            }
        }
        tokio::time::sleep(poll).await;
    }
}

/// Publishes until a queue or the database does not answer.
async fn rounds(loaded: &Loaded, store: &PostgresStore) -> Result<()> {
    let stages = StageTable::built_in().names();
    // A queue that is missing holds up no stage but its own.
    let finder = QueueFinder::open(&loaded.config.source.sqs, &stages).await?;
    let queues = finder.queues();
    tokio::select! {
        ended = rounds_through(loaded, store, queues) => match ended? {},
        never = finder.look_for_ever() => match never {},
    }
}

async fn rounds_through(loaded: &Loaded, store: &PostgresStore, queues: StageQueues) -> Result<Infallible> {
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

/// Looks at the queues of the configuration for ever, if there are any: sets the metrics, raises alarms, and records both. `store` is fenced
/// by the leader's epoch.
pub async fn watch_queues(loaded: &Loaded, store: &PostgresStore) {
    if named_queues(&loaded.config).is_empty() {
        return std::future::pending().await;
    }
    let (mut levels, mut watch) = (QueueLevels::default(), None);
    let mut ticks = tokio::time::interval(LOOK_AT_QUEUES);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let looked = tokio::time::timeout(LOOK_LIMIT, look(loaded, store, &mut watch, &mut levels));
        if let Err(error) = looked.await.context("no answer in time").flatten() {
            warn!("cannot look at the queues now: {error:#}");
        }
    }
}

async fn look(
    loaded: &Loaded,
    store: &PostgresStore,
    opened: &mut Option<QueueWatch>,
    levels: &mut QueueLevels,
) -> Result<()> {
    let watch = match opened {
        Some(watch) => watch,
        None => opened.insert(open_watch(loaded, store).await?),
    };
    let work = work(store, store.now().await?).await?;
    let seen = watch.look(&store.queue_records().await?, &work).await?;
    store.record_queues(&seen).await?;
    let seen_missing =
        seen.len() < named_queues(&loaded.config).len() || seen.iter().any(QueueRecord::is_missing);
    levels.publish(seen);
    if seen_missing {
        // Opened anew with the next look, by when those that were missing may be there.
        *opened = None;
    }
    Ok(())
}

/// Watch over the queues: one that cannot be opened hides no other.
async fn open_watch(loaded: &Loaded, store: &PostgresStore) -> Result<QueueWatch> {
    let config = &loaded.config.source.sqs;
    let server = queues::server(config).await?;
    let store = Arc::new(store.clone());
    let clock = Arc::new(StoreClock(store.clone()));
    let mut watch = QueueWatch::new(store, clock, queues::limits(config));
    for named in named_queues(&loaded.config) {
        let queue = match named.open(server.as_ref()).await {
            Ok(queue) => Some(queue),
            Err(error) if is_missing(&error) => None,
            Err(error) => {
                warn!("cannot look at a queue now: {error:#}");
                continue;
            }
        };
        watch.add(named.purpose.clone(), named.name(), queue);
    }
    Ok(watch)
}

/// Work of the last minutes, by stage.
async fn work(store: &PostgresStore, now: DateTime<Utc>) -> Result<BTreeMap<StageName, Work>> {
    let (runs, nodes) = (store.recent_runs(now).await?, store.nodes().await?);
    let table = StageTable::built_in();
    let work = table.names().into_iter().filter_map(|stage| {
        let runs = runs.get(&stage).copied().unwrap_or_default();
        let work = Work::of(runs.done, runs.failed, table.hardware_of(&stage)?, &nodes, now);
        Some((stage, work))
    });
    Ok(work.collect())
}
