//! Queues of the configuration.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use parkhang_actors::source::{QueueOptions, StageQueues, WatchLimits};
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::{QueuePurpose, StageName};
use parkhang_queue::{DeadLetters, QueueError, QueueServer, QueueSpec, SqsOptions, SqsServer, TaskQueue};
use tracing::warn;

use crate::config::{ClusterConfig, IntakeQueue, SourceKind, Sqs};

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
fn intake_spec(name: &str) -> QueueSpec {
    let (stem, ending) = match name.strip_suffix(".fifo") {
        Some(stem) => (stem, ".fifo"),
        None => (name, ""),
    };
    let stem = stem.strip_suffix("_tasks").unwrap_or(stem);
    QueueSpec {
        visibility: Duration::from_secs(450),
        retention: Duration::from_secs(10 * 24 * 60 * 60),
        dead_letters: Some(DeadLetters {
            queue: format!("{stem}_dlq{ending}"),
            max_receives: 3,
        }),
        ..QueueSpec::new(name)
    }
}

/// Queue of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedQueue {
    pub purpose: QueuePurpose,
    /// Name or URL.
    pub address: String,
}

impl NamedQueue {
    fn of_stage(config: &Sqs, stage: &StageName) -> Self {
        Self {
            address: queue_of(config, stage),
            purpose: QueuePurpose::Stage(stage.clone()),
        }
    }

    pub fn of_intake(intake: &IntakeQueue) -> Self {
        Self {
            address: intake.queue.clone(),
            purpose: QueuePurpose::StandingJob(intake.job.clone()),
        }
    }

    pub fn is_url(&self) -> bool {
        self.address.contains("://")
    }

    pub fn name(&self) -> &str {
        self.address.rsplit('/').next().unwrap_or(&self.address)
    }

    /// Description by which it is made.
    pub fn spec(&self, config: &Sqs) -> QueueSpec {
        match self.purpose {
            QueuePurpose::Stage(_) => QueueSpec {
                visibility: config.visibility,
                ..QueueSpec::new(self.name())
            },
            QueuePurpose::StandingJob(_) => intake_spec(self.name()),
        }
    }

    /// Opens the queue.
    ///
    /// # Errors
    ///
    /// When it is not there, or the server does not answer.
    pub async fn open(&self, server: &dyn QueueServer) -> Result<Arc<dyn TaskQueue>> {
        server.open(&self.address).await.with_context(|| {
            format!(
                "the queue {} of {} cannot be opened; `node queue create` makes those that are missing",
                self.address, self.purpose
            )
        })
    }
}

/// Queues of the configuration: those of stages, if nodes take their work from queues, and those of standing jobs.
pub fn named_queues(config: &ClusterConfig) -> Vec<NamedQueue> {
    let stages = match config.source.kind {
        SourceKind::Sqs => StageTable::built_in().names(),
        _ => Vec::new(),
    };
    let of_stage = |stage: &StageName| NamedQueue::of_stage(&config.source.sqs, stage);
    let intakes = config.intake.queues.iter().map(NamedQueue::of_intake);
    stages.iter().map(of_stage).chain(intakes).collect()
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
        let queue = NamedQueue::of_stage(config, stage).open(server.as_ref()).await?;
        queues.insert(stage.clone(), queue);
    }
    Ok(queues)
}

/// Opens the queues of those stages that have one, and says in the log which have none.
///
/// # Errors
///
/// When the server does not answer.
pub async fn open_existing(config: &Sqs, stages: &[StageName]) -> Result<StageQueues> {
    let server = server(config).await?;
    let mut queues = StageQueues::new();
    for stage in stages {
        match NamedQueue::of_stage(config, stage).open(server.as_ref()).await {
            Ok(queue) => drop(queues.insert(stage.clone(), queue)),
            Err(error) if is_missing(&error) => warn!("{error:#}"),
            Err(error) => return Err(error),
        }
    }
    Ok(queues)
}

fn is_missing(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<QueueError>(),
        Some(QueueError::NotFound { .. })
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_go_to_a_queue_of_the_same_kind() {
        let letters = |name| intake_spec(name).dead_letters.map(|letters| letters.queue);
        for (name, expected) in [
            ("bec_press_tasks", "bec_press_dlq"),
            ("ocr-pages", "ocr-pages_dlq"),
            ("ocr-pages.fifo", "ocr-pages_dlq.fifo"),
            ("press_tasks.fifo", "press_dlq.fifo"),
        ] {
            assert_eq!(letters(name).as_deref(), Some(expected));
        }
    }
}
