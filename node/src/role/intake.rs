//! Intake of volumes that messages of other programs ask for, while this process leads.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use parkhang_actors::intake::{Intake, ScanBucket};
use parkhang_state::PostgresStore;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::config::{IntakeQueue, Loaded};
use crate::queues::{self, NamedQueue};
use crate::storage::page_source;

/// Pause between two looks at the dead letters and at requests that wait for an answer.
const LOOK: Duration = Duration::from_secs(60);

/// Takes messages in for ever, from each queue beside the others.
pub async fn take_in(loaded: &Loaded, store: &PostgresStore) {
    let queues = &loaded.config.intake.queues;
    if queues.is_empty() {
        return std::future::pending().await;
    }
    let store = Arc::new(store.clone());
    join_all(queues.iter().map(|queue| one(loaded, &store, queue))).await;
}

/// Takes in what comes through one queue. What fails is waited out.
async fn one(loaded: &Loaded, store: &Arc<PostgresStore>, queue: &IntakeQueue) -> Infallible {
    let mut told = None;
    loop {
        let Err(error) = rounds(loaded, store, queue).await;
        let reason = format!("{error:#}");
        // A job that nobody has made yet is no news each time.
        if told.as_ref() == Some(&reason) {
            debug!(job = %queue.job, queue = queue.queue, "messages still cannot be taken in: {reason}");
        } else {
            warn!(job = %queue.job, queue = queue.queue, "messages cannot be taken in now: {reason}");
            told = Some(reason);
        }
        tokio::time::sleep(loaded.config.source.poll).await;
    }
}

/// Takes messages in until a queue or the database does not answer, or the job takes none.
async fn rounds(loaded: &Loaded, store: &Arc<PostgresStore>, named: &IntakeQueue) -> Result<Infallible> {
    let sqs = &loaded.config.source.sqs;
    let server = queues::server(sqs).await?;
    let queue = NamedQueue::of_intake(named).open(server.as_ref()).await?;
    let mut intake = Intake::new(store, named.job.clone(), queue, sqs.wait);
    if let Some(name) = &loaded.config.pages.s3.bucket {
        intake = intake.with_documents_in(ScanBucket {
            name: name.clone(),
            prefix: loaded.config.pages.s3.prefix.clone(),
        });
    }
    let mut look = Instant::now();
    loop {
        let is_time = look <= Instant::now();
        if is_time {
            look = Instant::now() + LOOK;
            // First, since a job that was closed still answers what it was asked.
            settle(loaded, &intake).await?;
        }
        intake.round().await?;
        if is_time {
            intake.take_dead_letters().await?;
        }
    }
}

async fn settle(loaded: &Loaded, intake: &Intake) -> Result<()> {
    match page_source(&loaded.config.pages).await {
        Ok(scans) => drop(intake.settle(&scans).await?),
        Err(error) => {
            warn!("nobody looks for other versions of volumes, as the scans cannot be opened: {error:#}")
        }
    }
    Ok(())
}
