//! What a pass costs with 1,000 nodes of four stages and 70,000 tasks: the decision alone, with what it reads from memory,
//! and with what it reads from Postgres. A slot has become free, which is what passes are mostly about; and all of them
//! are free, which is how a job begins.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a bench fails by panicking")]

#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use criterion::{Criterion, criterion_group, criterion_main};
use parkhang_actors::stage::ocr_pipeline;
use parkhang_core::domain::testing::pool;
use parkhang_core::domain::{PoolInfo, StageName};
use parkhang_core::policy::placement::{FreeSlots, Placement, place};
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, Leases, MemoryStore, Ready, StateStore};
use support::Server;

const NODES: usize = 1_000;
const TASKS: usize = 70_000;

fn pools() -> Vec<PoolInfo> {
    let pipeline = ocr_pipeline();
    let nodes = (0..NODES).flat_map(|node| {
        let stages = pipeline.stages().iter();
        let pool = move |stage: &StageName| pool(&format!("node-{node}.1-{stage}"), stage.as_str(), 1);
        stages.map(pool).collect::<Vec<_>>()
    });
    nodes.collect()
}

struct Crowd {
    store: Arc<dyn StateStore>,
    pools: Vec<PoolInfo>,
}

impl Crowd {
    /// The first stage of all nodes is busy, but for one of them.
    async fn new(store: Arc<dyn StateStore>) -> Self {
        let job = support::job_of(&store, TASKS).await;
        let (tasks, pools) = (store.tasks(job.id).await.unwrap(), pools());
        let first = job.pipeline.first();
        let busy: Vec<&PoolInfo> = pools.iter().filter(|pool| pool.stage == *first).skip(1).collect();
        let changes = tasks.iter().zip(busy).map(|(task, pool)| {
            let event = Event::Leased {
                stage: first.clone(),
                worker: pool.worker.clone(),
                until: Utc::now() + TimeDelta::days(1),
            };
            Change::new(Expected::of(task), event)
        });
        let changes: Vec<Change> = changes.collect();
        store.commit(&changes, Utc::now()).await.unwrap();
        Self { store, pools }
    }

    async fn read(&self) -> (Leases, BTreeMap<StageName, usize>, Ready) {
        let now = Utc::now();
        let leases = self.store.leases(now).await.unwrap();
        let room = FreeSlots::of(&self.pools, &leases.held).room();
        let ready = self.store.ready_tasks(&room, now).await.unwrap();
        (leases, room, ready)
    }

    /// All that a pass does before it writes.
    async fn pass(&self) -> Vec<Placement> {
        let now = Utc::now();
        let leases = self.store.leases(now).await.unwrap();
        let free = FreeSlots::of(&self.pools, &leases.held);
        let ready = self.store.ready_tasks(&free.room(), now).await.unwrap();
        place(
            now,
            ready.tasks.iter().map(|(task, job)| (task, job.as_ref())),
            free,
            &leases.held,
        )
    }
}

fn decisions(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    let memory: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
    let memory = runtime.block_on(Crowd::new(memory));
    let postgres = runtime.block_on(async { Crowd::new(server.store("router", true).await).await });
    let mut group = criterion.benchmark_group("router");
    group.measurement_time(Duration::from_secs(5)).sample_size(20);

    let (leases, _, ready) = runtime.block_on(memory.read());
    assert_eq!(runtime.block_on(memory.pass()).len(), 1, "one slot is free");
    let decide = |leases: &Leases, ready: &Ready| {
        let free = FreeSlots::of(&memory.pools, &leases.held);
        let tasks = ready.tasks.iter().map(|(task, job)| (task, job.as_ref()));
        place(Utc::now(), tasks, free, &leases.held).len()
    };
    group.bench_function("decide/one slot free", |bencher| {
        bencher.iter(|| decide(black_box(&leases), black_box(&ready)));
    });
    let room = FreeSlots::of(&memory.pools, &[]).room();
    let all = runtime
        .block_on(memory.store.ready_tasks(&room, Utc::now()))
        .unwrap();
    group.bench_function("decide/all slots free", |bencher| {
        bencher.iter(|| decide(black_box(&Leases::default()), black_box(&all)));
    });
    for (name, crowd) in [("memory", &memory), ("postgres", &postgres)] {
        group.bench_function(format!("pass/{name}"), |bencher| {
            bencher.iter(|| runtime.block_on(crowd.pass()));
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
