//! Tasks and rows at one service, which may have so much at once of both together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parkhang_actors::services::WorkElsewhere;
use parkhang_core::domain::testing::{new_job, stage};
use parkhang_state::{EmbeddedPostgres, EntityTable, MemoryStore, PostgresStore, StateError, StateStore};
use parkhang_store::storage::MemoryArtifacts;
use parkhang_test_support::Wait;
use tokio_util::sync::CancellationToken;

use crate::entities::{self, THEIRS, connect, pipeline, process, run};
use crate::service::{Fault, Service};
use crate::tasks::{self, at_rest, leader};

/// Jobs that never end.
const FOR_EVER: [(usize, Fault); 40] = [(1, Fault::Never); 40];

/// What others have at each service.
#[derive(Debug, Default)]
pub(crate) struct Others(AtomicUsize);

impl Others {
    pub(crate) fn with(number: usize) -> Arc<Self> {
        let others = Self::default();
        others.have(number);
        Arc::new(others)
    }

    pub(crate) fn have(&self, number: usize) {
        self.0.store(number, Ordering::Relaxed);
    }
}

#[async_trait]
impl WorkElsewhere for Others {
    async fn in_flight(&self, _: &str) -> Result<usize, StateError> {
        Ok(self.0.load(Ordering::Relaxed))
    }
}

/// Rows: 84, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_get_what_rows_leave_of_a_service() {
    let service = Service::start(&FOR_EVER).await;
    let store = Arc::new(MemoryStore::new());
    let job = store
        .create_job(&new_job(&["scrape"], 20), Utc::now())
        .await
        .unwrap();
    let others = Others::with(tasks::IN_FLIGHT - 2);
    let sandbox = leader(store.clone()).start().await;
    let external = at_rest(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        Arc::new(MemoryArtifacts::default()),
        vec![("scrape", service.at_stage("scraper", false))],
        Some(others.clone()),
    );
    let running = tokio::spawn(async move { external.run().await });
    let mut allowed = 2;
    for left in [2, 8] {
        let look = async || {
            let tasks = store.tasks(job.id).await.unwrap();
            tasks.iter().filter(|task| task.lease.is_some()).count()
        };
        let held = Wait::until("the service has as many tasks as are left to them")
            .sees_async(look, |held| *held >= left)
            .await;
        assert!(held <= allowed, "{held}");
        allowed = 8;
        others.have(tasks::IN_FLIGHT - allowed);
    }
    running.abort();
    sandbox.stop().await;
}

/// Rows: 84, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_get_what_tasks_leave_of_a_service() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let options = server.create_database("together").await.unwrap();
    let mut connection = connect(&options).await;
    run(&mut connection, THEIRS.to_owned()).await;
    run(&mut connection, EntityTable::schema(&pipeline())).await;
    let queue = "update leads set scrape_status = 'queued'".to_owned();
    run(&mut connection, queue).await;
    let service = Service::start(&FOR_EVER).await;
    let others = Others::with(entities::IN_FLIGHT - 2);
    let often = Duration::from_millis(50);
    let entities = process(&options, (&service, &service), often, Some(others.clone())).await;
    let looked = PostgresStore::connect_with(options).await.unwrap();
    let table = looked.entity_database().open(pipeline()).await.unwrap();
    let never = CancellationToken::new();
    let running = tokio::spawn(async move { entities.run(&never).await });
    let mut allowed = 2;
    for left in [2, 6] {
        let started = Wait::until("the service has as many rows as are left to them")
            .sees_async(
                async || table.in_flight(&[stage("scrape")]).await.unwrap(),
                |started| *started >= left,
            )
            .await;
        assert!(started <= allowed, "{started}");
        allowed = 6;
        others.have(entities::IN_FLIGHT - allowed);
    }
    running.abort();
}
