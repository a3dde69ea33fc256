//! What a leader makes of news about services, and of none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parkhang_actors::services::{RetryOverrides, StageService};
use parkhang_core::domain::ServiceRecord;
use parkhang_core::domain::testing::at;
use parkhang_sandbox::Sandbox;
use parkhang_service::{JobLook, JobService, ServiceError};
use parkhang_state::{MemoryStore, ServiceStore};
use parkhang_store::storage::MemoryArtifacts;
use tokio::time::sleep;

use crate::distant::DistantServices;
use crate::tasks::{IN_FLIGHT, at_rest};
use crate::together::Others;

const HOUR: Duration = Duration::from_secs(3600);
/// Several times the interval at which the counts of a service are recorded.
const A_WHILE: Duration = Duration::from_secs(60);

/// Service that nobody gives anything.
#[derive(Debug)]
struct Idle;

#[async_trait]
impl JobService for Idle {
    async fn submit(&self, key: &str, _: String) -> Result<String, ServiceError> {
        Ok(key.to_owned())
    }

    async fn look(&self, _: &str) -> Result<JobLook, ServiceError> {
        Ok(JobLook::Running)
    }

    async fn cancel(&self, _: &str) -> Result<(), ServiceError> {
        Ok(())
    }

    async fn reach(&self) -> Result<(), ServiceError> {
        Ok(())
    }
}

fn idle() -> StageService {
    StageService {
        name: "scraper".to_owned(),
        client: Arc::new(Idle),
        template: None,
        max_body: 1000,
        poll_interval: Duration::from_secs(2),
        has_webhook: false,
        retry: RetryOverrides::default(),
        reader: None,
    }
}

/// Leader over a store in memory that makes no pass unless it is woken.
async fn leader(store: &Arc<MemoryStore>) -> Sandbox {
    Sandbox::over(store.clone())
        .configured(|config| {
            config.lease = 8 * HOUR;
            config.full_pass = HOUR;
        })
        .start()
        .await
}

/// Rows: 84.
#[tokio::test(start_paused = true)]
async fn a_service_without_news_wakes_no_pass() {
    /// Looks at the clock, of which each pass has one.
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    let store = Arc::new(MemoryStore::on_clock(|| {
        LOOKS.fetch_add(1, Ordering::Relaxed);
        Utc::now()
    }));
    let sandbox = leader(&store).await;
    let others = Others::with(IN_FLIGHT);
    let external = at_rest(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        Arc::new(MemoryArtifacts::default()),
        vec![("scrape", idle())],
        Some(others.clone()),
    );
    let running = tokio::spawn(async move { external.run().await });
    sleep(A_WHILE).await;
    let begun = LOOKS.load(Ordering::Relaxed);
    assert!(begun > 0, "a pool that registers wakes one");
    sleep(A_WHILE).await;
    assert_eq!(LOOKS.load(Ordering::Relaxed), begun);
    // Now it may be given more than before.
    others.have(0);
    sleep(A_WHILE).await;
    assert!(LOOKS.load(Ordering::Relaxed) > begun);
    running.abort();
}

/// Rows: 84, 242.
#[tokio::test(start_paused = true)]
async fn counts_of_a_service_outlive_a_leader_who_cannot_read_them_at_first() {
    let store = Arc::new(MemoryStore::new());
    let record = ServiceRecord {
        name: "scraper".to_owned(),
        failures: 0,
        paused_until: None,
        error: None,
        submits: 7,
        errors: [("busy".to_owned(), 3)].into(),
        told_at: at(0),
    };
    store.record_service(&record).await.unwrap();
    let services = Arc::new(DistantServices::failing(store.clone(), 3));
    let sandbox = leader(&store).await;
    let external = at_rest(
        &sandbox.orchestrator,
        store.clone(),
        services.clone(),
        Arc::new(MemoryArtifacts::default()),
        vec![("scrape", idle())],
        None,
    );
    let running = tokio::spawn(async move { external.run().await });
    sleep(A_WHILE).await;
    let found = store.services().await.unwrap().remove(0);
    assert_eq!(services.yet_to_fail(), 0);
    assert!(found.told_at > record.told_at, "it was recorded since");
    assert_eq!((found.submits, found.errors), (record.submits, record.errors));
    running.abort();
}
