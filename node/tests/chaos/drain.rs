use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;

/// The notice of a spot instance: what is finished is kept, the rest goes to others, nobody is charged.
/// Rows: 138, F21.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_told_to_stop_hands_its_work_back() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    let begin = Instant::now();
    let mut process = cluster.workers[0].process.take().unwrap();
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
    let prefix = format!("{}/", process.node());
    for task in cluster.tasks().await {
        let lease = task.lease.as_ref();
        assert!(
            lease.is_none_or(|lease| !lease.worker.0.starts_with(&prefix)),
            "{task:?}"
        );
        assert_eq!((task.attempts, task.interruptions), (0, 0), "{task:?}");
    }
    cluster.all_is_well().await;
}

/// A page that never ends holds up the drain. Who cannot wait says so again.
/// Rows: F21.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_order_to_stop_ends_a_node_at_once() {
    let mut plan = Plan::full(SHELF).alone();
    plan.failpoints = "device.pass=1*pause".to_owned();
    let mut cluster = Cluster::start(plan).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    let mut process = cluster.workers[0].process.take().unwrap();
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
