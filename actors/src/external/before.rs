//! Work that was submitted before, at a service that knows no keys of submits: it is found by the place of its answers.

use parkhang_core::domain::{Fence, ServiceJob, Usage};
use parkhang_service::JobLook;
use parkhang_state::StateError;

use super::pages::VolumePages;
use super::submit::TakenJob;
use super::{ExternalStages, ServedStage};
use crate::engines::VisionOperations;

/// Work of a lease, as far as it was submitted before under this lease or another one of the task.
#[derive(Debug)]
pub(super) enum Before {
    /// The service has it in hand, or has done it.
    Taken(TakenJob),
    /// A job has it, and the service does not say now how that stands.
    Unsaid,
    /// No job is known that could still bring answers.
    Unknown,
}

impl ExternalStages {
    /// Finds out what became of submits of the same work, under this lease too unless `is_first`. What the service has in hand is
    /// never submitted again.
    pub(super) async fn before(
        &self,
        served: &ServedStage,
        fence: &Fence,
        pages: &VolumePages,
        is_first: bool,
    ) -> Result<Before, StateError> {
        let answered = pages.are_answered(self.site.artifacts.as_ref()).await;
        if answered.map_err(|error| StateError::Unavailable(error.to_string()))? {
            return Ok(Before::Taken(TakenJob {
                id: VisionOperations::FOUND.to_owned(),
                place: None,
                // A submit of this lease was paid for, though its answer was lost.
                usage: if is_first { Usage::default() } else { pages.usage() },
            }));
        }
        let jobs = self.site.services.service_jobs(fence.task).await?;
        let has_the_work = |known: &&ServiceJob| known.place.as_deref() == Some(pages.place());
        let Some(known) = jobs.iter().rfind(has_the_work) else {
            return Ok(Before::Unknown);
        };
        let look = served.stage.service.look(&served.shared.health, &known.job);
        Ok(match look.await {
            Some(JobLook::Running | JobLook::Completed(_)) => Before::Taken(TakenJob {
                id: known.job.clone(),
                place: known.place.clone(),
                usage: Usage::default(),
            }),
            Some(JobLook::Failed(_) | JobLook::Lost) => Before::Unknown,
            None => Before::Unsaid,
        })
    }
}
