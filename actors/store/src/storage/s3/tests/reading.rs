use parkhang_test_s3::{BUCKET, Endpoint, Fault, Method, SECRET_KEY};

use super::{S3Options, code_of, connect, key, options, store_at};
use crate::storage::{ArtifactStore, MAX_OBJECT, StorageError};
use parkhang_core::domain::ErrorCategory;

#[tokio::test]
async fn a_list_of_many_pages_is_whole_and_holds_keys_only() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    for index in 0..25 {
        endpoint.objects.insert(&format!("many/{index:02}"), "x");
    }
    for foreign in ["many/", "many/folder/", "many/.hidden", "many//x", "manyfold/x"] {
        endpoint.objects.insert(foreign, "x");
    }
    endpoint.faults.plan(
        Method::GET,
        "continuation-token",
        2,
        Fault::Refuse(500, "InternalError"),
    );
    let listed = store.list(&key("many")).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|(key, _)| key.as_str()).collect();
    let expected: Vec<String> = (0..25).map(|index| format!("many/{index:02}")).collect();
    assert_eq!(names, expected);
}

/// Rows: F7.
#[tokio::test]
async fn stores_in_two_folders_of_a_bucket_do_not_see_each_other() {
    let endpoint = Endpoint::start().await;
    let in_folder = |folder| connect(options(&endpoint).with_prefix(key(folder)), SECRET_KEY);
    let (one, other) = (in_folder("one").await, in_folder("one/other").await);
    one.put(&key("a/b"), "1".into()).await.unwrap();
    other.put_if_absent(&key("a/b"), "2".into()).await.unwrap();
    assert_eq!(endpoint.objects.bytes("one/a/b").unwrap(), "1");
    assert_eq!(endpoint.objects.bytes("one/other/a/b").unwrap(), "2");
    let listed = other.list(&key("a")).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].0, key("a/b"));
    assert_eq!(one.list(&key("other")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_version_is_the_etag() {
    let endpoint = Endpoint::start().await;
    let store = store_at(&endpoint).await;
    store.put(&key("a"), "hello".into()).await.unwrap();
    let object = store.get_versioned(&key("a"), MAX_OBJECT).await.unwrap();
    assert_eq!(object.bytes, "hello");
    assert_eq!(object.version, "5d41402abc4b2a76b9719d911017c592");
}

#[tokio::test]
async fn a_missing_bucket_and_a_wrong_secret_are_outages_and_no_fault_of_an_object() {
    let endpoint = Endpoint::start().await;
    let elsewhere = S3Options {
        bucket: "elsewhere".to_owned(),
        ..options(&endpoint)
    };
    let missing = connect(elsewhere, SECRET_KEY).await;
    let locked_out = connect(options(&endpoint), "wrong").await;
    for (store, code) in [(missing, "NoSuchBucket"), (locked_out, "SignatureDoesNotMatch")] {
        let error = store.get(&key("a")).await.unwrap_err();
        assert_eq!(code_of(&error), code);
        assert_eq!(error.category(), ErrorCategory::Network);
        assert!(
            matches!(error, StorageError::Remote { attempts: 1, .. }),
            "{error}"
        );
        assert!(store.list(&key("a")).await.is_err());
    }
}

#[tokio::test]
async fn nothing_that_is_printed_holds_the_secret() {
    let endpoint = Endpoint::start().await;
    let store = connect(options(&endpoint), SECRET_KEY).await;
    endpoint
        .faults
        .plan(Method::GET, BUCKET, 99, Fault::Refuse(503, "SlowDown"));
    let error = store.get(&key("a")).await.unwrap_err();
    assert!(!format!("{store:?} {error} {error:?}").contains(SECRET_KEY));
}
