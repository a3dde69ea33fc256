//! Queues of the configuration.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::TimeDelta;
use parkhang_actors::source::{QueueOptions, WatchLimits};
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::{QueuePurpose, StageName};
use parkhang_queue::{DeadLetters, QueueError, QueueServer, QueueSpec, SqsOptions, SqsServer, TaskQueue};

use crate::config::{ClusterConfig, IntakeQueue, Sqs};

mod finder;

pub use finder::QueueFinder;

/// Advice where a queue is missing.
pub const CREATE_QUEUES: &str = "`node queue create` makes those that are missing";

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
        let opened = server.open(&self.address).await;
        opened.map_err(|error| self.not_opened(error))
    }

    /// Error of a queue that cannot be opened, with what to do about it.
    fn not_opened(&self, error: QueueError) -> anyhow::Error {
        let Self { purpose, address } = self;
        let advice = match error {
            QueueError::NotFound { .. } => format!("; {CREATE_QUEUES}"),
            _ => String::new(),
        };
        anyhow::Error::new(error).context(format!(
            "the queue {address} of {purpose} cannot be opened{advice}"
        ))
    }
}

/// True if an error says that a queue is missing.
pub fn is_missing(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<QueueError>();
    matches!(error, Some(QueueError::NotFound { .. }))
}

/// Queues of the configuration: those of stages, if nodes take their work from queues, and those of standing jobs.
pub fn named_queues(config: &ClusterConfig) -> Vec<NamedQueue> {
    let stages = if config.source.kind.properties().is_published {
        StageTable::built_in().names()
    } else {
        Vec::new()
    };
    let of_stage = |stage: &StageName| NamedQueue::of_stage(&config.source.sqs, stage);
    let intakes = config.intake.queues.iter().map(NamedQueue::of_intake);
    stages.iter().map(of_stage).chain(intakes).collect()
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
