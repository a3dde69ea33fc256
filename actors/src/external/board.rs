//! Leases of a service, as the poller reads them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parkhang_core::domain::Fence;
use parkhang_service::JobLook;
use parkhang_state::StateError;
use tracing::warn;

use super::submit::Handed;
use super::{ExternalStages, Station};
use crate::services::{JobBoard, Page};

/// Leases of a stage.
pub(super) struct Board<'a> {
    pub(super) stages: &'a ExternalStages,
    pub(super) station: &'a Arc<Station>,
}

#[async_trait]
impl JobBoard for Board<'_> {
    type Job = Fence;

    /// Leases without a job are submitted again on the way: whoever was to submit them may be gone.
    async fn page(
        &self,
        age: Duration,
        after: Option<&Self::Job>,
        limit: u32,
    ) -> Result<Page<Self::Job>, StateError> {
        let begun_by = chrono::Duration::from_std(age)
            .ok()
            .and_then(|age| Utc::now().checked_sub_signed(age));
        let services = &self.stages.site.services;
        let leases = services.service_leases(
            &self.station.worker,
            begun_by.unwrap_or_default(),
            after.map(|fence| fence.task),
            limit as usize,
        );
        let leases = leases.await?;
        let is_full = leases.len() >= limit as usize;
        let next = leases
            .last()
            .filter(|_| is_full)
            .and_then(|lease| lease.task.fence());
        let mut jobs = Vec::new();
        for lease in leases {
            let Some(fence) = lease.task.fence() else { continue };
            match lease.job {
                Some(job) => jobs.push((job, fence)),
                None => {
                    let handed = Handed {
                        station: self.station.clone(),
                        fence,
                        is_resumed: true,
                    };
                    // Fails only when the work on external stages has ended.
                    let _ = self.station.handed.send(handed);
                }
            }
        }
        Ok(Page { jobs, next })
    }

    async fn settle(&self, id: &str, fence: &Fence, look: JobLook) -> Result<(), StateError> {
        self.stages.settle(self.station, fence, id, look).await
    }

    fn unanswered(&self, error: &StateError) {
        warn!(stage = %self.station.stage.name, %error, "the leases of a service cannot be read now");
    }
}
