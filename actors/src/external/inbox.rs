//! Messages of services at an orchestrator that does not lead: what is of a job in hand is kept for the leader.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use parkhang_core::domain::{Fence, ServiceMessage, StageName, TaskId};
use parkhang_core::policy::service::{Hearing, hearing};
use parkhang_service::JobLook;
use parkhang_state::{ServiceStore, StateError, StateStore};
use serde_json::Value;
use tokio::time::sleep;

use crate::services::{Heard, JobListener, JobMessage, LOOK_AHEAD, LOOKS_AHEAD};

/// Subject of a message.
pub(super) enum Subject {
    /// The job of a lease in force.
    Current(Fence),
    /// A job whose lease is over.
    Past,
    /// A job that nothing has had.
    Unknown,
}

/// Finds out what a message is about. A service may be faster than its own answer to the submit, or than the transaction that records it,
/// which is waited for.
pub(super) async fn subject(
    store: &dyn StateStore,
    services: &dyn ServiceStore,
    stage: &StageName,
    message: &JobMessage,
) -> Result<Subject, StateError> {
    let Ok(id) = message.id.parse() else {
        return Ok(Subject::Unknown);
    };
    for _ in 0..LOOKS_AHEAD {
        let Some(task) = store.task(TaskId(id)).await? else {
            return Ok(Subject::Unknown);
        };
        let jobs = services.service_jobs(task.id).await?;
        match hearing(&task, &jobs, stage, &message.job) {
            Hearing::Current(fence) => return Ok(Subject::Current(fence)),
            Hearing::Past => return Ok(Subject::Past),
            Hearing::Awaited => sleep(LOOK_AHEAD).await,
            Hearing::Unknown => return Ok(Subject::Unknown),
        }
    }
    // The poller will hear of it, if it is a job of this task.
    Ok(Subject::Unknown)
}

/// Listener that keeps messages for whoever leads.
#[derive(Debug)]
pub struct MessageInbox {
    store: Arc<dyn StateStore>,
    services: Arc<dyn ServiceStore>,
    /// Stages that services do.
    stages: BTreeSet<StageName>,
}

impl MessageInbox {
    pub fn new(
        store: Arc<dyn StateStore>,
        services: Arc<dyn ServiceStore>,
        stages: impl IntoIterator<Item = StageName>,
    ) -> Self {
        Self {
            store,
            services,
            stages: stages.into_iter().collect(),
        }
    }
}

#[async_trait]
impl JobListener for MessageInbox {
    async fn hear(&self, message: &JobMessage) -> Result<Heard, StateError> {
        let Some(stage) = self.stages.iter().find(|stage| stage.as_str() == message.stage) else {
            return Ok(Heard::UnknownJob);
        };
        match subject(&*self.store, &*self.services, stage, message).await? {
            // Changes nothing, so that the leader need not hear of it.
            Subject::Current(_) if matches!(message.look(), JobLook::Running) => Ok(Heard::Processed),
            Subject::Current(fence) => {
                self.services.keep_message(&kept(&fence, message)).await?;
                Ok(Heard::Processed)
            }
            Subject::Past => Ok(Heard::Processed),
            Subject::Unknown => Ok(Heard::UnknownJob),
        }
    }
}

/// Message as it is kept.
fn kept(fence: &Fence, message: &JobMessage) -> ServiceMessage {
    ServiceMessage {
        task: fence.task,
        stage: fence.stage.clone(),
        job: message.job.clone(),
        content: serde_json::json!({
            "status": message.status,
            "result": message.result,
            "error": message.error,
        }),
    }
}

/// Message that was kept, as the service told it.
pub(super) fn told(kept: &ServiceMessage) -> JobMessage {
    let value = |name: &str| kept.content.get(name).cloned().unwrap_or_default();
    JobMessage {
        stage: kept.stage.to_string(),
        id: kept.task.to_string(),
        job: kept.job.clone(),
        status: match value("status") {
            Value::String(status) => status,
            _ => String::new(),
        },
        result: value("result"),
        error: value("error"),
    }
}
