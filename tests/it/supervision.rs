//! What a node does about stages that hang. Time is paused: it passes when nobody has anything to do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::Utc;
use parkhang_actors::stage::StageInfo;
use parkhang_core::domain::testing::{node_record, worker, worker_record};
use parkhang_core::domain::{
    ErrorCategory, Hardware, JobConfig, JobStatus, NewJob, NodeRecord, NodeState, PageOutcome, StageName,
    StageReport, StageVerdict, TaskStatus, VolumeId,
};
use parkhang_core::policy::transition::Event;
use parkhang_sandbox::{FAST_HEALTH, FakeStage, NodePlan, Run, Sandbox, Script, job_through};
use parkhang_state::{Change, Expected, MemoryStore, NodeSnapshot, StateStore};
use tokio::sync::watch;

async fn work(run: Run, hung: Arc<AtomicBool>) -> StageVerdict {
    let poison: VolumeId = "W1-I1".parse().unwrap();
    let progress = &run.context.progress;
    progress.started(100);
    if run.context.assignment.volume == poison {
        hung.store(true, Ordering::Relaxed);
        return std::future::pending().await;
    }
    // It comes further all the time; when the device hangs it only never ends.
    let mut pages = tokio::time::interval(Duration::from_secs(1));
    for page in 0.. {
        pages.tick().await;
        progress.page_finished(PageOutcome::Succeeded);
        if page > 3 && !hung.load(Ordering::Relaxed) {
            break;
        }
    }
    StageVerdict::Succeeded(StageReport::default())
}

/// A stage whose device hangs under one volume and, until it is renewed, holds up the other.
fn hanging() -> Arc<FakeStage> {
    let hung = Arc::new(AtomicBool::new(false));
    let renewed = hung.clone();
    FakeStage::new("hanging", Script::custom(move |run| work(run, hung.clone())))
        .on(Hardware::Gpu)
        .on_renewal(move || renewed.store(false, Ordering::Relaxed))
        .shared()
}

fn plan(stage: Arc<FakeStage>) -> NodePlan {
    NodePlan::new(vec![stage]).with_fast_health()
}

/// Rows: F17, F32, 250.
#[tokio::test(start_paused = true)]
async fn a_pool_that_hangs_is_replaced_and_blames_only_who_hung() {
    let stage = hanging();
    let sandbox = Sandbox::builder()
        .job(job_through(&[stage.logic()], 2))
        .configured(|config| config.max_interruptions = 3)
        .start()
        .await;
    let node = sandbox.node(plan(stage.clone()).slots(2)).await;

    let [poison, innocent] = &sandbox.ends(JobStatus::Failed).await[..] else {
        panic!("two tasks");
    };
    assert_eq!(poison.status, TaskStatus::Failed);
    assert_eq!(
        poison.last_error.as_ref().unwrap().category,
        ErrorCategory::Poison
    );
    assert_eq!((innocent.status, innocent.attempts), (TaskStatus::Done, 0));
    let history = sandbox.store.stage_runs(innocent.id).await.unwrap();
    // It is handed back with each pool that the other hangs while they share one, as nothing is held against it.
    let workers: BTreeSet<&str> = history.iter().map(|run| run.worker.0.as_str()).collect();
    assert!((2..=3).contains(&workers.len()), "{workers:?}");
    assert_eq!(stage.renewals(), 3);
    // The pool that was replaced has let go of all it held.
    node.drain().await;
    sandbox.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_no_node_runs_is_an_alarm_while_work_waits_for_it() {
    let [first, second] =
        ["line_detection", "line_extraction"].map(|name| FakeStage::new(name, Script::Succeed).shared());
    let unserved = watch::Sender::default();
    let mut alarm = unserved.subscribe();
    let sandbox = Sandbox::builder()
        .job(job_through(&[first.logic(), second.logic()], 2))
        .configured(|config| config.unserved = unserved)
        .start()
        .await;
    sandbox.node(plan(first).named("detects")).await;

    let raised = alarm.wait_for(|stages| !stages.is_empty()).await.unwrap().clone();
    assert_eq!(raised, [second.name()].into());
    sandbox.node(plan(second).named("extracts")).await;
    sandbox.ends(JobStatus::Completed).await;
    alarm.wait_for(BTreeSet::is_empty).await.unwrap();
    sandbox.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_stops_misses_no_stage() {
    let stage = FakeStage::new("line_detection", Script::UntilDrained).shared();
    let unserved = watch::Sender::default();
    let mut alarm = unserved.subscribe();
    let sandbox = Sandbox::builder()
        .job(job_through(&[stage.logic()], 3))
        .configured(|config| config.unserved = unserved)
        .start()
        .await;
    let node = sandbox.node(plan(stage.clone())).await;
    stage.has_begun(1).await;
    sandbox.orchestrator.drain();
    sandbox.orchestrator.idle(sandbox.job().id).await.unwrap();
    node.drain().await;

    let raised = alarm.wait_for(|stages| !stages.is_empty());
    let raised = tokio::time::timeout(Duration::from_secs(120), raised).await;
    assert!(raised.is_err(), "{raised:?}");
    sandbox.stop().await;
}

/// What a node tells of itself that takes its work from the database.
fn pulling(stage: &StageName, state: NodeState) -> NodeSnapshot {
    let node = NodeRecord {
        last_seen: Utc::now(),
        state,
        workers: vec![worker_record("pulls/stage/1", stage.as_str())],
        ..node_record("pulls")
    };
    NodeSnapshot {
        nodes: vec![node],
        ..NodeSnapshot::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_nodes_take_for_themselves_is_not_deserted() {
    let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
    let stage = FakeStage::new("line_detection", Script::Succeed).shared();
    let told_of = async |state| store.record_nodes(&pulling(&stage.name(), state)).await.unwrap();
    told_of(NodeState::Joined).await;
    let unserved = watch::Sender::default();
    let mut alarm = unserved.subscribe();
    let sandbox = Sandbox::over(store.clone())
        .job(job_through(&[stage.logic()], 2))
        .configured(|config| config.unserved = unserved)
        .start()
        .await;
    {
        let raised = alarm.wait_for(|stages| !stages.is_empty());
        let raised = tokio::time::timeout(Duration::from_secs(120), raised).await;
        assert!(raised.is_err(), "a node that told of itself serves the stage");
    }

    told_of(NodeState::Left).await;
    alarm
        .wait_for(|stages| stages.contains(&stage.name()))
        .await
        .unwrap();

    let task = &sandbox.tasks().await[0];
    let leased = Event::Leased {
        stage: stage.name(),
        worker: worker("of nobody known"),
        until: Utc::now() + chrono::TimeDelta::hours(1),
    };
    let taken = Change::new(Expected::of(task), leased);
    store.commit(&[taken], Utc::now()).await.unwrap();
    // One of the two volumes still waits.
    alarm.wait_for(BTreeSet::is_empty).await.unwrap();
    sandbox.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_pools_keep_hanging_gives_up() {
    let stage = hanging();
    let job = NewJob {
        config: JobConfig::default(),
        ..job_through(&[stage.logic()], 1)
    };
    let sandbox = Sandbox::builder()
        .job(job)
        .configured(|config| config.max_interruptions = 100)
        .start()
        .await;
    let node = sandbox.node(plan(stage.clone())).await;
    node.ended().await;
    assert_eq!(stage.renewals(), FAST_HEALTH.faults.stalls as usize);
    let task = &sandbox.tasks().await[0];
    assert_ne!(
        task.status,
        TaskStatus::Failed,
        "the volume has tries left, elsewhere"
    );
    sandbox.stop().await;
}
