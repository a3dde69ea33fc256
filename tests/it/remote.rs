//! An orchestrator and the pools of a node, over a session of two node servers in one process.

use std::sync::Arc;

use parkhang_actors::cluster::NodeName;
use parkhang_actors::stage::StageLogic;
use parkhang_actors::supervisor::NodeSupervisor;
use parkhang_core::domain::{JobStatus, StageRunStatus, TaskStatus};
use parkhang_core::policy::job_action::JobAction;
use parkhang_sandbox::{FakeStage, Latch, NodePlan, Sandbox, Script, job_through};

/// A node with these stages at the other end of a session, and a job of two volumes that goes through all of them.
async fn start(stages: Vec<Arc<dyn StageLogic>>) -> (Sandbox, NodeSupervisor) {
    let job = job_through(&stages, 2);
    let remote = Sandbox::builder().job(job).remote().start().await;
    let node = remote.node(NodePlan::new(stages)).await;
    (remote, node)
}

#[tokio::test]
async fn a_job_runs_on_another_node() {
    let [first, second] = ["first", "second"].map(|name| FakeStage::new(name, Script::Succeed).shared());
    let (remote, _) = start(vec![first.clone(), second.clone()]).await;
    let node = remote.session.as_ref().unwrap().node().as_str();
    for task in remote.ends(JobStatus::Completed).await {
        assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0));
        for run in remote.store.stage_runs(task.id).await.unwrap() {
            assert!(
                run.worker.0.starts_with(node),
                "{} ran it, not {node}",
                run.worker
            );
        }
    }
    assert_eq!(first.runs(), 2);
    assert_eq!(second.runs(), 2);
    remote.stop().await;
}

#[tokio::test]
async fn work_goes_on_while_its_node_is_out_of_touch() {
    let latch = Latch::new();
    let stage = FakeStage::new("stage", Script::Until(latch.clone())).shared();
    let (mut remote, _) = start(vec![stage.clone()]).await;
    stage.has_begun(1).await;

    remote.session.as_mut().unwrap().redial().await;
    latch.open();
    for task in remote.ends(JobStatus::Completed).await {
        assert_eq!((task.attempts, task.interruptions), (0, 0));
    }
    assert_eq!(stage.runs(), 2, "nothing is done twice");
    remote.stop().await;
}

#[tokio::test]
async fn a_drain_reaches_other_nodes() {
    let stage = FakeStage::new("stage", Script::UntilDrained).shared();
    let (remote, _) = start(vec![stage.clone()]).await;
    stage.has_begun(1).await;
    remote.orchestrator.drain();
    remote.orchestrator.idle(remote.job().id).await.unwrap();
    for task in remote.tasks().await {
        assert_eq!((task.fence(), task.attempts, task.interruptions), (None, 0, 0));
    }
    remote.stop().await;
}

#[tokio::test]
async fn the_work_of_a_node_that_died_is_given_to_others() {
    let stuck = FakeStage::new("stage", Script::Until(Latch::new())).shared();
    let (mut remote, node) = start(vec![stuck.clone()]).await;
    stuck.has_begun(1).await;
    // Its endpoints close with it, as when the process is killed.
    node.stop().await;
    remote.session.as_mut().unwrap().restart_uplink().await;

    let stage = FakeStage::new("stage", Script::Succeed).shared();
    let name = NodeName::unique("successor").unwrap().to_string();
    remote.node(NodePlan::new(vec![stage.clone()]).named(name)).await;
    let mut ends = Vec::new();
    for task in remote.ends(JobStatus::Completed).await {
        let history = remote.store.stage_runs(task.id).await.unwrap();
        ends.extend(history.iter().map(|run| run.status));
    }
    ends.sort_by_key(|status| status.as_str());
    assert_eq!(
        ends,
        [
            StageRunStatus::Done,
            StageRunStatus::Done,
            StageRunStatus::Interrupted
        ]
    );
    assert_eq!(stage.runs(), 2);
    remote.stop().await;
}

#[tokio::test]
async fn a_cancellation_reaches_other_nodes() {
    let stage = FakeStage::new("stage", Script::UntilDrained).shared();
    let (remote, _) = start(vec![stage.clone()]).await;
    stage.has_begun(1).await;
    let job = remote.job().id;
    remote.store.act_on_job(job, JobAction::Cancel).await.unwrap();
    remote.orchestrator.wake();
    remote.orchestrator.idle(job).await.unwrap();
    let tasks = remote.tasks().await;
    assert!(
        tasks
            .iter()
            .all(|task| (task.attempts, task.interruptions) == (0, 0))
    );
    let history = remote.store.stage_runs(tasks[0].id).await.unwrap();
    assert_eq!(history[0].status, StageRunStatus::Cancelled);

    // The slot is free once the stage has stopped.
    let begun = stage.runs();
    let next = remote.create(&job_through(&[stage.logic()], 2)).await;
    stage.has_begun(begun + 1).await;
    remote.store.act_on_job(next.id, JobAction::Cancel).await.unwrap();
    remote.orchestrator.wake();
    remote.orchestrator.idle(next.id).await.unwrap();
    remote.stop().await;
}
