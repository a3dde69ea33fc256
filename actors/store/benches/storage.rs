//! The S3 store against a server in this process: throughput of long objects, and what it costs a device that works off
//! scans when the server is 100 ms away.
//!
//! `cargo bench -p parkhang-store --bench storage`

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::StreamExt;
use parkhang_core::domain::VolumeId;
use parkhang_store::pages::{BucketFolders, PageRef, PageSource, read_ahead};
use parkhang_store::storage::{ArtifactKey, ArtifactStore, CachedStore, S3Options, S3Store};
use parkhang_test_s3::{ACCESS_KEY, BUCKET, Endpoint, Method, SECRET_KEY};
use tokio::runtime::Runtime;

const LONG: usize = 64 << 20;
/// As a colour scan of the archive.
const SCAN: usize = 500_000;
const PAGES: usize = 64;

struct Site {
    runtime: Runtime,
    endpoint: Endpoint,
    store: S3Store,
}

impl Site {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let (endpoint, store) = runtime.block_on(async {
            let endpoint = Endpoint::start().await;
            let mut options = S3Options::new(BUCKET).with_endpoint(&endpoint.url);
            options.region = Some("us-east-1".to_owned());
            let store = S3Store::open_with_keys(options, ACCESS_KEY, SECRET_KEY).await;
            (endpoint, store.unwrap())
        });
        Self {
            runtime,
            endpoint,
            store,
        }
    }
}

fn key(name: &str) -> ArtifactKey {
    ArtifactKey::new(name).unwrap()
}

fn noise(length: usize) -> Bytes {
    let step = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 24) as u8)
    };
    (0..length).scan(7, |state, _| step(state)).collect()
}

fn long_objects(criterion: &mut Criterion) {
    let site = Site::new();
    let bytes = noise(LONG);
    let mut group = criterion.benchmark_group("64 MiB");
    group.throughput(Throughput::Bytes(LONG as u64)).sample_size(10);
    group.bench_function("put in parts", |bencher| {
        bencher.iter(|| {
            site.runtime
                .block_on(site.store.put(&key("long"), bytes.clone()))
                .unwrap()
        });
    });
    group.bench_function("get", |bencher| {
        bencher.iter(|| black_box(site.runtime.block_on(site.store.get(&key("long"))).unwrap()));
    });
    let copies = tempfile::tempdir().unwrap();
    let cached = CachedStore::open(site.store.clone(), copies.path(), 1 << 30);
    let cached = site.runtime.block_on(cached).unwrap();
    group.bench_function("get from a copy", |bencher| {
        bencher.iter(|| black_box(site.runtime.block_on(cached.get(&key("long"))).unwrap()));
    });
    group.finish();
}

fn scans_from_afar(criterion: &mut Criterion) {
    let site = Site::new();
    let scan = noise(SCAN);
    for page in 0..PAGES {
        site.endpoint
            .objects
            .insert(&format!("W1-I1/{page:03}.jpg"), scan.clone());
    }
    site.endpoint
        .faults
        .delay(Method::GET, Duration::from_millis(100));
    let source = BucketFolders::new(Arc::new(site.store.clone()));
    let volume = VolumeId::new("W1", "I1").unwrap();
    let pages: Vec<PageRef> = site.runtime.block_on(source.pages(&volume)).unwrap();
    let mut group = criterion.benchmark_group("scans at 100 ms");
    group
        .throughput(Throughput::Elements(PAGES as u64))
        .sample_size(10);
    for ahead in [1, 4, 16, 32] {
        group.bench_function(BenchmarkId::new("read ahead", ahead), |bencher| {
            bencher.iter(|| {
                let read = read_ahead(&source, &volume, pages.clone(), ahead);
                let read = read.fold(0, async |sum, (_, bytes)| {
                    sum + bytes.unwrap().image().map_or(0, Bytes::len)
                });
                assert_eq!(site.runtime.block_on(read), PAGES * SCAN);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, long_objects, scans_from_afar);
criterion_main!(benches);
