//! Jobs in the columns of rows, as the poller reads them.

use std::time::Duration;

use async_trait::async_trait;
use parkhang_service::JobLook;
use parkhang_state::{StateError, SubmittedJob};

use super::{Entities, Station};
use crate::services::{JobBoard, Page};

/// Jobs of a stage.
pub(super) struct Board<'a> {
    pub(super) entities: &'a Entities,
    pub(super) station: &'a Station,
}

#[async_trait]
impl JobBoard for Board<'_> {
    type Job = SubmittedJob;

    async fn page(
        &self,
        age: Duration,
        after: Option<&SubmittedJob>,
        limit: u32,
    ) -> Result<Page<SubmittedJob>, StateError> {
        let table = &self.entities.table;
        let jobs = table
            .submitted(&self.station.stage.name, age, after, limit)
            .await?;
        let is_full = jobs.len() >= limit as usize;
        Ok(Page {
            next: jobs.last().filter(|_| is_full).cloned(),
            jobs: jobs.into_iter().map(|job| (job.job.clone(), job)).collect(),
        })
    }

    async fn settle(&self, id: &str, job: &SubmittedJob, look: JobLook) -> Result<(), StateError> {
        self.entities
            .settle(self.station, &job.id, id, look)
            .await
            .map(drop)
    }

    fn unanswered(&self, error: &StateError) {
        self.entities.unanswered(self.station, error);
    }
}
