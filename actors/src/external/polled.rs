//! Leases of a service, as the poller reads them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use parkhang_core::domain::Fence;
use parkhang_service::JobLook;
use parkhang_state::StateError;
use tracing::warn;

use super::{ExternalStages, ServedStage};
use crate::services::{Page, PolledJobs};

/// Age from which on a lease without a job is submitted again: a younger one may be on its way here as an assignment.
const ON_ITS_WAY: TimeDelta = TimeDelta::seconds(1);

/// Leases of a stage.
pub(super) struct PolledLeases<'a> {
    pub(super) stages: &'a ExternalStages,
    pub(super) served: &'a Arc<ServedStage>,
}

#[async_trait]
impl PolledJobs for PolledLeases<'_> {
    type Job = Fence;

    /// Leases without a job are submitted again on the way: whoever was to submit them may be gone.
    async fn page(
        &self,
        age: Duration,
        after: Option<&Self::Job>,
        limit: u32,
    ) -> Result<Page<Self::Job>, StateError> {
        let now = (self.stages.site.now)();
        let age = TimeDelta::from_std(age).ok();
        let begun_by = age.and_then(|age| now.checked_sub_signed(age));
        let services = &self.stages.site.services;
        let leases = services.service_leases(
            &self.served.worker,
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
            let began = lease.task.started_at;
            match lease.job {
                // Further parts of the job are yet to be begun.
                Some(_) if self.served.shared.under_way.borrow().contains(&fence) => {}
                Some(job) => jobs.push((job, fence)),
                None if began.is_some_and(|began| now - began < ON_ITS_WAY) => {}
                // Fails only when the work on external stages has ended.
                None => drop(self.served.request(fence, true)),
            }
        }
        Ok(Page { jobs, next })
    }

    async fn record_look(&self, id: &str, fence: &Fence, look: JobLook) -> Result<(), StateError> {
        self.stages.record_look(self.served, fence, id, look).await
    }

    async fn note_looks(&self, leases: &[Fence]) -> Result<(), StateError> {
        let site = &self.stages.site;
        site.services.note_polls(leases, (site.now)()).await
    }

    fn unanswered(&self, error: &StateError) {
        warn!(stage = %self.served.stage.name, %error, "the leases of a service cannot be read now");
    }
}
