//! A backlog of tasks whose stages do nothing, through queues and beside them: published, and worked off by four nodes. Queues are
//! those in memory, and those of the SQS server at `PARKHANG_BENCH_SQS_ENDPOINT` with what that server does by itself; beside them
//! an orchestrator assigns the same work. Prints messages a second, and each as a share of what limits it.
//! `PARKHANG_BENCH_TASKS` is the number of tasks; `cargo bench --bench queues -- --test` runs it once, small.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a bench fails by panicking")]

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use futures::future::join_all;
use parkhang_actors::orchestrator::{JobEnd, OrchestratorConfig};
use parkhang_actors::source::{Dispatcher, Publisher, QueueClaims, QueueOptions, StageQueues, StoreClock};
use parkhang_actors::stage::{StageLogic, ocr_pipeline};
use parkhang_core::domain::{JobId, JobStatus};
use parkhang_queue::{
    MemoryServer, NewMessage, QueueServer, QueueSpec, Receive, SqsOptions, SqsServer, TaskQueue,
};
use parkhang_sandbox::{FakeStage, NodePlan, Sandbox, Script};
use parkhang_state::{PostgresStore, StateStore};
use support::Server;

/// Address of the SQS server.
const ENDPOINT: &str = "PARKHANG_BENCH_SQS_ENDPOINT";
/// Number of tasks, if it is not to be the usual one.
const TASKS: &str = "PARKHANG_BENCH_TASKS";
const NODES: usize = 4;
/// Slots of each stage of a node.
const SLOTS: usize = 25;
const MAX_INTERRUPTIONS: i32 = 3;
const POLL: Duration = Duration::from_secs(5);

fn stages() -> Vec<Arc<dyn StageLogic>> {
    let pipeline = ocr_pipeline();
    let stages = pipeline.stages().iter();
    stages
        .map(|name| FakeStage::new(name.as_str(), Script::Succeed).shared().logic())
        .collect()
}

fn node(number: usize) -> NodePlan {
    NodePlan::new(stages())
        .slots(SLOTS)
        .named(format!("bench-{number}"))
}

/// Messages, or stages of tasks, a second.
fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Rates of a way to distribute work.
#[derive(Debug, Clone, Copy)]
struct Rates {
    /// Messages published a second.
    published: Option<f64>,
    /// Stages begun and recorded a second.
    worked: f64,
}

/// Rates of a queue whose only user sends, receives and deletes.
#[derive(Debug, Clone, Copy)]
struct Limit {
    sent: f64,
    /// Received and deleted.
    taken: f64,
}

/// Sends messages in batches, then has four consumers receive and delete them in batches.
async fn limit(server: &dyn QueueServer, messages: usize) -> Limit {
    let queue = server.create(&spec("limit")).await.unwrap();
    let message =
        |number: usize| NewMessage::new("x".repeat(200)).in_group(number.to_string(), number.to_string());
    let all: Vec<NewMessage> = (0..messages).map(message).collect();
    let began = Instant::now();
    for sent in queue.send_all(&all).await {
        sent.unwrap();
    }
    let sent = rate(messages, began.elapsed());
    let began = Instant::now();
    let taken = join_all((0..NODES).map(|_| take(&*queue))).await;
    assert_eq!(taken.iter().sum::<usize>(), messages);
    let taken = rate(messages, began.elapsed());
    Limit { sent, taken }
}

async fn take(queue: &dyn TaskQueue) -> usize {
    let mut taken = 0;
    loop {
        let received = queue
            .receive(Receive::one(Duration::from_secs(600)).up_to(10))
            .await
            .unwrap();
        if received.is_empty() {
            return taken;
        }
        taken += received.len();
        let receipts: Vec<_> = received.into_iter().map(|delivery| delivery.receipt).collect();
        for deleted in queue.delete_all(&receipts).await {
            deleted.unwrap();
        }
    }
}

/// Queue of this run, which finds no messages of an earlier one.
fn spec(name: &str) -> QueueSpec {
    QueueSpec::new(format!("bench-{}-{name}.fifo", std::process::id()))
}

async fn queued(server: &dyn QueueServer, store: Arc<PostgresStore>, tasks: usize) -> Rates {
    let pipeline = ocr_pipeline();
    let queues = StageQueues::default();
    for stage in pipeline.stages() {
        let queue = server
            .create(&spec(&stage.as_str().replace('_', "-")))
            .await
            .unwrap();
        queues.found(stage, queue);
    }
    let clock = Arc::new(StoreClock(store.clone()));
    let publisher = Publisher::new(
        store.clone(),
        clock.clone(),
        queues.clone(),
        TimeDelta::minutes(10),
    );
    let job = store
        .create_job(&support::new_job("queued", tasks), Utc::now())
        .await
        .unwrap();
    let began = Instant::now();
    assert_eq!(publisher.round().await.unwrap(), tasks as u64);
    let published = rate(tasks, began.elapsed());

    let began = Instant::now();
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let lease = TimeDelta::from_std(OrchestratorConfig::new(store.clone()).lease).unwrap();
        let options = QueueOptions {
            wait: Duration::from_secs(1),
            ..QueueOptions::default()
        };
        let source = QueueClaims::new(
            store.clone(),
            clock.clone(),
            lease,
            MAX_INTERRUPTIONS,
            queues.clone(),
            options,
        );
        let dispatcher = Dispatcher::start(Arc::new(source), POLL).await.unwrap();
        nodes.push((node(number).start(Arc::new(dispatcher.clone())).await, dispatcher));
    }
    publish_until_done(&publisher, &store, job.id).await;
    let worked = rate(tasks * pipeline.stages().len(), began.elapsed());
    for (supervisor, dispatcher) in nodes {
        dispatcher.drain().await;
        supervisor.drain().await;
        supervisor.stop().await;
        dispatcher.stop().await;
    }
    Rates {
        published: Some(published),
        worked,
    }
}

/// Publishes when there is news of work, as an orchestrator does, until the job is completed.
async fn publish_until_done(publisher: &Publisher, store: &PostgresStore, job: JobId) {
    let mut work = store.work_changes().await.unwrap();
    let mut jobs = store.job_changes().await.unwrap();
    while store.job_by_id(job).await.unwrap().unwrap().status != JobStatus::Completed {
        publisher.round().await.unwrap();
        tokio::select! {
            change = jobs.next() => change.unwrap(),
            change = work.next() => drop(change.unwrap()),
        }
    }
}

async fn assigned(store: Arc<PostgresStore>, tasks: usize) -> Rates {
    let sandbox = Sandbox::over(store.clone()).start().await;
    for number in 0..NODES {
        sandbox.node(node(number)).await;
    }
    let job = store
        .create_job(&support::new_job("assigned", tasks), Utc::now())
        .await
        .unwrap();
    let began = Instant::now();
    sandbox.orchestrator.wake();
    let end = sandbox.orchestrator.job_end(job.id).await.unwrap();
    assert_eq!(end, JobEnd::Finished(JobStatus::Completed));
    let worked = rate(tasks * ocr_pipeline().stages().len(), began.elapsed());
    sandbox.stop().await;
    Rates {
        published: None,
        worked,
    }
}

fn print(way: &str, rates: Rates, direct: Rates, limit: Option<Limit>) {
    let published = rates
        .published
        .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
    println!(
        "{way:<10} published {published:>7}  stages worked {:>7.0}, {:.2} of direct",
        rates.worked,
        rates.worked / direct.worked
    );
    if let (Some(limit), Some(published)) = (limit, rates.published) {
        println!(
            "{:<10} alone: sent {:.0}, received and deleted {:.0}; published is {:.2} of it, worked {:.2}",
            "",
            limit.sent,
            limit.taken,
            published / limit.sent,
            rates.worked / limit.taken
        );
    }
}

#[tokio::main]
async fn main() {
    let small = std::env::args().any(|argument| argument == "--test");
    let usual = if small { 40 } else { 10_000 };
    let tasks = std::env::var(TASKS).map_or(usual, |tasks| tasks.parse().unwrap());
    let postgres = Server::start();
    println!("{tasks} tasks of 4 stages, {NODES} nodes with {SLOTS} slots for each stage; a second:");
    let direct = assigned(postgres.postgres("direct", true).await, tasks).await;
    print("direct", direct, direct, None);

    let memory = MemoryServer::new();
    let alone = limit(&memory, tasks).await;
    let rates = queued(&memory, postgres.postgres("memory", true).await, tasks).await;
    print("memory", rates, direct, Some(alone));

    let Ok(url) = std::env::var(ENDPOINT) else {
        println!("SKIPPED: no SQS server, as {ENDPOINT} names none");
        return;
    };
    let mut options = SqsOptions::default().with_endpoint(url);
    options.region = Some("us-east-1".to_owned());
    let server = SqsServer::open_with_keys(&options, "test", "test").await.unwrap();
    let alone = limit(&server, tasks).await;
    let rates = queued(&server, postgres.postgres("server", true).await, tasks).await;
    print("server", rates, direct, Some(alone));
}
