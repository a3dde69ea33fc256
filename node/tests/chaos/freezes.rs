use nix::sys::signal::Signal;

use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;

/// A node that is stopped in the middle of its work loses it to others; thawed, it changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_node_loses_its_work_and_harms_nothing_when_it_thaws() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    cluster.worker(0).signal(Signal::SIGSTOP);
    let frozen = cluster.task_at(0).await;
    if let Some(frozen) = frozen {
        cluster
            .until("the frozen node's work is taken from it", async |cluster| {
                let tasks = cluster.tasks().await;
                let now = tasks.into_iter().find(|task| task.id == frozen.id);
                now.is_some_and(|now| now.fence() != frozen.fence())
            })
            .await;
    }
    cluster.worker(0).signal(Signal::SIGCONT);
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
