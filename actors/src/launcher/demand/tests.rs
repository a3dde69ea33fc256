use std::time::Duration;

use chrono::TimeDelta;

use super::*;
use crate::launcher::local::tests::Machine;
use crate::launcher::{Autoscaler, AutoscalerConfig, Launcher};
use crate::stage::{StageTable, ocr_pipeline};
use parkhang_core::domain::testing::at;
use parkhang_core::policy::autoscale::Limits;
use parkhang_queue::refusing::{Refused, RefusingQueue};
use parkhang_queue::{MemoryServer, NewMessage, QueueServer, QueueSpec, Receive, TaskQueue};

/// A clock that somebody sets.
#[derive(Debug)]
struct SetClock(Mutex<DateTime<Utc>>);

#[async_trait]
impl Clock for SetClock {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        Ok(*self.0.lock().unwrap())
    }
}

struct World {
    clock: Arc<SetClock>,
    queue: Arc<RefusingQueue>,
    queues: StageQueues,
    demand: Arc<QueueDemand>,
}

impl World {
    /// The queue of a stage that needs a gpu.
    async fn new() -> Self {
        let server = MemoryServer::new();
        let queue = server.create(&QueueSpec::new("lines.fifo")).await.unwrap();
        let queue = Arc::new(RefusingQueue::new(queue));
        let queues = StageQueues::default();
        queues.found(ocr_pipeline().first(), queue.clone());
        let clock = Arc::new(SetClock(Mutex::new(at(0))));
        let demand = Arc::new(QueueDemand::new(queues.clone(), clock.clone()));
        Self {
            clock,
            queue,
            queues,
            demand,
        }
    }

    fn set(&self, second: i64) {
        *self.clock.0.lock().unwrap() = at(second);
    }

    async fn send(&self, messages: usize) {
        for number in 0..messages {
            let id = number.to_string();
            let message = NewMessage::new("work").in_group(id.clone(), id);
            self.queue.send(message).await.unwrap();
        }
    }

    fn autoscaler(&self, launcher: Arc<dyn Launcher>) -> Autoscaler {
        let limits = Limits {
            floor: 0,
            cap: 4,
            tasks_per_slot: 1,
            max_age: TimeDelta::hours(1),
            scale_out_cooldown: TimeDelta::zero(),
            scale_in_cooldown: TimeDelta::zero(),
        };
        let config = AutoscalerConfig {
            limits: Hardware::ALL.map(|hardware| (hardware, limits)).into(),
            slots: BTreeMap::from([(Hardware::Gpu, 2)]),
            stages: StageTable::built_in(),
        };
        Autoscaler::new(self.demand.clone(), launcher, config)
    }
}

/// Rows: 152, 155.
#[tokio::test]
async fn a_fleet_follows_its_queues_from_zero_to_the_cap_and_back() {
    let world = World::new().await;
    let machine = Machine::new();
    let launcher = Arc::new(machine.launcher());
    let autoscaler = world.autoscaler(launcher.clone());
    let desired = async |second| {
        world.set(second);
        autoscaler.pass().await.unwrap();
        launcher.workers(Hardware::Gpu).await.unwrap().desired
    };
    assert_eq!(desired(0).await, 0);
    world.send(5).await;
    assert_eq!(desired(30).await, 3, "five messages for two slots each");
    assert_eq!(launcher.workers(Hardware::Cpu).await.unwrap().desired, 0);
    let hold = Receive::one(Duration::from_secs(600)).up_to(10);
    let held = world.queue.receive(hold).await.unwrap();
    assert_eq!(held.len(), 5);
    for message in &held[1..] {
        world.queue.delete(&message.receipt).await.unwrap();
    }
    assert_eq!(desired(300).await, 3, "one is at work, and nobody knows which");
    world.queue.delete(&held[0].receipt).await.unwrap();
    assert_eq!(desired(400).await, 3, "the counts may not have settled");
    assert_eq!(desired(420).await, 0);
    let observation = world.demand.observe().await.unwrap();
    let gpu = observation
        .before
        .iter()
        .find(|record| record.hardware == Hardware::Gpu);
    assert_eq!(gpu.unwrap().changed_at, Some(at(420)));
}

#[tokio::test]
async fn a_queue_that_does_not_answer_keeps_its_workers() {
    let world = World::new().await;
    world.send(1).await;
    world.demand.observe().await.unwrap();
    let stage = ocr_pipeline().first().clone();
    world.queue.refuse(Refused::Counts, 1);
    world.set(1000);
    let observation = world.demand.observe().await.unwrap();
    assert_eq!(observation.loads[&stage].waiting, 1, "as it last was");
    assert_eq!(observation.busy_at[&stage], at(1000));
}

/// Rows: 52.
#[tokio::test]
async fn a_queue_that_is_missing_keeps_no_workers_and_counts_again_once_it_is_found() {
    let world = World::new().await;
    world.send(1).await;
    let before = world.demand.observe().await.unwrap();
    let stage = ocr_pipeline().first().clone();
    assert_eq!(before.loads[&stage].waiting, 1);
    let gone = MemoryServer::new().open("memory:gone.fifo").await.unwrap();
    world.queues.found(&stage, gone);
    let without = world.demand.observe().await.unwrap();
    assert!(
        without.loads.is_empty() && without.busy_at.is_empty(),
        "{without:?}"
    );
    assert_eq!(world.queues.missing(), std::slice::from_ref(&stage));
    world.queues.found(&stage, world.queue.clone());
    assert_eq!(world.demand.observe().await.unwrap().loads, before.loads);
}
