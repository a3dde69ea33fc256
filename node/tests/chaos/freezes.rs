use nix::sys::signal::Signal;
use parkhang_core::domain::{StageRun, StageRunStatus};
use parkhang_core::failpoint::Failpoint;
use parkhang_state::StateStore;

use crate::cluster::{Cluster, Plan};
use crate::library::{Library, SHELF};

/// A node that is stopped in the middle of its work loses it to others; thawed, it changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_node_loses_its_work_and_harms_nothing_when_it_thaws() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    cluster.worker(0).signal(Signal::SIGSTOP);
    let frozen = cluster.task_at(0).await;
    if let Some(frozen) = frozen {
        cluster.until_taken(&frozen).await;
    }
    cluster.worker(0).signal(Signal::SIGCONT);
    cluster.all_is_well().await;
}

/// A node is stopped between the images of a checkpoint and the checkpoint, and thaws when another one has published the stage: a
/// checkpoint that it writes then would stay for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_freezes_in_a_checkpoint_leaves_none_behind() {
    // So many pages that the node has some left when it thaws.
    let mut cluster = Cluster::prepare(Plan::full(Library::alike(1, 24))).await;
    cluster.start_orchestrator(0, "").await;
    cluster.create_job("kangyur").await;
    let place = format!(
        "{}@{}/line_detection",
        Failpoint::PartImagesFlushed,
        Library::volume(0)
    );
    let begin = cluster.journal.end();
    cluster.start_worker(0, &format!("{place}=1*return(stop)")).await;
    let frozen = cluster.workers[0].process.as_mut().unwrap();
    assert_eq!(frozen.said(begin, "failpoint ").await, place);
    for worker in 1..cluster.workers.len() {
        cluster.start_worker(worker, "").await;
    }
    let task = cluster.tasks().await.remove(0);
    cluster
        .until("another node has done the stage", async |cluster| {
            let runs = cluster.store.stage_runs(task.id).await.unwrap();
            let is_done = |run: &StageRun| run.status == StageRunStatus::Done;
            runs.iter().any(is_done)
        })
        .await;
    let thawed = cluster.journal.end();
    cluster.worker(0).signal(Signal::SIGCONT);
    // The next line of this span says that the lease is lost, or that the stage has ended.
    let span = format!("volume={} stage=line_detection", Library::volume(0));
    cluster
        .until("the node gives the stage up", async |cluster| {
            cluster.journal.find_of("gpu-a", thawed, &span).is_some()
        })
        .await;
    let stage = format!("jobs/kangyur/volumes/{}/line_detection", Library::volume(0));
    let parts = cluster.artifacts().join(stage).join("parts");
    cluster
        .until("no checkpoint is left", async |_| {
            std::fs::read_dir(&parts).map_or(0, Iterator::count) == 0
        })
        .await;
    cluster.all_is_well().await;
}

/// A leader that is stopped is succeeded; thawed, it stands by.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_leader_is_succeeded_and_stands_by_when_it_thaws() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    let before = cluster.journal.end();
    cluster.orchestrator(0).signal(Signal::SIGSTOP);
    cluster.until_said(before, "this process leads").await;
    let thawed = cluster.journal.end();
    cluster.orchestrator(0).signal(Signal::SIGCONT);
    cluster
        .until("the old leader gives way", async |cluster| {
            let standing_by = "; standing ";
            cluster
                .journal
                .find_of("orchestrator-a", thawed, standing_by)
                .is_some()
        })
        .await;
    cluster.settle().await;
    let leads = cluster
        .journal
        .find_of("orchestrator-a", thawed, "this process leads");
    assert!(
        leads.is_none(),
        "the leadership is taken back while its holder is well"
    );
    cluster.all_is_well().await;
}
