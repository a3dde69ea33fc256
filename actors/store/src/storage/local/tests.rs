use std::thread;

use super::*;
use parkhang_core::domain::ErrorCategory;

#[tokio::test]
async fn a_second_process_reads_what_the_first_wrote_and_sees_no_staged_file() {
    let root = tempfile::tempdir().unwrap();
    let first = LocalStore::open(root.path()).await.unwrap();
    let second = LocalStore::open(root.path()).await.unwrap();
    let key = ArtifactKey::new("jobs/a").unwrap();
    let _half_written = first.folder.staging().unwrap().write(&[b"half"], false).unwrap();
    first.put(&key, Bytes::from_static(b"whole")).await.unwrap();
    assert_eq!(second.get(&key).await.unwrap(), "whole");
    let jobs = ArtifactKey::new("jobs").unwrap();
    assert_eq!(second.list(&jobs).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_store_that_is_only_read_leaves_nothing_in_its_folder() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), b"x").unwrap();
    let store = LocalStore::for_reading(root.path());
    assert_eq!(store.get(&ArtifactKey::new("a").unwrap()).await.unwrap(), "x");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    store
        .put(&ArtifactKey::new("b").unwrap(), "y".into())
        .await
        .unwrap();
    assert_eq!(store.get(&ArtifactKey::new("b").unwrap()).await.unwrap(), "y");
}

#[tokio::test]
async fn sync_forgets_only_its_own_folder() {
    let root = tempfile::tempdir().unwrap();
    let store = LocalStore::open(root.path()).await.unwrap();
    for name in ["a/1", "a/2", "b/1"] {
        let key = ArtifactKey::new(name).unwrap();
        store.put_unsynced(&key, Bytes::from_static(b"x")).await.unwrap();
    }
    store.sync(&ArtifactKey::new("a").unwrap()).await.unwrap();
    let left: Vec<String> = store.folder.unsynced().keys().map(ToString::to_string).collect();
    assert_eq!(left, ["b/1"]);
}

#[test]
fn what_is_written_again_during_its_deletion_is_still_to_be_flushed() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::new(root.path().to_owned());
    let key = ArtifactKey::new("a/1").unwrap();
    // Kept, as its folder would otherwise be removed and made again each time.
    fs::create_dir(root.path().join("a")).unwrap();
    fs::write(root.path().join("a/2"), b"x").unwrap();
    for _ in 0..500 {
        folder.put(&key, b"old", false).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| folder.put(&key, b"new", false).unwrap());
            scope.spawn(|| folder.delete(&key).unwrap());
        });
        let (written, noted) = (folder.path(&key).exists(), folder.unsynced().contains_key(&key));
        assert!(noted || !written, "a sync would pass over it");
    }
}

#[tokio::test]
async fn a_root_that_is_a_file_is_an_error_that_names_it() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = LocalStore::open(&file).await.unwrap_err();
    assert!(error.to_string().contains(file.to_str().unwrap()));
}

/// An unmounted file system leaves an empty folder, or none.
#[tokio::test]
async fn a_folder_that_is_gone_is_an_outage_and_no_missing_object() {
    let place = tempfile::tempdir().unwrap();
    let (root, away) = (place.path().join("mounted"), place.path().join("away"));
    fs::create_dir(&root).unwrap();
    let writer = LocalStore::open(&root).await.unwrap();
    let [key, absent] = ["jobs/a", "jobs/b"].map(|key| ArtifactKey::new(key).unwrap());
    writer.put(&key, Bytes::from_static(b"x")).await.unwrap();
    let reader = LocalStore::for_reading(&root);
    let folder = ArtifactKey::new("jobs").unwrap();

    fs::rename(&root, &away).unwrap();
    for is_empty_there in [false, true] {
        if is_empty_there {
            fs::create_dir(&root).unwrap();
        }
        for store in [&writer, &reader] {
            for error in [
                store.get(&key).await.unwrap_err(),
                store.get_range(&key, 0..1).await.unwrap_err(),
                store.head(&key).await.unwrap_err(),
                store.list(&folder).await.unwrap_err(),
                store.folders(&folder).await.unwrap_err(),
            ] {
                assert_eq!(error.category(), ErrorCategory::Network, "{error}");
                assert!(error.to_string().contains("is it mounted?"), "{error}");
            }
        }
        let error = writer.put(&key, Bytes::from_static(b"y")).await.unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Network, "{error}");
    }

    fs::remove_dir(&root).unwrap();
    fs::rename(&away, &root).unwrap();
    for store in [&writer, &reader] {
        assert_eq!(store.get(&key).await.unwrap(), "x");
        let error = store.get(&absent).await.unwrap_err();
        assert!(matches!(error, StorageError::NotFound { .. }), "{error}");
    }
}

#[test]
fn an_error_of_the_file_system_lies_in_no_object() {
    let key = ArtifactKey::new("a").unwrap();
    // EMFILE, ESTALE, EACCES, EROFS, EIO.
    for code in [24, 116, 13, 30, 5] {
        let error = failed("read", &key, io::Error::from_raw_os_error(code));
        assert_eq!(error.category(), ErrorCategory::Network, "{error}");
    }
}
