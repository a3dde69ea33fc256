//! The counts of a simulated fleet beside the requests of a real one: publisher, sources, dispatchers and pools, over queues in memory,
//! on paused time.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::{Instant, sleep};

use super::*;
use crate::{Distribution, Faults, NodeClass, Profile, QueueUse, Settings, StageProfile, Timings, simulate};
use parkhang_actors::source::{
    Clock, DeadLetters, Dispatcher, Publisher, QueueClaims, QueueOptions, SourceError, StageQueues,
};
use parkhang_core::domain::testing::{at, new_job, stage};
use parkhang_core::domain::{Hardware, JobConfig, JobStatus, StageReport, StageVerdict};
use parkhang_queue::{
    Counts, Delivery, Extended, Extension, MemoryServer, NewMessage, QueueError, QueueFacts, QueueServer,
    QueueSpec, Receipt, ReceiptStatus, Receive, Sent, TaskQueue,
};
use parkhang_sandbox::{FakeStage, NodePlan, Script};
use parkhang_state::{MemoryStore, StateStore};

const VOLUMES: usize = 23;
const SLOTS: usize = 2;
/// Nodes of each hardware. With more, ends coincide in the simulation that are milliseconds apart in fact.
const NODES: usize = 1;
const MAX_INTERRUPTIONS: i32 = 3;
/// Stages, what they run on, and the seconds that each volume takes; no idle time is a multiple of the wait, where a millisecond
/// would decide about a request.
const STAGES: [(&str, Hardware, u64); 3] = [
    ("find", Hardware::Gpu, 113),
    ("cut", Hardware::Cpu, 31),
    ("read", Hardware::Gpu, 67),
];

fn polling() -> Polling {
    Polling {
        options: QueueOptions {
            visibility: Duration::from_secs(60),
            wait: Duration::from_secs(20),
            ..QueueOptions::default()
        },
        poll: Duration::from_secs(5),
    }
}

/// A queue that counts the requests that one of SQS would have made.
#[derive(Debug)]
struct Counted {
    queue: Arc<dyn TaskQueue>,
    requests: Arc<Mutex<QueueRequests>>,
}

impl Counted {
    fn requests(&self) -> MutexGuard<'_, QueueRequests> {
        self.requests.lock().unwrap()
    }
}

fn batches(entries: usize) -> u64 {
    entries.div_ceil(MAX_BATCH) as u64
}

#[async_trait]
impl TaskQueue for Counted {
    fn name(&self) -> &str {
        self.queue.name()
    }

    fn url(&self) -> &str {
        self.queue.url()
    }

    async fn send_all(&self, messages: &[NewMessage]) -> Vec<Result<Sent, QueueError>> {
        assert!(
            messages
                .iter()
                .all(|message| message.bytes() as u64 <= crate::prices::MESSAGE_BYTES)
        );
        self.requests().messages += messages.len() as u64;
        self.requests().sends += batches(messages.len());
        self.queue.send_all(messages).await
    }

    async fn receive(&self, request: Receive) -> Result<Vec<Delivery>, QueueError> {
        self.requests().receives += 1;
        let received = self.queue.receive(request).await;
        self.requests().empty_receives += u64::from(received.as_ref().is_ok_and(Vec::is_empty));
        received
    }

    async fn extend_all(&self, extensions: &[Extension]) -> Vec<Result<Extended, QueueError>> {
        self.requests().visibility_changes += batches(extensions.len());
        self.queue.extend_all(extensions).await
    }

    async fn delete_all(&self, receipts: &[Receipt]) -> Vec<Result<ReceiptStatus, QueueError>> {
        self.requests().deletes += batches(receipts.len());
        self.queue.delete_all(receipts).await
    }

    async fn dead_letters(&self) -> Result<Arc<dyn TaskQueue>, QueueError> {
        Ok(Arc::new(Self {
            queue: self.queue.dead_letters().await?,
            requests: self.requests.clone(),
        }))
    }

    async fn counts(&self) -> Result<Counts, QueueError> {
        self.requests().looks += 1;
        self.queue.counts().await
    }

    async fn facts(&self) -> Result<QueueFacts, QueueError> {
        self.requests().looks += 1;
        self.queue.facts().await
    }

    async fn configure(&self, settings: &QueueFacts) -> Result<(), QueueError> {
        self.queue.configure(settings).await
    }

    async fn purge(&self) -> Result<(), QueueError> {
        self.queue.purge().await
    }
}

/// The clock of the test.
#[derive(Debug)]
struct PausedClock(Instant);

#[async_trait]
impl Clock for PausedClock {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        Ok(at(0) + TimeDelta::from_std(self.0.elapsed()).unwrap())
    }
}

fn success() -> StageVerdict {
    StageVerdict::Succeeded(StageReport::default())
}

/// Works a job off, and returns the requests and the time that it took.
async fn real() -> (QueueRequests, Duration) {
    let requests: Arc<Mutex<QueueRequests>> = Arc::default();
    let server = MemoryServer::new();
    let queues = StageQueues::default();
    for (name, ..) in STAGES {
        let queue = server
            .create(&QueueSpec::new(format!("{name}.fifo")))
            .await
            .unwrap();
        let requests = requests.clone();
        queues.found(&stage(name), Arc::new(Counted { queue, requests }));
    }
    let (store, clock) = (
        Arc::new(MemoryStore::new()),
        Arc::new(PausedClock(Instant::now())),
    );
    let names = STAGES.map(|(name, ..)| name);
    let job = store.create_job(&new_job(&names, VOLUMES), at(0)).await.unwrap();
    let publisher = Publisher::new(
        store.clone(),
        clock.clone(),
        queues.clone(),
        TimeDelta::minutes(10),
    );
    let letters = DeadLetters::new(store.clone(), clock.clone(), queues.clone());

    let mut nodes = Vec::new();
    for number in 0..NODES {
        for hardware in Hardware::ALL {
            let source = QueueClaims::new(
                store.clone(),
                clock.clone(),
                TimeDelta::seconds(60),
                MAX_INTERRUPTIONS,
                queues.clone(),
                polling().options,
            );
            let dispatcher = Dispatcher::start(Arc::new(source), polling().poll).await.unwrap();
            let stages = STAGES.iter().filter(|(_, runs_on, _)| *runs_on == hardware);
            let stages = stages.map(|(name, hardware, seconds)| {
                let script = Script::custom(async |_| {
                    sleep(Duration::from_secs(*seconds)).await;
                    success()
                });
                FakeStage::new(name, script).on(*hardware).shared().logic()
            });
            let plan = NodePlan::new(stages.collect())
                .named(format!("{}-{number}", hardware.as_str()))
                .slots(SLOTS)
                .heartbeat(Timings::default().heartbeat);
            nodes.push((plan.start(Arc::new(dispatcher.clone())).await, dispatcher));
        }
    }
    let began = Instant::now();
    let mut looked: Option<Instant> = None;
    while store.job_by_id(job.id).await.unwrap().unwrap().status != JobStatus::Completed {
        publisher.round().await.unwrap();
        publisher.look_for_lost().await.unwrap();
        if looked.is_none_or(|at| at.elapsed() >= Duration::from_millis(LOOK.unsigned_abs())) {
            letters.round().await.unwrap();
            looked = Some(Instant::now());
        }
        sleep(Duration::from_millis(ROUND.unsigned_abs())).await;
    }
    let took = began.elapsed();
    for (supervisor, dispatcher) in nodes {
        dispatcher.drain().await;
        supervisor.drain().await;
        supervisor.stop().await;
        dispatcher.stop().await;
    }
    let requests = *requests.lock().unwrap();
    (requests, took)
}

fn settings() -> Settings {
    let class = |hardware| NodeClass {
        hardware,
        nodes: NODES,
        slots: SLOTS,
        speed: 1.0,
    };
    let stages = STAGES.map(|(name, hardware, seconds)| StageProfile {
        stage: stage(name),
        hardware,
        seconds_per_page: Distribution::new(vec![seconds as f64 / 10.0]).unwrap(),
    });
    Settings {
        seed: 1,
        volumes: VOLUMES,
        fleet: Hardware::ALL.map(class).to_vec(),
        autoscaling: None,
        profile: Profile {
            about: "made up".to_owned(),
            pages_per_volume: Distribution::new(vec![10.0]).unwrap(),
            stages: stages.to_vec(),
        },
        faults: Faults {
            between: Duration::ZERO,
            failing_runs: 0.0,
            poison: 0.0,
            ..Faults::default()
        },
        sick: None,
        queues: Some(polling()),
        // Stores and queues in memory answer at once.
        timings: Timings {
            commit: Duration::ZERO,
            commit_each: Duration::ZERO,
            message: Duration::ZERO,
            ..Timings::default()
        },
        config: JobConfig::default(),
        horizon: Duration::from_secs(24 * 3600),
    }
}

fn is_close((_, simulated, real): &(&str, u64, u64)) -> bool {
    simulated.abs_diff(*real) <= 2 + real / 10
}

#[tokio::test(start_paused = true)]
async fn a_simulated_fleet_makes_the_requests_of_a_real_one() {
    let (real, took) = real().await;
    let report = simulate(settings()).await.unwrap();
    let simulated = report.queues.unwrap().requests;
    let of = (simulated, real);
    assert_eq!(simulated.messages, real.messages, "{of:?}");
    let mut pairs = vec![
        ("seconds", report.makespan_s as u64, took.as_secs()),
        ("sends", simulated.sends, real.sends),
        ("deletions", simulated.deletes, real.deletes),
        ("receives", simulated.receives, real.receives),
        ("receives in vain", simulated.empty_receives, real.empty_receives),
        (
            "changes of visibility",
            simulated.visibility_changes,
            real.visibility_changes,
        ),
        ("looks", simulated.looks, real.looks),
    ];
    pairs.retain(|pair| !is_close(pair));
    assert!(pairs.is_empty(), "simulated and real: {pairs:?} of {of:?}");
    assert!(real.visibility_changes > 50 && real.empty_receives > 50, "{of:?}");
}

async fn used(change: impl FnOnce(&mut Settings)) -> QueueUse {
    let mut settings = settings();
    change(&mut settings);
    simulate(settings).await.unwrap().queues.unwrap()
}

#[tokio::test]
async fn shorter_waits_and_visibilities_cost_more_requests() {
    let usual = used(|_| {}).await;
    let impatient =
        used(|settings| settings.queues.as_mut().unwrap().options.wait = Duration::from_secs(1)).await;
    assert!(impatient.requests.empty_receives > 10 * usual.requests.empty_receives);
    assert_eq!(impatient.requests.sends, usual.requests.sends);
    let short =
        used(|settings| settings.queues.as_mut().unwrap().options.visibility = Duration::from_secs(30)).await;
    assert!(short.requests.visibility_changes > usual.requests.visibility_changes);
    let no_wait = used(|settings| settings.queues.as_mut().unwrap().options.wait = Duration::ZERO).await;
    let polls = used(|settings| settings.queues.as_mut().unwrap().options.wait = polling().poll).await;
    assert_eq!(no_wait, polls, "without a wait the node asks at each poll");
}

#[tokio::test]
async fn lost_nodes_cost_a_receive_and_a_deletion_for_each_of_their_runs() {
    let storm = |settings: &mut Settings| {
        settings.faults = Faults {
            between: Duration::from_secs(300),
            repair: Duration::from_secs(30),
            announced: 0.5,
            ..settings.faults
        };
    };
    let mut settings = settings();
    storm(&mut settings);
    let report = simulate(settings).await.unwrap();
    let QueueUse { requests, .. } = report.queues.unwrap();
    assert!(report.ends.killed > 0 && report.ends.drained > 0, "{report:?}");
    let ended: u64 = report.stages.iter().map(|stage| stage.succeeded).sum();
    let ends = report.ends;
    let messages = ended + ends.failed + ends.crashed + ends.killed;
    // Those of the two slots of a pool share a request where they end together.
    let requests_for = messages / SLOTS as u64..=messages;
    assert!(
        requests_for.contains(&requests.deletes),
        "{requests:?}, {messages}"
    );
    assert!(requests.deletes >= ends.killed, "{requests:?}");
}
