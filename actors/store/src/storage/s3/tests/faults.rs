use parkhang_test_s3::{Endpoint, Fault, Method, SECRET_KEY};

use super::{code_of, connect, impatient, key, noise, store_at};
use crate::storage::{ArtifactStore, PutOutcome, StorageError};
use parkhang_core::domain::ErrorCategory;

/// Rows: F27.
#[tokio::test]
async fn overload_and_broken_bodies_are_ridden_out() {
    let endpoint = Endpoint::start().await;
    let store = connect(impatient(&endpoint), SECRET_KEY).await;
    let bytes = noise(300_000);
    store.put(&key("page"), bytes.clone()).await.unwrap();
    for fault in [
        Fault::Refuse(503, "SlowDown"),
        Fault::Refuse(500, "InternalError"),
        Fault::Silence,
        Fault::LoseAnswer,
        Fault::CutBody(0),
        Fault::CutBody(150_000),
        Fault::CutBody(299_999),
        Fault::StallBody(150_000),
    ] {
        endpoint.faults.plan(Method::GET, "page", 2, fault);
        let before = endpoint.faults.requests(&Method::GET, "page");
        assert_eq!(store.get(&key("page")).await.unwrap(), bytes, "{fault:?}");
        assert_eq!(
            endpoint.faults.requests(&Method::GET, "page") - before,
            3,
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_body_that_never_comes_whole_is_an_error() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    store.put(&key("page"), noise(300_000)).await.unwrap();
    endpoint
        .faults
        .plan(Method::GET, "page", 99, Fault::CutBody(150_000));
    for error in [
        store.get(&key("page")).await.unwrap_err(),
        store.get_range(&key("page"), 5..299_000).await.unwrap_err(),
    ] {
        assert_eq!(error.category(), ErrorCategory::Network);
        assert!(
            matches!(error, StorageError::Remote { attempts: 6, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("page"));
    }
}

#[tokio::test]
async fn the_body_of_an_object_that_is_too_large_is_not_fetched() {
    let endpoint = Endpoint::start().await;
    let store = connect(impatient(&endpoint), SECRET_KEY).await;
    store.put(&key("page"), noise(300_000)).await.unwrap();
    // A reader of the body waits for its end, and asks again.
    endpoint
        .faults
        .plan(Method::GET, "page", 99, Fault::StallBody(150_000));
    let error = store.get_within(&key("page"), 299_999).await.unwrap_err();
    let too_large = matches!(
        error,
        StorageError::TooLarge {
            size: 300_000,
            limit: 299_999,
            ..
        }
    );
    assert!(too_large, "{error}");
    assert_eq!(endpoint.faults.requests(&Method::GET, "page"), 1);
    assert_eq!(endpoint.faults.requests(&Method::HEAD, "page"), 0);
}

#[tokio::test]
async fn writes_survive_overload_and_lost_answers() {
    let endpoint = Endpoint::start().await;
    let store = connect(impatient(&endpoint), SECRET_KEY).await;
    for (name, fault) in [
        ("slow", Fault::Refuse(503, "SlowDown")),
        ("silent", Fault::Silence),
        ("lost", Fault::LoseAnswer),
    ] {
        endpoint.faults.plan(Method::PUT, name, 2, fault);
        store.put(&key(name), name.into()).await.unwrap();
        assert_eq!(endpoint.objects.bytes(name).unwrap(), name);
    }
    endpoint.faults.plan(Method::DELETE, "lost", 2, Fault::LoseAnswer);
    store.delete(&key("lost")).await.unwrap();
    assert_eq!(endpoint.objects.bytes("lost"), None);
    endpoint
        .faults
        .plan(Method::HEAD, "slow", 2, Fault::Refuse(503, "SlowDown"));
    assert_eq!(store.head(&key("slow")).await.unwrap().unwrap().size, 4);
}

#[tokio::test]
async fn a_creator_whose_answer_is_lost_is_still_the_creator() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    endpoint.faults.plan(Method::PUT, "claim", 1, Fault::LoseAnswer);
    let claim = key("claim");
    let create = |text: &'static str| store.put_if_absent(&claim, text.into());
    assert_eq!(create("mine").await.unwrap(), PutOutcome::Created);
    assert_eq!(create("yours").await.unwrap(), PutOutcome::Exists);
    // A second try finds the key taken by someone else.
    endpoint
        .faults
        .plan(Method::PUT, "claim", 1, Fault::Refuse(500, "InternalError"));
    assert_eq!(create("theirs").await.unwrap(), PutOutcome::Exists);
    assert_eq!(endpoint.objects.bytes("claim").unwrap(), "mine");
}

#[tokio::test]
async fn an_upload_whose_last_answer_is_lost_is_complete() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    let bytes = noise(6 << 20);
    for name in ["put", "create"] {
        endpoint
            .faults
            .plan(Method::POST, "uploadId=", 1, Fault::LoseAnswer);
        endpoint
            .faults
            .plan(Method::PUT, "partNumber=1", 1, Fault::LoseAnswer);
        if name == "put" {
            store.put(&key(name), bytes.clone()).await.unwrap();
        } else {
            let outcome = store.put_if_absent(&key(name), bytes.clone()).await.unwrap();
            assert_eq!(outcome, PutOutcome::Created);
        }
        assert!(endpoint.objects.bytes(name).unwrap() == bytes);
        // A second upload would have begun with another request for an id.
        assert_eq!(
            endpoint
                .faults
                .requests(&Method::POST, &format!("{name}?uploads")),
            1
        );
        assert_eq!(endpoint.objects.pending_uploads(), 0);
    }
}

#[tokio::test]
async fn an_upload_that_was_cleaned_away_begins_again() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    let bytes = noise(6 << 20);
    endpoint.faults.plan(
        Method::POST,
        "uploadId=",
        1,
        Fault::Refuse(409, "ConditionalRequestConflict"),
    );
    let outcome = store.put_if_absent(&key("long"), bytes.clone()).await.unwrap();
    assert_eq!(outcome, PutOutcome::Created);
    assert!(endpoint.objects.bytes("long").unwrap() == bytes);
    assert_eq!(endpoint.objects.pending_uploads(), 0);
}

#[tokio::test]
async fn a_server_that_stays_down_ends_in_an_error_that_says_so() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    endpoint
        .faults
        .plan(Method::PUT, "page", 99, Fault::Refuse(503, "SlowDown"));
    let error = store.put(&key("page"), "x".into()).await.unwrap_err();
    assert_eq!(code_of(&error), "SlowDown");
    assert_eq!(error.category(), ErrorCategory::Network);
    assert_eq!(endpoint.faults.requests(&Method::PUT, "page"), 6);

    let gone = store_at(&endpoint).await;
    drop(endpoint);
    let error = gone.get(&key("page")).await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Network);
}
