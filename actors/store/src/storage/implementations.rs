//! Every store of the room against the conformance suite.

use std::sync::Arc;

use parkhang_test_s3::{Endpoint, Fault};

use super::conformance::{suite, suite_of_a_bucket};
use super::s3::tests as s3;
use super::{CachedStore, DelayedStore, LocalStore, MemoryArtifacts, StoreDelay};

#[tokio::test]
async fn memory() {
    suite(Arc::new(MemoryArtifacts::new())).await;
}

#[tokio::test]
async fn one_that_can_be_slowed_down() {
    let store = DelayedStore::new(Arc::new(MemoryArtifacts::new()), StoreDelay::default());
    suite(Arc::new(store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn local_folder() {
    let root = tempfile::tempdir().unwrap();
    suite(Arc::new(LocalStore::open(root.path()).await.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bucket() {
    let endpoint = Endpoint::start().await;
    suite_of_a_bucket(Arc::new(s3::store_at(&endpoint).await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bucket_of_a_server_that_keeps_failing() {
    let endpoint = Endpoint::start().await;
    let faults = [
        Fault::Refuse(503, "SlowDown"),
        Fault::LoseAnswer,
        Fault::Refuse(500, "InternalError"),
        Fault::CutBody(3),
        Fault::Refuse(409, "ConditionalRequestConflict"),
    ];
    endpoint.faults.come_round(5, faults.to_vec());
    suite_of_a_bucket(Arc::new(s3::stubborn_store_at(&endpoint).await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cached_bucket() {
    let (endpoint, copies) = (Endpoint::start().await, tempfile::tempdir().unwrap());
    let bucket = s3::store_at(&endpoint).await;
    let cached = CachedStore::open(bucket, copies.path(), 1 << 20).await.unwrap();
    suite_of_a_bucket(Arc::new(cached)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cached_folder() {
    let (root, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = LocalStore::open(root.path()).await.unwrap();
    let cached = CachedStore::open(folder, copies.path(), 1 << 20).await.unwrap();
    suite(Arc::new(cached)).await;
}
