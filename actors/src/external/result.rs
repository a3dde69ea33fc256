//! Ends of jobs: the result becomes an artifact, then the lease ends as that of any stage.

use parkhang_core::domain::{
    ErrorCategory, FailureKind, Fence, LeaseReport, ReportReply, StageError, StageReport, StageVerdict,
};
use parkhang_core::failpoint::Failpoint;
use parkhang_core::policy::service::failure;
use parkhang_service::{JobFailure, JobLook};
use parkhang_state::StateError;
use parkhang_store::artifact::ArtifactLayout;
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::{ExternalStages, REPORT_AGAIN, ServedStage};
use crate::services::{WRITES, lost_job};

/// Version of the object that a result is written as.
const VERSION: u32 = 1;

impl ExternalStages {
    /// Writes the end of a job of a lease, if it has one.
    ///
    /// # Errors
    ///
    /// [`StateError`] if it cannot be written now; the job may be asked about again then.
    pub(super) async fn record_look(
        &self,
        served: &ServedStage,
        fence: &Fence,
        job: &str,
        look: JobLook,
    ) -> Result<(), StateError> {
        let (verdict, error) = match served.stage.service.retry.look(look) {
            JobLook::Running => return Ok(()),
            JobLook::Completed(result) => match self.keep(served, fence, job, &result).await? {
                Some(report) => (StageVerdict::Succeeded(report), None),
                // The lease is over.
                None => return Ok(()),
            },
            JobLook::Failed(failure) => (StageVerdict::Failed(failed(fence, &failure)), Some("failed")),
            JobLook::Lost => (StageVerdict::Failed(failed(fence, &lost_job())), Some("lost")),
        };
        // Once for each job, however often its end is heard of.
        if self.report(fence, verdict).await?
            && let Some(error) = error
        {
            served.shared.health.count_error(error);
        }
        Ok(())
    }

    /// Reports the end of a lease. Returns false if it was over already.
    pub(super) async fn report(&self, fence: &Fence, verdict: StageVerdict) -> Result<bool, StateError> {
        for _ in 0..WRITES {
            let report = LeaseReport {
                fence: fence.clone(),
                verdict: Some(verdict.clone()),
            };
            match self.orchestrator.report(report).await {
                ReportReply::Recorded => return Ok(true),
                ReportReply::Fenced => {
                    debug!(task = %fence.task, stage = %fence.stage, "the lease of a job was over");
                    return Ok(false);
                }
                ReportReply::Unrecorded => sleep(REPORT_AGAIN).await,
            }
        }
        Err(StateError::Unavailable(
            "the end of a job is not recorded".to_owned(),
        ))
    }

    /// Writes the result as an artifact of the lease; `None` if that is over.
    async fn keep(
        &self,
        served: &ServedStage,
        fence: &Fence,
        job: &str,
        result: &Value,
    ) -> Result<Option<StageReport>, StateError> {
        let store = &self.site.store;
        let task = store.task(fence.task).await?;
        let Some(task) = task.filter(|task| task.fence().as_ref() == Some(fence)) else {
            return Ok(None);
        };
        let Some(of) = store.job_by_id(task.job_id).await? else {
            return Ok(None);
        };
        let service = served.stage.service.name.as_str();
        let object = json!({
            "version": VERSION,
            "job": of.key.as_str(),
            "volume": task.volume.to_string(),
            "stage": fence.stage.as_str(),
            "attempt": fence.attempt.0,
            "generation": fence.generation.0,
            "service": service,
            "service_job": job,
            "result": result,
        });
        let bytes = object.to_string();
        let layout = ArtifactLayout::of(&of.config, &of.key).volume(&task.volume);
        let key = layout.service_result(fence);
        let size = bytes.len();
        // Whoever was first, webhook or poller, wrote the result of the same job.
        if let Err(error) = self.site.artifacts.put_if_absent(&key, bytes.into()).await {
            warn!(%key, %error, "the result of a job cannot be written now");
            return Err(StateError::Unavailable(error.to_string()));
        }
        Failpoint::ResultWritten.pass();
        Ok(Some(StageReport {
            metrics: json!({ "service": service, "service_job": job, "result": key.as_str(), "bytes": size }),
            ..StageReport::default()
        }))
    }
}

/// Error of a stage whose service failed.
pub(super) fn failed(fence: &Fence, found: &JobFailure) -> StageError {
    let category = match found.kind {
        FailureKind::Hard => ErrorCategory::Input,
        FailureKind::Retriable => ErrorCategory::Transient,
    };
    failure(&fence.stage, category, &found.message, found.kind)
}
