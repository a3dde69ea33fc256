//! `queue`: queues that tell nodes of work, where `source.kind` is "sqs", and those whose messages ask for volumes of standing jobs.
//!
//! Every command treats the two alike. Whom a queue serves decides how it is made, and what its messages are worth: those about tasks are
//! published again from the database, those of other programs are there once.

mod counts;
mod find;
mod looks;
mod purge;
mod redrive;
mod settings;

use std::sync::Arc;

use parkhang_core::domain::QueuePurpose;
use parkhang_queue::{QueueError, QueueServer, TaskQueue};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Admin, Refusal};
use crate::queues::{CREATE_QUEUES, NamedQueue, named_queues, server};

pub use self::counts::Stats;
pub use self::looks::{QueueLook, alarms, in_a_table, queue_looks, requests};
pub use self::purge::Purge;
pub use self::redrive::Redrive;
pub use self::settings::{Create, List};

/// Queue, and whom it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueueName {
    /// Kind of what it serves: `stage` if its messages tell of tasks that may begin one, `standing_job` if they ask for volumes of one.
    purpose: &'static str,
    /// Name of the stage or of the job.
    serves: String,
    queue: String,
}

impl QueueName {
    fn new(purpose: &QueuePurpose, queue: impl Into<String>) -> Self {
        Self {
            purpose: purpose.kind(),
            serves: purpose.name().to_owned(),
            queue: queue.into(),
        }
    }

    /// Whom it serves, in words.
    fn serves(&self) -> String {
        format!("{} {}", self.purpose.replace('_', " "), self.serves)
    }
}

/// Opens a queue; `None` if it is missing.
async fn open_if_there(
    server: &dyn QueueServer,
    named: &NamedQueue,
) -> Result<Option<Arc<dyn TaskQueue>>, QueueError> {
    match server.open(&named.address).await {
        Err(QueueError::NotFound { .. }) => Ok(None),
        opened => opened.map(Some),
    }
}

/// A line for each queue that is missing.
fn missing_lines(missing: &[QueueName]) -> impl Iterator<Item = String> {
    let line = |name: &QueueName| format!("missing: {} of {}; {CREATE_QUEUES}", name.queue, name.serves());
    missing.iter().map(line)
}

/// Queues of the configuration.
fn queues(admin: &Admin) -> Result<Vec<NamedQueue>, Refusal> {
    let queues = named_queues(&admin.loaded.config);
    if queues.is_empty() {
        return Err(Refusal::Conflict(
            "work does not go through queues here: source.kind is not \"sqs\", and intake.queues names none"
                .to_owned(),
        ));
    }
    Ok(queues)
}

/// Server of all queues.
async fn opened(admin: &Admin) -> Result<Arc<dyn QueueServer>, Refusal> {
    let server = server(&admin.loaded.config.source.sqs).await;
    server.map_err(|error| Refusal::Unavailable(format!("{error:#}")))
}

/// Queue that a word of the command line means, opened, and whom it serves.
async fn open(admin: &Admin, named: &str) -> Result<(QueuePurpose, Arc<dyn TaskQueue>), Refusal> {
    let queues = queues(admin)?;
    let found = find::find(&queues, named)?;
    let queue = opened(admin).await?.open(&found.address).await?;
    Ok((found.purpose.clone(), queue))
}
