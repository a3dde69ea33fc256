use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::super::client;
use super::{S3Options, S3Store, key, noise};
use crate::storage::{ArtifactStore, PutOutcome, conformance};

const ENDPOINT: &str = "PARKHANG_TEST_S3_ENDPOINT";
const BUCKET: &str = "parkhang-test";

/// A folder of its own on the server that the environment names, with the credentials of the SDK's chain.
async fn store() -> Option<S3Store> {
    let Ok(url) = std::env::var(ENDPOINT) else {
        eprintln!("skipped: {ENDPOINT} names no S3 server to test against");
        return None;
    };
    let folder = format!("run-{}", Uuid::new_v4().simple());
    let mut options = S3Options::new(BUCKET)
        .with_endpoint(url)
        .with_prefix(key(&folder));
    options.backoff = Duration::from_millis(50);
    options.part_bytes = 5 << 20;
    let connection = client::connect(&options, None).await.unwrap();
    // It may be there from an earlier run.
    let _ = connection.client.create_bucket().bucket(BUCKET).send().await;
    Some(S3Store::new(options, connection))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn another_server_conforms() {
    let Some(store) = store().await else { return };
    conformance::suite_of_a_bucket(Arc::new(store)).await;
}

#[tokio::test]
async fn another_server_takes_parts_and_creates_once() {
    let Some(store) = store().await else { return };
    let bytes = noise((11 << 20) + 1);
    for expected in [PutOutcome::Created, PutOutcome::Exists] {
        let outcome = store.put_if_absent(&key("long"), bytes.clone()).await;
        assert_eq!(outcome.unwrap(), expected);
    }
    assert!(store.get(&key("long")).await.unwrap() == bytes);
    store.put(&key("long"), bytes.slice(1..)).await.unwrap();
    assert!(store.get(&key("long")).await.unwrap() == bytes.slice(1..));
}

#[tokio::test]
async fn another_server_takes_names_of_any_script() {
    let Some(store) = store().await else { return };
    for name in ["scans/བོད་/a b+c&d=%41.jpg", "scans/ü~(1)'#?.jpg"] {
        store.put(&key(name), name.into()).await.unwrap();
        assert_eq!(store.get(&key(name)).await.unwrap(), name);
    }
    assert_eq!(store.list(&key("scans")).await.unwrap().len(), 2);
}
