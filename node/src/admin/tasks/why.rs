use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_core::domain::{JobKey, VolumeId};
use parkhang_core::policy::diagnosis::{ClusterFacts, Reason, of_task};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::{State, find};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::diagnosis::{advice, cluster_facts, in_words, message_of};
use crate::admin::queues::{queue_looks, requests};
use crate::admin::{Admin, Refusal};

/// Say what keeps a volume from going on: the first thing that would have to change.
#[derive(Debug, Args)]
pub struct Why {
    #[arg(value_name = "JOB")]
    job: JobKey,
    #[arg(value_name = "VOLUME")]
    volume: VolumeId,
}

/// Why a volume does not go on.
#[derive(Debug, Serialize, ToSchema)]
pub struct Explanation {
    volume: String,
    state: State,
    /// A word for programs: finished, failed, running, at_service, overdue, budget, job, backing_off, no_leader, no_pool, no_model, service_paused, limit, suspect, no_slot, no_queue, unpublished, in_queue, received, missing or nothing.
    blocker: &'static str,
    reason: String,
    /// Error that the last try of the stage ended with, where it is not the reason.
    last_error: Option<String>,
    /// What to do about it, if there is something.
    advice: Option<String>,
}

#[async_trait]
impl Command for Why {
    const NAME: [&'static str; 2] = ["tasks", "why"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/tasks/{volume}/why";
    type Answer = Explanation;

    async fn run(self, admin: &Admin) -> Result<Explanation, Refusal> {
        let (job, task) = match find(admin, &self.job, &self.volume).await {
            Ok(found) => found,
            Err(refusal) => return Err(with_requests(admin, &self.job, refusal).await?),
        };
        let config = &admin.loaded.config;
        let cluster = ClusterFacts {
            spending: admin.store.spending(Some(job.id)).await?,
            ..cluster_facts(&admin.store, config).await?
        };
        let message = message_of(&admin.store, config, (&task, &job), &cluster).await?;
        let found = of_task(&task, &job, &cluster, message.as_ref());
        let is_told = matches!(found, Reason::Failed { .. } | Reason::BackingOff { .. });
        let last_error = task.last_error.as_ref().filter(|_| !is_told);
        Ok(Explanation {
            volume: task.volume.to_string(),
            state: State::of(&task, &job),
            blocker: found.as_str(),
            reason: in_words(&found, cluster.now),
            last_error: last_error.map(ToString::to_string),
            advice: advice(&found, &job.key, &admin.stages),
        })
    }
}

/// Refusal to tell of a volume that a job does not have, with the messages that may ask for it and have not been taken in.
async fn with_requests(admin: &Admin, job: &JobKey, refusal: Refusal) -> Result<Refusal, Refusal> {
    let Refusal::NotFound(message) = refusal else {
        return Ok(refusal);
    };
    let told = requests(&queue_looks(admin).await?, job, Utc::now());
    Ok(Refusal::NotFound(match told {
        Some(told) => format!("{message}; {told}, and one of them may ask for it"),
        None => message,
    }))
}

impl Answer for Explanation {
    fn text(&self) -> String {
        let reason = format!("{}: {}", self.volume, self.reason);
        let error = self.last_error.as_ref();
        let error = error.map(|error| format!("its last try failed: {error}"));
        let lines = [Some(reason), error, self.advice.clone()];
        lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }
}
