//! Queues of the intake, as the commands about queues show them.

use std::sync::Arc;

use parkhang_queue::{QueueError, QueueServer, TaskQueue};
use serde::Serialize;
use utoipa::ToSchema;

use super::text::table;
use super::{Admin, Refusal};
use crate::config::IntakeQueue;
use crate::queues::{intake_spec, server};

/// Settings of the queue whose messages ask for volumes of a standing job.
#[derive(Debug, Serialize, ToSchema)]
pub struct IntakeSettings {
    job: String,
    queue: String,
    /// Name of the queue for messages that ask for no volume; absent if there is none.
    dead_letters: Option<String>,
    /// Settings in which it differs from those that it would be made with.
    drift: Vec<String>,
}

/// Action where a queue is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Create,
    Refuse,
}

/// Server of all queues.
///
/// # Errors
///
/// When there are no credentials.
pub async fn opened(admin: &Admin) -> Result<Arc<dyn QueueServer>, Refusal> {
    let server = server(&admin.loaded.config.source.sqs).await;
    server.map_err(|error| Refusal::Unavailable(format!("{error:#}")))
}

/// Settings of the queues of all intakes. Those that are there are left as they are.
///
/// # Errors
///
/// When the server does not answer, or a queue is missing and stays so.
pub async fn settings(admin: &Admin, missing: Missing) -> Result<Vec<IntakeSettings>, Refusal> {
    let intakes = &admin.loaded.config.intake.queues;
    if intakes.is_empty() {
        return Ok(Vec::new());
    }
    let server = opened(admin).await?;
    let mut all = Vec::new();
    for intake in intakes {
        let queue = open(server.as_ref(), intake, missing).await?;
        all.push(of(intake, queue.as_ref()).await?);
    }
    Ok(all)
}

async fn open(
    server: &dyn QueueServer,
    intake: &IntakeQueue,
    missing: Missing,
) -> Result<Arc<dyn TaskQueue>, QueueError> {
    match (server.open(&intake.queue).await, missing) {
        (Err(QueueError::NotFound { .. }), Missing::Create) => {
            server.create(&intake_spec(&intake.queue)).await
        }
        (found, _) => found,
    }
}

async fn of(intake: &IntakeQueue, queue: &dyn TaskQueue) -> Result<IntakeSettings, QueueError> {
    let facts = queue.facts().await?;
    let drift = intake_spec(queue.name()).drift(&facts);
    Ok(IntakeSettings {
        job: intake.job.to_string(),
        queue: queue.name().to_owned(),
        dead_letters: facts.dead_letters.map(|letters| letters.queue),
        drift,
    })
}

/// Table of the settings, and below it what differs.
pub fn text(intakes: &[IntakeSettings]) -> String {
    let rows = intakes.iter().map(|intake| {
        [
            intake.job.clone(),
            intake.queue.clone(),
            intake.dead_letters.clone().unwrap_or_default(),
        ]
    });
    let mut lines = vec![table(["job", "queue", "dead letters"], rows, 3)];
    for intake in intakes {
        let drift = intake.drift.iter();
        lines.extend(drift.map(|drift| format!("warning: {}: {drift}", intake.queue)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parkhang_queue::{MemoryServer, QueueSpec};

    use super::*;

    fn intake() -> IntakeQueue {
        "press=bec_press_tasks".to_owned().try_into().unwrap()
    }

    /// Rows: U14.
    #[tokio::test]
    async fn a_queue_is_made_as_the_archive_makes_it_and_what_differs_is_told() {
        let memory = MemoryServer::new();
        let refused = open(&memory, &intake(), Missing::Refuse).await;
        assert!(matches!(refused, Err(QueueError::NotFound { .. })));
        let made = open(&memory, &intake(), Missing::Create).await.unwrap();
        let settings = of(&intake(), made.as_ref()).await.unwrap();
        assert_eq!(settings.dead_letters.as_deref(), Some("bec_press_dlq"));
        assert_eq!(settings.drift, [""; 0]);

        let other = MemoryServer::new();
        let bare = QueueSpec {
            dead_letters: None,
            visibility: Duration::from_secs(30),
            ..intake_spec("bec_press_tasks")
        };
        other.create(&bare).await.unwrap();
        let left = open(&other, &intake(), Missing::Create).await.unwrap();
        let settings = of(&intake(), left.as_ref()).await.unwrap();
        let text = text(&[settings]);
        assert!(
            text.ends_with(
                "warning: bec_press_tasks: the visibility is 30 s and not 450 s\n\
                 warning: bec_press_tasks: no dead-letter queue is attached"
            ),
            "{text}"
        );
    }
}
