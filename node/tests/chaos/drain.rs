use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cluster::{Cluster, Plan, has_lease};
use crate::library::SHELF;

/// The notice of a spot instance: what is finished is kept, the rest goes to others, nobody is charged.
/// Rows: 138, F21.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_told_to_stop_hands_its_work_back() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    let mut process = cluster.workers[0].process.take().unwrap();
    // A lease is written before the node hears of it.
    process.said(0, "stage starts").await;
    let begin = Instant::now();
    process.leave().await;
    eprintln!("drained in {:?}", begin.elapsed());
    assert!(
        cluster
            .journal
            .find_of("gpu-a", 0, "all work is released")
            .is_some(),
        "{}",
        cluster.journal
    );
    nothing_is_left_to(&cluster, process.node()).await;
    cluster.all_is_well().await;
}

/// A page that never ends holds up the drain. Who cannot wait says so again.
/// Rows: F21.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_order_to_stop_ends_a_node_at_once() {
    let mut plan = Plan::full(SHELF).alone();
    plan.failpoints = "device.pass=1*return(hang)".to_owned();
    let mut cluster = Cluster::start(plan).await;
    cluster.create_jobs().await;
    let mut process = cluster.workers[0].process.take().unwrap();
    process.said(0, "failpoint device.pass").await;
    process.signal(Signal::SIGTERM);
    process.said(0, "stopping at the next checkpoints").await;
    let begin = Instant::now();
    process.signal(Signal::SIGTERM);
    process.end().await;
    let took = begin.elapsed();
    eprintln!("the second order took {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    cluster.kill_worker(1);
    cluster.all_is_well().await;
}

/// A lease that is written while its node is told to stop: the node has left by the time that it is offered.
/// Rows: 138, F21.
#[tokio::test(flavor = "multi_thread")]
async fn work_on_its_way_to_a_node_that_stops_goes_to_others() {
    let mut plan = Plan::full(SHELF);
    plan.failpoints_of_leader = "pass.leases_written=sleep(1000)".to_owned();
    let mut cluster = Cluster::start(plan).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    let mut process = cluster.workers[0].process.take().unwrap();
    process.leave().await;
    nothing_is_left_to(&cluster, process.node()).await;
    cluster.all_is_well().await;
}

/// Waits until no task has a lease of a node that has left. The end of a lease would be charged, and none is.
async fn nothing_is_left_to(cluster: &Cluster, node: &str) {
    cluster
        .until("no task has a lease of the node that left", async |cluster| {
            let tasks = cluster.tasks().await;
            !tasks.is_empty() && !tasks.iter().any(|task| has_lease(node, task))
        })
        .await;
    for task in cluster.tasks().await {
        assert_eq!((task.attempts, task.interruptions), (0, 0), "{task:?}");
    }
}
