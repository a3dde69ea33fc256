//! Jobs in the columns of rows, as the poller reads them.

use std::time::Duration;

use async_trait::async_trait;
use parkhang_service::JobLook;
use parkhang_state::{StateError, SubmittedJob};

use super::{Entities, ServedStage};
use crate::services::{Page, PolledJobs};

/// Jobs of a stage.
pub(super) struct PolledRows<'a> {
    pub(super) entities: &'a Entities,
    pub(super) served: &'a ServedStage,
}

#[async_trait]
impl PolledJobs for PolledRows<'_> {
    type Job = SubmittedJob;

    async fn page(
        &self,
        age: Duration,
        after: Option<&SubmittedJob>,
        limit: u32,
    ) -> Result<Page<SubmittedJob>, StateError> {
        let table = &self.entities.table;
        let jobs = table
            .submitted(&self.served.stage.name, age, after, limit)
            .await?;
        let is_full = jobs.len() >= limit as usize;
        Ok(Page {
            next: jobs.last().filter(|_| is_full).cloned(),
            jobs: jobs.into_iter().map(|job| (job.job.clone(), job)).collect(),
        })
    }

    async fn record_look(&self, id: &str, job: &SubmittedJob, look: JobLook) -> Result<(), StateError> {
        self.entities
            .record_look(self.served, &job.id, id, look)
            .await
            .map(drop)
    }

    fn unanswered(&self, error: &StateError) {
        self.entities.unanswered(self.served, error);
    }
}
