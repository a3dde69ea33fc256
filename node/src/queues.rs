//! Queues of the configuration.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use parkhang_actors::source::{QueueOptions, StageQueues, WatchLimits};
use parkhang_core::domain::StageName;
use parkhang_queue::{DeadLetters, QueueServer, QueueSpec, SqsOptions, SqsServer};

use crate::config::Sqs;

/// Opens the server of the queues.
///
/// # Errors
///
/// When there are no credentials.
pub async fn server(config: &Sqs) -> Result<Arc<dyn QueueServer>> {
    let options = SqsOptions {
        endpoint: config.endpoint.clone(),
        region: config.region.clone(),
        ..SqsOptions::default()
    };
    let server = SqsServer::open_account(&options).await;
    Ok(Arc::new(server.context(
        "source.sqs: the server of the queues cannot be opened",
    )?))
}

/// Returns the name or URL of the queue of a stage: `ocr-line-detection.fifo`, unless the configuration names another.
pub fn queue_of(config: &Sqs, stage: &StageName) -> String {
    let named = config.queues.iter().rev().find(|queue| queue.stage == *stage);
    named.map_or_else(
        || format!("{}{}.fifo", config.prefix, stage.as_str().replace('_', "-")),
        |queue| queue.queue.clone(),
    )
}

/// Description of the queue of an intake, as the archive's program makes it for its jobs; its dead letters are kept for longer than
/// that does, as the time of a message begins with its first send.
pub fn intake_spec(name: &str) -> QueueSpec {
    let letters = match name.strip_suffix("_tasks") {
        Some(stem) => format!("{stem}_dlq"),
        None => format!("{name}_dlq"),
    };
    QueueSpec {
        visibility: Duration::from_secs(450),
        retention: Duration::from_secs(10 * 24 * 60 * 60),
        dead_letters: Some(DeadLetters {
            queue: letters,
            max_receives: 3,
        }),
        ..QueueSpec::new(name)
    }
}

/// Opens the queues of the stages.
///
/// # Errors
///
/// When one is not there, or the server does not answer.
pub async fn open(config: &Sqs, stages: &[StageName]) -> Result<StageQueues> {
    let server = server(config).await?;
    let mut queues = StageQueues::new();
    for stage in stages {
        let name = queue_of(config, stage);
        let queue = server.open(&name).await.with_context(|| {
            format!("the queue {name} of stage {stage} (source.sqs) cannot be opened; `node queue create` makes those that are missing")
        })?;
        queues.insert(stage.clone(), queue);
    }
    Ok(queues)
}

/// Times of the configuration.
pub fn options(config: &Sqs) -> QueueOptions {
    QueueOptions {
        visibility: config.visibility,
        visibility_max_total: config.visibility_max_total,
        wait: config.wait,
    }
}

/// Limits from which on there are alarms.
pub fn limits(config: &Sqs) -> WatchLimits {
    WatchLimits {
        // A duration that chrono cannot express is longer than any wait.
        max_age: TimeDelta::from_std(config.max_age).unwrap_or(TimeDelta::MAX),
        max_in_flight: config.max_in_flight.get(),
    }
}
