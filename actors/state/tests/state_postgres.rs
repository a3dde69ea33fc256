//! The conformance suite on a real Postgres server. The server's binaries must be installed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parkhang_state::{EmbeddedPostgres, PostgresStore, StateStore, conformance};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_passes_the_conformance_suite() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let count = AtomicUsize::new(0);
    conformance::suite(async || {
        let name = format!("suite_{}", count.fetch_add(1, Ordering::Relaxed));
        let options = server.create_database(&name).await.unwrap();
        Arc::new(PostgresStore::connect_with(options).await.unwrap()) as Arc<dyn StateStore>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_passes_the_suite_of_inboxes() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let count = AtomicUsize::new(0);
    conformance::inbox::suite(async || {
        let name = format!("inbox_{}", count.fetch_add(1, Ordering::Relaxed));
        let options = server.create_database(&name).await.unwrap();
        let store = Arc::new(PostgresStore::connect_with(options).await.unwrap());
        conformance::inbox::Both {
            store: store.clone(),
            inbox: store,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_passes_the_suite_of_outboxes() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let count = AtomicUsize::new(0);
    conformance::outbox::suite(async || {
        let name = format!("outbox_{}", count.fetch_add(1, Ordering::Relaxed));
        let options = server.create_database(&name).await.unwrap();
        let store = Arc::new(PostgresStore::connect_with(options).await.unwrap());
        conformance::outbox::Both {
            store: store.clone(),
            outbox: store,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_passes_the_suite_of_services() {
    let server = EmbeddedPostgres::temporary().unwrap_or_else(|error| panic!("{error}"));
    let count = AtomicUsize::new(0);
    conformance::services::suite(async || {
        let name = format!("services_{}", count.fetch_add(1, Ordering::Relaxed));
        let options = server.create_database(&name).await.unwrap();
        let store = Arc::new(PostgresStore::connect_with(options).await.unwrap());
        conformance::services::Both {
            store: store.clone(),
            services: store,
        }
    })
    .await;
}
