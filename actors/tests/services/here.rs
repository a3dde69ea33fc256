//! A service that this machine cannot ask for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parkhang_actors::services::{RetryOverrides, StageService};
use parkhang_core::domain::testing::new_job;
use parkhang_core::domain::{JobStatus, StageRunStatus};
use parkhang_service::{JobLook, JobService, ServiceError};
use parkhang_state::{MemoryStore, StateStore};
use parkhang_store::storage::MemoryArtifacts;
use serde_json::json;

use crate::tasks::{external, leader};

const STAGE: &str = "scrape";

/// Service whose first submit does not get out of this machine.
#[derive(Debug, Default)]
struct Unasked {
    submits: AtomicUsize,
}

#[async_trait]
impl JobService for Unasked {
    async fn submit(&self, key: &str, _: String) -> Result<String, ServiceError> {
        match self.submits.fetch_add(1, Ordering::SeqCst) {
            0 => Err(ServiceError::Here {
                host: "scraper.example".to_owned(),
                reason: "Temporary failure in name resolution".to_owned(),
            }),
            _ => Ok(key.to_owned()),
        }
    }

    async fn look(&self, _: &str) -> Result<JobLook, ServiceError> {
        Ok(JobLook::Completed(json!("text")))
    }

    async fn cancel(&self, _: &str) -> Result<(), ServiceError> {
        Ok(())
    }

    async fn reach(&self) -> Result<(), ServiceError> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resolver_that_gives_no_answer_costs_no_try() {
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&new_job(&[STAGE], 1), Utc::now()).await.unwrap();
    let service = Arc::new(Unasked::default());
    let stage = StageService {
        name: "scraper".to_owned(),
        client: service.clone(),
        template: None,
        max_body: 1 << 20,
        poll_interval: Duration::from_millis(50),
        has_webhook: false,
        retry: RetryOverrides::default(),
        reader: None,
    };
    let sandbox = leader(store.clone()).start().await;
    let (_, running) = external(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        Arc::new(MemoryArtifacts::new()),
        vec![(STAGE, stage)],
    );
    sandbox.job_ends(job.id, JobStatus::Completed).await;
    assert_eq!(service.submits.load(Ordering::SeqCst), 2);
    let task = store.tasks(job.id).await.unwrap().remove(0);
    let runs = store.stage_runs(task.id).await.unwrap();
    let statuses: Vec<StageRunStatus> = runs.iter().map(|run| run.status).collect();
    assert_eq!(statuses.last(), Some(&StageRunStatus::Done));
    assert!(!statuses.contains(&StageRunStatus::Failed), "{statuses:?}");
    running.abort();
    sandbox.stop().await;
}
