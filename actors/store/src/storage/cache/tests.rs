use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use parkhang_test_s3::{Endpoint, Fault, Method};

use super::super::MemoryArtifacts;
use super::super::s3::tests::store_at;
use super::*;

const ROOMY: u64 = 1 << 20;

fn key(text: &str) -> ArtifactKey {
    ArtifactKey::new(text).unwrap()
}

fn stats(hits: u64, misses: u64) -> CacheStats {
    CacheStats { hits, misses }
}

fn bytes_in(folder: &Path) -> u64 {
    let shelves = fs::read_dir(folder.join("copies")).unwrap();
    let files = shelves.flat_map(|shelf| fs::read_dir(shelf.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

async fn filled(
    store: MemoryArtifacts,
    names: impl IntoIterator<Item = String>,
    size: usize,
) -> MemoryArtifacts {
    for name in names {
        let bytes = name.bytes().cycle().take(size).collect::<Vec<u8>>();
        store.put(&key(&name), bytes.into()).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_second_read_moves_no_bytes_and_a_rewritten_object_is_read_anew() {
    let endpoint = Endpoint::start().await;
    let folder = tempfile::tempdir().unwrap();
    let store = CachedStore::open(store_at(&endpoint).await, folder.path(), ROOMY)
        .await
        .unwrap();
    let page = key("page");
    endpoint.objects.insert("page", "first");
    for _ in 0..3 {
        assert_eq!(store.get(&page).await.unwrap(), "first");
    }
    assert_eq!(store.stats(), stats(2, 1));
    assert_eq!(store.get_range(&page, 1..3).await.unwrap(), "ir");
    assert_eq!(store.stats(), stats(3, 1));

    // By another writer, past this cache.
    endpoint.objects.insert("page", "second");
    assert_eq!(store.get(&page).await.unwrap(), "second");
    assert_eq!(store.get(&page).await.unwrap(), "second");
    assert_eq!(store.stats(), stats(4, 2));

    store.delete(&page).await.unwrap();
    assert!(matches!(
        store.get(&page).await,
        Err(StorageError::NotFound { .. })
    ));
    let overload = Fault::Refuse(503, "SlowDown");
    endpoint.objects.insert("page", "second");
    endpoint.faults.plan(Method::GET, "page", 2, overload);
    assert_eq!(store.get(&page).await.unwrap(), "second");
}

#[tokio::test]
async fn what_was_written_here_is_not_fetched() {
    let endpoint = Endpoint::start().await;
    let folder = tempfile::tempdir().unwrap();
    let store = CachedStore::open(store_at(&endpoint).await, folder.path(), ROOMY)
        .await
        .unwrap();
    let (line, part, claim) = (key("line"), key("part"), key("claim"));
    store.put_unsynced(&line, "line".into()).await.unwrap();
    store.put(&part, "part".into()).await.unwrap();
    for text in ["claim", "too late"] {
        store.put_if_absent(&claim, text.into()).await.unwrap();
    }
    for name in [&line, &part, &claim] {
        assert_eq!(store.get(name).await.unwrap(), name.as_str());
    }
    assert_eq!(store.stats(), stats(3, 0));
}

#[tokio::test]
async fn what_was_not_read_for_longest_goes_first() {
    let names = || (0..32).map(|index| format!("page/{index}"));
    let store = filled(MemoryArtifacts::new(), names(), 1000).await;
    let folder = tempfile::tempdir().unwrap();
    let store = CachedStore::open(store, folder.path(), 16 << 10).await.unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    for (age, name) in (0..).zip(names().take(12)) {
        store.get(&key(&name)).await.unwrap();
        let used = long_ago + Duration::from_secs(age);
        let copy = fs::File::open(store.disk.path(&key(&name))).unwrap();
        copy.set_modified(used).unwrap();
    }
    // The oldest is read again, and then the rest is too much.
    store.get(&key("page/0")).await.unwrap();
    assert_eq!(store.stats(), stats(1, 12));
    for name in names().skip(12).take(5) {
        store.get(&key(&name)).await.unwrap();
        assert!(bytes_in(folder.path()) <= 16 << 10);
    }
    assert!(store.disk.holds(&key("page/0")));
    assert!(!store.disk.holds(&key("page/1")));
    assert!(store.disk.holds(&key("page/11")));
    assert!(store.disk.holds(&key("page/16")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stores_that_share_a_folder_share_its_capacity_and_never_read_a_part() {
    let names = || (0..64).map(|index| format!("page/{index}"));
    let source = Arc::new(filled(MemoryArtifacts::new(), names(), 3000).await);
    let folder = tempfile::tempdir().unwrap();
    let capacity = 64 << 10;
    let readers: Vec<_> = (0..4)
        .map(|reader| {
            let (source, folder) = (Arc::clone(&source), folder.path().to_owned());
            tokio::spawn(async move {
                let own = filled(MemoryArtifacts::new(), names(), 3000).await;
                let store = CachedStore::open(own, folder, capacity).await.unwrap();
                for step in 0..256 {
                    let name = key(&format!("page/{}", (step * 7 + reader * 13) % 64));
                    assert_eq!(store.get(&name).await.unwrap(), source.get(&name).await.unwrap());
                }
                store.stats()
            })
        })
        .collect();
    for reader in readers {
        let stats = reader.await.unwrap();
        assert_eq!(stats.hits + stats.misses, 256);
    }
    // Each of them may not have seen a thirty-second part of the capacity, and a copy.
    let bound = capacity + 4 * (capacity / 32 + 3100);
    assert!(bytes_in(folder.path()) <= bound, "{}", bytes_in(folder.path()));
}

#[tokio::test]
async fn a_damaged_copy_and_a_lost_folder_are_fetched_again() {
    let store = filled(MemoryArtifacts::new(), ["page".to_owned()], 1000).await;
    let whole = store.get(&key("page")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = CachedStore::open(store, folder.path(), ROOMY).await.unwrap();
    assert_eq!(store.get(&key("page")).await.unwrap(), whole);
    let copy = store.disk.path(&key("page"));
    let half = fs::read(&copy).unwrap()[..500].to_vec();
    fs::write(&copy, half).unwrap();
    assert_eq!(store.get(&key("page")).await.unwrap(), whole);
    assert_eq!(store.stats(), stats(0, 2));
    assert_eq!(store.get(&key("page")).await.unwrap(), whole);
    assert_eq!(store.stats(), stats(1, 2));

    fs::remove_dir_all(folder.path()).unwrap();
    for _ in 0..2 {
        assert_eq!(store.get(&key("page")).await.unwrap(), whole);
    }
    assert_eq!(store.stats(), stats(1, 4));
}

#[tokio::test]
async fn an_object_too_long_for_the_cache_passes_through() {
    let store = filled(MemoryArtifacts::new(), ["page".to_owned()], 1000).await;
    let folder = tempfile::tempdir().unwrap();
    let store = CachedStore::open(store, folder.path(), 1200).await.unwrap();
    assert_eq!(store.get(&key("page")).await.unwrap().len(), 1000);
    assert_eq!(bytes_in(folder.path()), 0);
    assert_eq!(store.get_range(&key("page"), 0..4).await.unwrap(), "page");
}
