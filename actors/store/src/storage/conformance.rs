//! Conformance suite of stores, which every implementation passes.

#![expect(
    clippy::unwrap_used,
    reason = "a test suite: it lives here because other crates' stores pass it too"
)]

use std::sync::Arc;

use bytes::Bytes;

use super::{ArtifactKey, ArtifactStore, MAX_OBJECT, PutOutcome, StorageError};
use parkhang_core::domain::ErrorCategory;

/// Whole suite.
///
/// # Panics
///
/// Where the store does not keep a promise of the trait.
pub async fn suite(store: Arc<dyn ArtifactStore>) {
    refuses_a_key_that_is_a_folder(&*store).await;
    suite_of_a_bucket(store).await;
}

/// Part of the suite for stores that cannot tell a key from a folder, too.
///
/// # Panics
///
/// As [`suite`].
pub async fn suite_of_a_bucket(store: Arc<dyn ArtifactStore>) {
    reads_back_what_was_written(&*store).await;
    reads_ranges(&*store).await;
    refuses_what_is_too_large(&*store).await;
    reports_absence(&*store).await;
    lists_folders_in_order(&*store).await;
    deletes_twice(&*store).await;
    creates_once(&*store).await;
    replaces_what_was_seen(&*store).await;
    has_one_winner_of_racing_replacers(store.clone()).await;
    has_one_winner_of_racing_creators(store.clone()).await;
    survives_racing_writers_and_deleters(store).await;
}

fn key(text: &str) -> ArtifactKey {
    ArtifactKey::new(text).unwrap()
}

async fn reads_back_what_was_written(store: &dyn ArtifactStore) {
    let (deep, empty) = (key("read/b/c/d.bin"), key("read/empty"));
    let bytes = Bytes::from((0..=255).cycle().take(100_000).collect::<Vec<u8>>());
    store.put(&deep, bytes.clone()).await.unwrap();
    store.put_unsynced(&empty, Bytes::new()).await.unwrap();
    store.sync(&key("read")).await.unwrap();
    assert_eq!(store.get(&deep).await.unwrap(), bytes);
    let versioned = store.get_versioned(&deep, MAX_OBJECT).await.unwrap();
    assert_eq!(versioned.bytes, bytes);
    let changed = store
        .get_if_changed(&deep, &versioned.version, MAX_OBJECT)
        .await
        .unwrap();
    assert_eq!(changed, None);
    assert_eq!(store.get(&empty).await.unwrap(), Bytes::new());
    assert_eq!(store.head(&deep).await.unwrap().unwrap().size, 100_000);
    assert_eq!(store.head(&empty).await.unwrap().unwrap().size, 0);

    store.put(&deep, Bytes::from_static(b"shorter")).await.unwrap();
    assert_eq!(store.get(&deep).await.unwrap(), "shorter");
    let changed = store
        .get_if_changed(&deep, &versioned.version, MAX_OBJECT)
        .await
        .unwrap();
    let rewritten = store.get_versioned(&deep, MAX_OBJECT).await.unwrap();
    assert_ne!(rewritten.version, versioned.version);
    assert_eq!(changed, Some(rewritten));
}

async fn reads_ranges(store: &dyn ArtifactStore) {
    let object = key("range/object");
    store
        .put(&object, Bytes::from_static(b"0123456789"))
        .await
        .unwrap();
    for (range, expected) in [
        (0..4, "0123"),
        (3..5, "34"),
        (8..99, "89"),
        (10..12, ""),
        (4..4, ""),
    ] {
        assert_eq!(store.get_range(&object, range).await.unwrap(), expected);
    }
    let error = store.get_range(&object, 11..12).await.unwrap_err();
    assert!(
        matches!(error, StorageError::InvalidRange { size: 10, .. }),
        "{error}"
    );
}

async fn refuses_what_is_too_large(store: &dyn ArtifactStore) {
    let object = key("large/object");
    store
        .put(&object, Bytes::from_static(b"0123456789"))
        .await
        .unwrap();
    assert_eq!(store.get_within(&object, 10).await.unwrap(), "0123456789");
    assert!(store.get_versioned(&object, 10).await.is_ok());
    for error in [
        store.get_within(&object, 9).await.unwrap_err(),
        store.get_versioned(&object, 9).await.unwrap_err(),
        store.get_if_changed(&object, "0123", 9).await.unwrap_err(),
    ] {
        assert!(
            matches!(
                error,
                StorageError::TooLarge {
                    size: 10,
                    limit: 9,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(error.category(), ErrorCategory::Input);
    }
}

async fn reports_absence(store: &dyn ArtifactStore) {
    let absent = key("absent/object");
    for error in [
        store.get(&absent).await.unwrap_err(),
        store.get_within(&absent, 10).await.unwrap_err(),
        store.get_range(&absent, 0..1).await.unwrap_err(),
        store.get_if_changed(&absent, "0123", 10).await.unwrap_err(),
    ] {
        assert!(matches!(error, StorageError::NotFound { .. }), "{error}");
        assert!(error.to_string().contains("absent/object"));
        assert_eq!(error.category(), ErrorCategory::Input);
    }
    assert_eq!(store.head(&absent).await.unwrap(), None);
    assert!(store.list(&key("absent")).await.unwrap().is_empty());
}

async fn lists_folders_in_order(store: &dyn ArtifactStore) {
    for name in ["list/b/2", "list/b/10", "list/a", "list/b-side", "listing"] {
        store.put(&key(name), Bytes::from_static(b"xyz")).await.unwrap();
    }
    let listed = store.list(&key("list")).await.unwrap();
    let names: Vec<&str> = listed.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(names, ["list/a", "list/b-side", "list/b/10", "list/b/2"]);
    assert!(listed.iter().all(|(_, meta)| meta.size == 3));
    assert!(store.list(&key("list/a")).await.unwrap().is_empty());
    for name in ["b/c/1", "b/c/2", "d/1", "e/1"] {
        let key = key(&format!("list/{name}"));
        store.put(&key, Bytes::from_static(b"new")).await.unwrap();
    }
    store.delete(&key("list/e/1")).await.unwrap();
    assert_eq!(store.folders(&key("list")).await.unwrap(), ["b", "d"]);
    assert_eq!(store.folders(&key("list/b")).await.unwrap(), ["c"]);
    for none in ["list/a", "list/d", "nowhere"] {
        assert_eq!(store.folders(&key(none)).await.unwrap(), [""; 0], "{none}");
    }
    // A folder is no object.
    assert_eq!(store.head(&key("list")).await.unwrap(), None);
    assert!(matches!(
        store.get(&key("list")).await,
        Err(StorageError::NotFound { .. })
    ));
    assert!(matches!(
        store.get_range(&key("list"), 0..1).await,
        Err(StorageError::NotFound { .. })
    ));
    assert!(matches!(
        store.get(&key("list/a/x")).await,
        Err(StorageError::NotFound { .. })
    ));
}

async fn deletes_twice(store: &dyn ArtifactStore) {
    let object = key("delete/folder/object");
    store.put(&object, Bytes::from_static(b"x")).await.unwrap();
    store.delete(&object).await.unwrap();
    store.delete(&object).await.unwrap();
    assert_eq!(store.head(&object).await.unwrap(), None);
    // With its last object the folder is gone, and its name is free.
    store
        .put(&key("delete/folder"), Bytes::from_static(b"y"))
        .await
        .unwrap();
    store.delete(&key("delete")).await.unwrap();
    assert_eq!(store.get(&key("delete/folder")).await.unwrap(), "y");
}

async fn refuses_a_key_that_is_a_folder(store: &dyn ArtifactStore) {
    store
        .put(&key("prefix/object"), Bytes::from_static(b"x"))
        .await
        .unwrap();
    for name in ["prefix", "prefix/object/below", "prefix/object/far/below"] {
        let bytes = Bytes::from_static(b"y");
        for error in [
            store.put(&key(name), bytes.clone()).await.unwrap_err(),
            store.put_if_absent(&key(name), bytes).await.unwrap_err(),
        ] {
            assert!(
                matches!(error, StorageError::PrefixConflict { .. }),
                "{name}: {error}"
            );
        }
    }
    assert_eq!(store.get(&key("prefix/object")).await.unwrap(), "x");
}

async fn creates_once(store: &dyn ArtifactStore) {
    let object = key("create/object");
    let first = store
        .put_if_absent(&object, Bytes::from_static(b"1"))
        .await
        .unwrap();
    let second = store
        .put_if_absent(&object, Bytes::from_static(b"2"))
        .await
        .unwrap();
    assert_eq!((first, second), (PutOutcome::Created, PutOutcome::Exists));
    assert_eq!(store.get(&object).await.unwrap(), "1");
}

async fn replaces_what_was_seen(store: &dyn ArtifactStore) {
    let object = key("replace/object");
    let replace = async |text: &'static str, seen: Option<&str>| {
        let replaced = store.replace(&object, Bytes::from_static(text.as_bytes()), seen);
        replaced.await.unwrap()
    };
    let version = async || store.get_versioned(&object, MAX_OBJECT).await.unwrap().version;
    assert_eq!(replace("1", None).await, PutOutcome::Created);
    let first = version().await;
    assert_eq!(replace("x", None).await, PutOutcome::Exists);
    assert_eq!(replace("2", Some(&first)).await, PutOutcome::Created);
    assert_eq!(replace("x", Some(&first)).await, PutOutcome::Exists);
    assert_eq!(store.get(&object).await.unwrap(), "2");
    let second = version().await;
    store.delete(&object).await.unwrap();
    assert_eq!(replace("x", Some(&second)).await, PutOutcome::Exists);
    assert_eq!(store.head(&object).await.unwrap(), None);
}

async fn has_one_winner_of_racing_replacers(store: Arc<dyn ArtifactStore>) {
    let object = key("race/replaced");
    store.put(&object, Bytes::from_static(b"seen")).await.unwrap();
    let seen = store.get_versioned(&object, MAX_OBJECT).await.unwrap().version;
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let (store, object, seen) = (store.clone(), object.clone(), seen.clone());
            tokio::spawn(async move {
                let bytes = Bytes::from(format!("writer {writer}"));
                store.replace(&object, bytes, Some(&seen)).await.unwrap()
            })
        })
        .collect();
    let mut winners = Vec::new();
    for (writer, outcome) in writers.into_iter().enumerate() {
        if outcome.await.unwrap() == PutOutcome::Created {
            winners.push(format!("writer {writer}"));
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(store.get(&object).await.unwrap(), winners[0]);
}

async fn has_one_winner_of_racing_creators(store: Arc<dyn ArtifactStore>) {
    for round in 0..8 {
        let object = key(&format!("race/{round}/object"));
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let (store, object) = (store.clone(), object.clone());
                tokio::spawn(async move {
                    let bytes = Bytes::from(format!("writer {writer}"));
                    store.put_if_absent(&object, bytes).await.unwrap()
                })
            })
            .collect();
        let mut winners = Vec::new();
        for (writer, outcome) in writers.into_iter().enumerate() {
            if outcome.await.unwrap() == PutOutcome::Created {
                winners.push(format!("writer {writer}"));
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        assert_eq!(store.get(&object).await.unwrap(), winners[0]);
    }
}

async fn survives_racing_writers_and_deleters(store: Arc<dyn ArtifactStore>) {
    let tasks: Vec<_> = (0..16)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let own = key(&format!("churn/folder/{writer}"));
                for _ in 0..8 {
                    store.put_unsynced(&own, Bytes::from_static(b"x")).await.unwrap();
                    store.sync(&key("churn")).await.unwrap();
                    store.delete(&own).await.unwrap();
                }
                store.put(&own, Bytes::from_static(b"last")).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(store.list(&key("churn")).await.unwrap().len(), 16);
}
