//! The store against S3 servers of other people, each a process of its own.

use std::sync::Arc;
use std::time::Duration;

use parkhang_test_s3::external::{Server, ministack, moto_in_turn};
use uuid::Uuid;

use super::super::{client, keys};
use super::{S3Options, S3Store, key, noise};
use crate::storage::{ArtifactStore, PutOutcome, conformance};

const BUCKET: &str = "parkhang-test";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs moto_server beside $PYTHON: tests/python/requirements.txt"]
async fn moto_conforms() {
    let server = Server::start(moto_in_turn());
    conforms(&server.url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs ministack beside $PYTHON: tests/python/requirements.txt"]
async fn ministack_conforms() {
    let server = Server::start(ministack("s3"));
    conforms(&server.url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn another_server_conforms() {
    match std::env::var("PARKHANG_TEST_S3_ENDPOINT") {
        Ok(url) => conforms(&url).await,
        Err(_) => eprintln!("skipped: PARKHANG_TEST_S3_ENDPOINT names no S3 server to test against"),
    }
}

async fn conforms(url: &str) {
    let folder = format!("run-{}", Uuid::new_v4().simple());
    let mut options = S3Options::new(BUCKET)
        .with_endpoint(url)
        .with_prefix(key(&folder));
    options.region = Some("us-east-1".to_owned());
    options.backoff = Duration::from_millis(50);
    options.part_bytes = 5 << 20;
    let keys = match std::env::var_os("AWS_ACCESS_KEY_ID") {
        Some(_) => None,
        None => Some(keys("test", "test")),
    };
    let connection = client::connect(&options, keys).await.unwrap();
    // It may be there from an earlier run.
    let _ = connection.client.create_bucket().bucket(BUCKET).send().await;
    let store = S3Store::new(options, connection);
    conformance::suite_of_a_bucket(Arc::new(store.clone())).await;
    takes_parts_and_creates_once(&store).await;
    takes_names_of_any_script(&store).await;
}

async fn takes_parts_and_creates_once(store: &S3Store) {
    let bytes = noise((11 << 20) + 1);
    for expected in [PutOutcome::Created, PutOutcome::Exists] {
        let outcome = store.put_if_absent(&key("long"), bytes.clone()).await;
        assert_eq!(outcome.unwrap(), expected);
    }
    assert!(store.get(&key("long")).await.unwrap() == bytes);
    store.put(&key("long"), bytes.slice(1..)).await.unwrap();
    assert!(store.get(&key("long")).await.unwrap() == bytes.slice(1..));
}

async fn takes_names_of_any_script(store: &S3Store) {
    for name in ["scans/བོད་/a b+c&d=%41.jpg", "scans/ü~(1)'#?.jpg"] {
        store.put(&key(name), name.into()).await.unwrap();
        assert_eq!(store.get(&key(name)).await.unwrap(), name);
    }
    assert_eq!(store.list(&key("scans")).await.unwrap().len(), 2);
}
