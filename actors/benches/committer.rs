//! Durable transitions a second, through the group committer, on a Postgres that flushes: a lease and its end for each task, so many
//! at once. It commits them in groups of at most 1,000.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a bench fails by panicking")]

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use parkhang_actors::orchestrator::GroupCommitter;
use parkhang_core::domain::{Job, Task, WorkerId};
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, Outcome, StateStore};
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use support::Server;

const TASKS: usize = 20_000;

/// Actor that the committer is linked to.
struct Owner;

impl Owner {
    async fn start() -> ActorCell {
        let (owner, _) = Actor::spawn(None, Self, ()).await.unwrap();
        owner.get_cell()
    }
}

impl Actor for Owner {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Tasks that go round: leased for their first stage, and given back.
struct Round {
    committer: GroupCommitter,
    job: Job,
    tasks: Vec<Task>,
}

impl Round {
    async fn new(store: Arc<dyn StateStore>) -> Self {
        let job = support::job_of(&store, TASKS).await;
        Self {
            tasks: store.tasks(job.id).await.unwrap(),
            committer: GroupCommitter::spawn(store, Utc::now, Owner::start().await)
                .await
                .unwrap(),
            job,
        }
    }

    /// Two durable transitions for each of the first `count` tasks.
    async fn turn(&mut self, count: usize) {
        let lease = |_: &Task| Event::Leased {
            stage: self.job.pipeline.first().clone(),
            worker: WorkerId("gpu-17.1-line_detection".to_owned()),
            until: Utc::now() + TimeDelta::seconds(60),
        };
        let leased = self.commit(&self.tasks[..count], lease).await;
        let released = self.commit(&leased, |_| Event::Released).await;
        self.tasks[..count].clone_from_slice(&released);
    }

    async fn commit(&self, tasks: &[Task], event: impl Fn(&Task) -> Event) -> Vec<Task> {
        let changes = tasks
            .iter()
            .map(|task| Change::new(Expected::of(task), event(task)));
        let outcomes = self.committer.commit_all(changes.collect()).await.unwrap();
        let applied = outcomes.into_iter().map(|outcome| match outcome {
            Outcome::Applied(task) => task,
            refused => panic!("{refused:?}"),
        });
        applied.collect()
    }
}

fn transitions(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::start();
    for (name, flush) in [("flushed", true), ("unflushed", false)] {
        let mut round = runtime.block_on(async { Round::new(server.store(name, flush).await).await });
        let mut group = criterion.benchmark_group(format!("committer/{name}"));
        group
            .sample_size(10)
            .sampling_mode(SamplingMode::Flat)
            .measurement_time(Duration::from_secs(10));
        for at_once in [1, 10, 100, 1_000, 10_000] {
            group.throughput(Throughput::Elements(2 * at_once as u64));
            group.bench_function(BenchmarkId::from_parameter(at_once), |bencher| {
                bencher.iter_custom(|iterations| {
                    let began = Instant::now();
                    for _ in 0..iterations {
                        runtime.block_on(round.turn(at_once));
                    }
                    began.elapsed()
                });
            });
        }
        group.finish();
        round.committer.stop();
    }
}

criterion_group!(benches, transitions);
criterion_main!(benches);
