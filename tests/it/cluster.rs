//! Orchestrator, node and pools in one process, over stages that follow a script and a store in memory.

use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use parkhang_actors::source::{Claim, SourceError, StateClaims, SystemClock, WorkSource};
use parkhang_actors::stage::StageLogic;
use parkhang_core::domain::testing::{new_job, pool};
use parkhang_core::domain::{
    ErrorCategory, JobStatus, LeaseReport, Position, ReportReply, StageReport, StageRunStatus, StageVerdict,
    TaskStatus,
};
use parkhang_core::policy::claim::Offer;
use parkhang_sandbox::{FakeStage, Latch, NodePlan, Sandbox, Script, job_through};
use parkhang_state::{MemoryStore, StateStore};
use parkhang_store::storage::MemoryArtifacts;

use crate::flaky_store::FlakyStore;
use crate::new_stage::Syllables;

/// One node with these stages, and a job of two volumes that goes through all of them.
async fn start(store: Arc<dyn StateStore>, stages: Vec<Arc<dyn StageLogic>>) -> Sandbox {
    let sandbox = Sandbox::over(store)
        .job(job_through(&stages, 2))
        .configured(|config| config.max_interruptions = 2)
        .start()
        .await;
    sandbox.node(NodePlan::new(stages)).await;
    sandbox
}

/// The same over an empty store, with one stage.
async fn start_with(stage: &Arc<FakeStage>) -> Sandbox {
    start(Arc::new(MemoryStore::new()), vec![stage.clone()]).await
}

#[tokio::test]
async fn stages_run_in_order_and_once() {
    let [first, second] = ["first", "second"].map(|name| FakeStage::new(name, Script::Succeed).shared());
    let cluster = start(Arc::new(MemoryStore::new()), vec![first.clone(), second.clone()]).await;
    for task in cluster.ends(JobStatus::Completed).await {
        assert_eq!((task.position, task.status), (Position::Done, TaskStatus::Done));
        let runs = cluster.store.stage_runs(task.id).await.unwrap();
        let stages: Vec<&str> = runs.iter().map(|run| run.fence.stage.as_str()).collect();
        assert_eq!(stages, ["first", "second"]);
        assert!(runs[0].ended_at.unwrap() <= runs[1].started_at);
    }
    assert_eq!(first.runs(), 2);
    assert_eq!(second.runs(), 2);
    cluster.stop().await;
}

#[tokio::test]
async fn a_volume_whose_stage_panics_is_tried_again_and_set_aside() {
    let stage = FakeStage::new("stage", Script::Panic).shared();
    let cluster = start_with(&stage).await;
    for task in cluster.ends(JobStatus::Failed).await {
        assert_eq!(task.status, TaskStatus::Failed);
        assert_eq!(task.last_error.unwrap().category, ErrorCategory::Poison);
        let history = cluster.store.stage_runs(task.id).await.unwrap();
        let ends: Vec<StageRunStatus> = history.iter().map(|run| run.status).collect();
        assert_eq!(ends, [StageRunStatus::Interrupted, StageRunStatus::Failed]);
    }
    assert_eq!(stage.runs(), 4);
    cluster.stop().await;
}

/// Rows: F20.
#[tokio::test]
async fn a_stage_that_fails_backs_off_and_gives_up() {
    let stage = FakeStage::new("stage", Script::Fail).shared();
    let cluster = start_with(&stage).await;
    for task in cluster.ends(JobStatus::Failed).await {
        assert_eq!((task.status, task.attempts), (TaskStatus::Failed, 3));
        assert_eq!(task.last_error.unwrap().message, "as told");
        let history = cluster.store.stage_runs(task.id).await.unwrap();
        assert!(history.iter().all(|run| run.status == StageRunStatus::Failed));
    }
    assert_eq!(stage.runs(), 6);
    cluster.stop().await;
}

/// Rows: F39.
#[tokio::test]
async fn the_board_shows_what_runs_and_forgets_it() {
    let latch = Latch::new();
    let stage = FakeStage::new("stage", Script::Until(latch.clone())).shared();
    let cluster = Sandbox::builder()
        .job(job_through(&[stage.logic()], 2))
        .start()
        .await;
    let node = cluster.node(NodePlan::new(vec![stage.clone()])).await;
    stage.has_begun(1).await;
    let shown = cluster.progress.snapshot(&cluster.job().key);
    assert_eq!(shown.len(), 1, "{shown:?}");
    latch.open();
    cluster.ends(JobStatus::Completed).await;
    // Every lease has been given back.
    node.drain().await;
    assert!(cluster.progress.snapshot(&cluster.job().key).is_empty());
    cluster.stop().await;
}

#[tokio::test]
async fn an_outage_of_the_storage_ends_no_volume() {
    let stage = FakeStage::new("stage", Script::Outages(9)).shared();
    let cluster = start_with(&stage).await;
    for task in cluster.ends(JobStatus::Completed).await {
        assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0));
        let history = cluster.store.stage_runs(task.id).await.unwrap();
        let (last, before) = history.split_last().unwrap();
        assert_eq!((last.status, &last.error), (StageRunStatus::Done, &None));
        for (outage, run) in (1..).zip(before) {
            assert_eq!(run.status, StageRunStatus::Interrupted);
            let message = &run.error.as_ref().unwrap().message;
            let expected = format!("storage unavailable, tried {outage} times: no answer");
            assert_eq!(*message, expected);
        }
    }
    assert_eq!(stage.runs(), 11);
    cluster.stop().await;
}

#[tokio::test]
async fn a_drain_releases_leases_and_charges_nothing() {
    let stage = FakeStage::new("stage", Script::UntilDrained).shared();
    let cluster = start_with(&stage).await;
    stage.has_begun(1).await;
    cluster.orchestrator.drain();
    cluster.orchestrator.idle(cluster.job().id).await.unwrap();
    for task in cluster.tasks().await {
        assert_eq!((task.fence(), task.attempts, task.interruptions), (None, 0, 0));
        assert_ne!(task.status, TaskStatus::Failed);
    }
    cluster.stop().await;
}

/// Rows: F23.
#[tokio::test]
async fn a_store_that_is_away_for_a_while_loses_nothing() {
    let store = Arc::new(FlakyStore::new(3));
    let stage = FakeStage::new("stage", Script::Succeed).shared();
    let cluster = start(store.clone(), vec![stage.clone()]).await;
    for task in cluster.ends(JobStatus::Completed).await {
        assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0));
    }
    assert_eq!(store.refused(), 3);
    assert_eq!(stage.runs(), 2, "what was done is not done again");
    cluster.stop().await;
}

/// Reports that come together share a transaction; where it fails, each may be repeated.
#[tokio::test]
async fn a_transaction_that_fails_loses_none_of_the_reports_that_share_it() {
    let store = Arc::new(FlakyStore::new(1));
    let job = store
        .create_job(&new_job(&["stage"], 4), Utc::now())
        .await
        .unwrap();
    let source = StateClaims::new(store.clone(), Arc::new(SystemClock), TimeDelta::minutes(1), 3);
    let offer = Offer {
        pool: pool("w", "stage", 4),
        free: 4,
        in_hand: 0,
    };
    let claims = source.claim(&[offer]).await.unwrap();
    let report = |claim: &Claim| {
        source.complete(LeaseReport {
            fence: claim.assignment.fence.clone(),
            verdict: Some(StageVerdict::Succeeded(StageReport::default())),
        })
    };
    assert_eq!(report(&claims[0]).await.unwrap(), ReportReply::Recorded);
    let replies = tokio::join!(report(&claims[1]), report(&claims[2]), report(&claims[3]));
    for (claim, reply) in claims[1..].iter().zip([replies.0, replies.1, replies.2]) {
        let reply = match reply {
            Err(SourceError::Shared(_)) => report(claim).await,
            reply => reply,
        };
        assert_eq!(reply.unwrap(), ReportReply::Recorded);
    }
    assert_eq!(store.refused(), 1);
    let job = store.job_by_id(job.id).await.unwrap().unwrap();
    assert_eq!(job.status, JobStatus::Completed);
}

/// Rows: 211.
#[test]
fn the_example_stage_is_the_one_that_the_contributors_guide_shows() {
    let guide = include_str!("../../CONTRIBUTING.md");
    let example = guide
        .split("```rust\n")
        .find(|block| block.starts_with("//! `syllables`"))
        .and_then(|block| block.split("```").next());
    assert_eq!(example, Some(include_str!("new_stage.rs")));
}

/// Rows: 160, 161, F6, 211.
#[tokio::test]
async fn the_example_stage_of_the_contributors_guide_runs() {
    let syllables = Syllables {
        store: Arc::new(MemoryArtifacts::default()),
    };
    let cluster = start(Arc::new(MemoryStore::new()), vec![Arc::new(syllables)]).await;
    // There is no text to count in: the example says so, and is taken at its word.
    for task in cluster.ends(JobStatus::Failed).await {
        let error = task.last_error.unwrap();
        assert_eq!(error.stage, "syllables");
        assert!(error.message.contains("ocr_results.parquet"), "{error}");
    }
    cluster.stop().await;
}
