use parkhang_test_s3::{Endpoint, Fault, Method};
use parkhang_test_support::Wait;

use super::{code_of, key, noise, store_at};
use crate::storage::{ArtifactStore, MAX_OBJECT, PutOutcome};
use parkhang_core::domain::ErrorCategory;

const SEVERAL_PARTS: usize = (11 << 20) + 17;

#[tokio::test]
async fn a_long_object_goes_up_in_parts() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    let bytes = noise(SEVERAL_PARTS);
    store.put(&key("long"), bytes.clone()).await.unwrap();
    assert_eq!(endpoint.faults.requests(&Method::PUT, "partNumber="), 3);
    assert_eq!(endpoint.objects.pending_uploads(), 0);
    assert!(store.get(&key("long")).await.unwrap() == bytes);
    let range = (5 << 20) - 3..(5 << 20) + 5;
    let middle = bytes.slice(range.start as usize..range.end as usize);
    assert_eq!(store.get_range(&key("long"), range).await.unwrap(), middle);
}

#[tokio::test]
async fn a_long_object_is_created_once() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    let bytes = noise(SEVERAL_PARTS);
    let long = key("long");
    let create = |bytes| store.put_if_absent(&long, bytes);
    assert_eq!(create(bytes.clone()).await.unwrap(), PutOutcome::Created);
    assert_eq!(
        create(noise(SEVERAL_PARTS + 1)).await.unwrap(),
        PutOutcome::Exists
    );
    assert!(endpoint.objects.bytes("long").unwrap() == bytes);
    assert_eq!(endpoint.objects.pending_uploads(), 0);
}

#[tokio::test]
async fn a_failed_upload_leaves_neither_object_nor_parts() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    endpoint
        .faults
        .plan(Method::PUT, "partNumber=2", 1, Fault::Refuse(403, "AccessDenied"));
    let error = store.put(&key("long"), noise(SEVERAL_PARTS)).await.unwrap_err();
    assert_eq!(code_of(&error), "AccessDenied");
    assert_eq!(endpoint.objects.pending_uploads(), 0);
    assert_eq!(endpoint.objects.bytes("long"), None);
}

#[tokio::test]
async fn an_upload_that_is_given_up_leaves_no_parts() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    endpoint
        .faults
        .plan(Method::PUT, "partNumber=3", 1, Fault::Silence);
    let upload = tokio::spawn(async move { store.put(&key("long"), noise(SEVERAL_PARTS)).await });
    Wait::until("the third part is sent")
        .sees_async(
            async || endpoint.faults.requests(&Method::PUT, "partNumber=3"),
            |sent| *sent > 0,
        )
        .await;
    assert_eq!(endpoint.objects.pending_uploads(), 1);
    upload.abort();
    endpoint.objects.upload_ended.notified().await;
    assert_eq!(endpoint.objects.pending_uploads(), 0);
}

#[tokio::test]
async fn a_server_that_would_overwrite_is_not_asked_to_create() {
    let endpoint = Endpoint::without_conditions().await;
    let store = store_at(&endpoint).await;
    endpoint.objects.insert("a", "first");
    let error = store.put_if_absent(&key("a"), "second".into()).await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Config);
    assert_eq!(endpoint.objects.bytes("a").unwrap(), "first");
    store.put(&key("a"), "third".into()).await.unwrap();
    assert_eq!(endpoint.objects.bytes("a").unwrap(), "third");
    // What may be overwritten is.
    for seen in [None, Some("0123")] {
        let replaced = store.replace(&key("a"), "fourth".into(), seen).await.unwrap();
        assert_eq!(replaced, PutOutcome::Created, "{seen:?}");
    }
    assert_eq!(endpoint.objects.bytes("a").unwrap(), "fourth");
}

#[tokio::test]
async fn a_replacement_whose_answer_was_lost_knows_its_own_object() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    for bytes in [noise(1_000), noise(SEVERAL_PARTS)] {
        let name = key("replaced");
        store.put(&name, "seen".into()).await.unwrap();
        let seen = store.get_versioned(&name, MAX_OBJECT).await.unwrap().version;
        let (method, within) = match bytes.len() {
            SEVERAL_PARTS => (Method::POST, "uploadId="),
            _ => (Method::PUT, "replaced"),
        };
        endpoint.faults.plan(method, within, 1, Fault::LoseAnswer);
        let replaced = store.replace(&name, bytes.clone(), Some(&seen)).await.unwrap();
        assert_eq!(replaced, PutOutcome::Created);
        assert_eq!(store.get(&name).await.unwrap(), bytes);
        let again = store.replace(&name, "late".into(), Some(&seen)).await.unwrap();
        assert_eq!(again, PutOutcome::Exists);
        assert_eq!(store.get(&name).await.unwrap(), bytes);
    }
}

#[tokio::test]
async fn a_server_that_refuses_conditions_is_written_to_without() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    store.put(&key("a"), "seen".into()).await.unwrap();
    let seen = store.get_versioned(&key("a"), MAX_OBJECT).await.unwrap().version;
    let unknown = Fault::Refuse(501, "NotImplemented");
    endpoint.faults.plan(Method::PUT, "a", 1, unknown);
    let replaced = store.replace(&key("a"), "new".into(), Some(&seen)).await.unwrap();
    assert_eq!(replaced, PutOutcome::Created);
    assert_eq!(endpoint.objects.bytes("a").unwrap(), "new");
}

#[tokio::test]
async fn the_server_is_probed_once() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    for name in ["a", "b", "a"] {
        store.put_if_absent(&key(name), "x".into()).await.unwrap();
    }
    assert_eq!(endpoint.faults.requests(&Method::PUT, "creates-once"), 2);
    let next = store_at(&endpoint).await;
    next.put_if_absent(&key("c"), "x".into()).await.unwrap();
    assert_eq!(endpoint.faults.requests(&Method::PUT, "creates-once"), 3);
}
