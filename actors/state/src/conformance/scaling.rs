//! Decisions of the autoscaler.

use super::*;
use parkhang_core::domain::{Hardware, ScalingRecord};
use parkhang_core::policy::autoscale::StageBacklog;
use parkhang_core::policy::job_action::JobAction;

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    a_stage_asks_for_what_waits_for_it_and_what_runs(make().await).await;
    a_task_waits_since_its_last_run_ended(make().await).await;
    only_running_jobs_ask_for_anything(make().await).await;
    the_last_decision_for_each_hardware_is_kept(make().await).await;
}

fn asks(job: &Job, name: &str, waiting: u64, running: u64, oldest: Option<i64>) -> StageBacklog {
    StageBacklog {
        job: job.id,
        stage: stage(name),
        waiting,
        running,
        oldest: oldest.map(at),
    }
}

async fn a_stage_asks_for_what_waits_for_it_and_what_runs(store: Store) {
    assert_eq!(store.backlog().await.unwrap(), []);
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3", "I4", "I5", "I6", "I7"]).await;
    assert_eq!(
        store.backlog().await.unwrap(),
        [asks(&job, "detect", 7, 0, Some(0))]
    );
    let [_, running, given_back, detected, done, poisoned, retried] = &tasks[..] else {
        panic!("not seven");
    };
    applied(&store, lease(running, &job, "w")).await;
    run_stage(&store, &job, given_back, Event::Released).await;
    run_stage(&store, &job, detected, Event::Succeeded).await;
    let read = run_stage(&store, &job, done, Event::Succeeded).await;
    run_stage(&store, &job, &read, Event::Succeeded).await;
    run_stage(&store, &job, poisoned, failure(ErrorCategory::Input)).await;
    run_stage(&store, &job, retried, failure(ErrorCategory::Network)).await;
    assert_eq!(
        store.backlog().await.unwrap(),
        [
            asks(&job, "detect", 3, 1, Some(0)),
            asks(&job, "read", 1, 0, Some(1))
        ]
    );
}

async fn a_task_waits_since_its_last_run_ended(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let running = applied(&store, lease(&tasks[0], &job, "w")).await;
    assert_eq!(store.backlog().await.unwrap(), [asks(&job, "detect", 0, 1, None)]);
    let outcomes = store.commit(&[change(&running, Event::Succeeded)], at(40)).await;
    assert!(matches!(outcomes.unwrap()[..], [Outcome::Applied(_)]));
    assert_eq!(
        store.backlog().await.unwrap(),
        [asks(&job, "read", 1, 0, Some(40))]
    );
}

async fn only_running_jobs_ask_for_anything(store: Store) {
    let first = store
        .create_job(&new_job("first", &["I1", "I2"]), at(0))
        .await
        .unwrap();
    let second = store
        .create_job(&new_job("second", &["I1"]), at(5))
        .await
        .unwrap();
    let both = [
        asks(&first, "detect", 2, 0, Some(0)),
        asks(&second, "detect", 1, 0, Some(5)),
    ];
    assert_eq!(store.backlog().await.unwrap(), both);
    store.act_on_job(first.id, JobAction::Pause).await.unwrap();
    assert_eq!(store.backlog().await.unwrap(), both[1..]);
    store.act_on_job(second.id, JobAction::Cancel).await.unwrap();
    assert_eq!(store.backlog().await.unwrap(), []);
}

async fn the_last_decision_for_each_hardware_is_kept(store: Store) {
    assert_eq!(store.scaling().await.unwrap(), []);
    let gpu = ScalingRecord {
        hardware: Hardware::Gpu,
        decided_at: at(1),
        desired: 5,
        cap: 128,
        reason: "backlog".to_owned(),
        running: 2,
        waiting: 70_000,
        in_work: 2,
        oldest: Some(at(0)),
        changed_at: Some(at(1)),
    };
    let cpu = ScalingRecord {
        hardware: Hardware::Cpu,
        oldest: None,
        changed_at: None,
        ..gpu.clone()
    };
    for record in [&gpu, &cpu] {
        // Twice, as every change may be repeated.
        for _ in 0..2 {
            store.record_scaling(record).await.unwrap();
        }
    }
    assert_eq!(store.scaling().await.unwrap(), [cpu.clone(), gpu.clone()]);
    let later = ScalingRecord {
        decided_at: at(30),
        desired: 0,
        reason: "empty".to_owned(),
        waiting: 0,
        oldest: None,
        ..gpu
    };
    store.record_scaling(&later).await.unwrap();
    assert_eq!(store.scaling().await.unwrap(), [cpu, later]);
}
