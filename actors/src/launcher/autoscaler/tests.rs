use std::collections::BTreeSet;

use chrono::{TimeDelta, Utc};

use super::*;
use crate::launcher::StoreDemand;
use crate::launcher::local::tests::Machine;
use crate::stage::{StageTable, ocr_pipeline};
use crate::telemetry::testing::Measured;
use parkhang_core::domain::testing::{new_job, node_record, worker, worker_record};
use parkhang_core::domain::{NewJob, NodeRecord, Task, WorkerRecord};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, MemoryStore, NodeSnapshot, StateStore};

fn config() -> AutoscalerConfig {
    let limits = Limits {
        floor: 0,
        cap: 8,
        tasks_per_slot: 1,
        max_age: TimeDelta::hours(1),
        scale_out_cooldown: TimeDelta::zero(),
        scale_in_cooldown: TimeDelta::zero(),
    };
    AutoscalerConfig {
        limits: Hardware::ALL.map(|hardware| (hardware, limits)).into(),
        slots: BTreeMap::from([(Hardware::Gpu, 2)]),
        stages: StageTable::built_in(),
    }
}

async fn store_with(volumes: usize) -> (Arc<MemoryStore>, Vec<Task>) {
    let store = MemoryStore::new();
    let job = NewJob {
        pipeline: ocr_pipeline(),
        ..new_job(&["ocr"], volumes)
    };
    let job = store.create_job(&job, Utc::now()).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    (Arc::new(store), tasks)
}

async fn finds_lines(store: &MemoryStore, task: &Task) -> Task {
    let leased = Event::Leased {
        stage: ocr_pipeline().first().clone(),
        worker: worker("w"),
        until: Utc::now() + TimeDelta::hours(1),
    };
    let change = Change::new(Expected::of(task), leased);
    let outcome = store.commit(&[change], Utc::now()).await.unwrap().remove(0);
    outcome.applied().unwrap()
}

/// Rows: 135.
#[tokio::test]
async fn workers_come_for_the_stages_that_need_their_hardware_and_go_when_nothing_is_left() {
    let measured = Measured::begin();
    let (store, tasks) = store_with(5).await;
    let machine = Machine::new();
    let launcher = Arc::new(machine.launcher());
    let autoscaler = Autoscaler::new(Arc::new(StoreDemand(store.clone())), launcher.clone(), config());
    let desired = async |hardware| launcher.workers(hardware).await.unwrap().desired;

    autoscaler.pass().await.unwrap();
    assert_eq!(desired(Hardware::Gpu).await, 3, "five volumes on two slots each");
    assert_eq!(desired(Hardware::Cpu).await, 0, "nothing has come to its stages");
    let [cpu, gpu] = &store.scaling().await.unwrap()[..] else {
        panic!("two records");
    };
    assert_eq!((gpu.desired, gpu.waiting, gpu.in_work), (3, 5, 0));
    assert_eq!(
        (gpu.reason.as_str(), gpu.changed_at),
        ("backlog", Some(gpu.decided_at))
    );
    assert_eq!((cpu.desired, cpu.changed_at), (0, None));
    measured.assert_has(&[
        "parkhang_autoscaler_decisions_total{hardware=gpu,reason=backlog} 1",
        "parkhang_workers_desired{hardware=gpu} 3",
        "parkhang_workers_running{hardware=gpu} 0",
        "parkhang_autoscaler_backlog{hardware=gpu} 5",
        "parkhang_autoscaler_overdue{hardware=gpu} 0",
    ]);

    let running = finds_lines(&store, &tasks[0]).await;
    let done = Change::new(Expected::of(&running), Event::Succeeded);
    store.commit(&[done], Utc::now()).await.unwrap();
    autoscaler.pass().await.unwrap();
    assert_eq!(desired(Hardware::Cpu).await, 1);
    assert_eq!(desired(Hardware::Gpu).await, 3, "nobody is idle");

    let job = tasks[0].job_id;
    store.act_on_job(job, JobAction::Pause).await.unwrap();
    autoscaler.pass().await.unwrap();
    assert_eq!(desired(Hardware::Gpu).await, 0);
    assert_eq!(desired(Hardware::Cpu).await, 0);
}

#[tokio::test]
async fn with_less_to_do_the_idle_go() {
    let (store, tasks) = store_with(3).await;
    let machine = Machine::new();
    let launcher = Arc::new(machine.launcher());
    launcher
        .set_desired(Hardware::Gpu, 6, &BTreeSet::new())
        .await
        .unwrap();
    for task in &tasks {
        finds_lines(&store, task).await;
    }
    let node = |number: u32, in_use| NodeRecord {
        roles: vec!["gpu".to_owned()],
        last_seen: Utc::now(),
        workers: vec![WorkerRecord {
            slots: 2,
            in_use,
            ..worker_record(&format!("w{number}"), ocr_pipeline().first().as_str())
        }],
        ..node_record(&format!("launched-gpu-{number}.0badcafe"))
    };
    let snapshot = NodeSnapshot {
        nodes: vec![node(1, 1), node(2, 1), node(3, 1), node(4, 0)],
        ..NodeSnapshot::default()
    };
    store.record_nodes(&snapshot).await.unwrap();
    let autoscaler = Autoscaler::new(Arc::new(StoreDemand(store.clone())), launcher.clone(), config());
    autoscaler.pass().await.unwrap();
    let workers = launcher.workers(Hardware::Gpu).await.unwrap();
    assert_eq!(workers.desired, 5, "one does nothing; two have not joined yet");
    assert!(
        !workers.names.unwrap().contains("launched-gpu-4"),
        "the idle one went"
    );
}

#[tokio::test]
async fn what_the_launcher_refuses_is_told_and_no_decision() {
    let measured = Measured::begin();
    let (store, _) = store_with(2).await;
    let machine = Machine::new();
    let refuses = machine.with_damaged_record();
    let autoscaler = Autoscaler::new(Arc::new(StoreDemand(store.clone())), Arc::new(refuses), config());
    autoscaler.pass().await.unwrap();
    machine.repair();
    assert_eq!(store.scaling().await.unwrap(), []);
    measured.assert_has(&[
        "parkhang_autoscaler_failures_total{hardware=cpu} 1",
        "parkhang_autoscaler_failures_total{hardware=gpu} 1",
    ]);
}
