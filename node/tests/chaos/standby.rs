use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;

const LEADS: &str = "this process leads";
const LEASE: Duration = Duration::from_secs(20);

/// Ends the leader with `signal` while all nodes have work; returns how long nobody led, and how long until the new leader
/// knew a pool.
async fn takeover(cluster: &mut Cluster, signal: Signal) -> (Duration, Duration) {
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    cluster.until_busy(1).await;
    let (end, begin) = (cluster.journal.end(), Instant::now());
    cluster.orchestrator(0).signal(signal);
    cluster.until_said(end, LEADS).await;
    let leads = cluster.journal.find_of("orchestrator-b", end, LEADS).unwrap().at;
    let joined = async |cluster: &Cluster| {
        let line = cluster.journal.find_of("orchestrator-b", end, "pool joined");
        line.is_some()
    };
    cluster.until("a pool joins the new leader", joined).await;
    let joined = cluster
        .journal
        .find_of("orchestrator-b", end, "pool joined")
        .unwrap()
        .at;
    (leads - begin, joined - begin)
}

/// Nothing that ran was cut off: each stage of each volume ran once, under one lease.
async fn running_work_was_kept(cluster: &mut Cluster) {
    cluster.settle().await;
    assert_eq!(cluster.interruptions().await, 0, "{}", cluster.journal);
    for task in cluster.tasks().await {
        assert_eq!((task.attempts, task.generation.0), (0, 0), "{task:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_succeeded_within_two_seconds() {
    let mut cluster = Cluster::start(Plan::full(SHELF).alone()).await;
    let (leads, joined) = takeover(&mut cluster, Signal::SIGKILL).await;
    eprintln!("takeover after SIGKILL: leads after {leads:?}, knows a pool after {joined:?}");
    assert!(joined < Duration::from_secs(2), "{joined:?}");
    running_work_was_kept(&mut cluster).await;
    cluster.kill_orchestrator(0);
    cluster.all_is_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_leader_is_succeeded_within_ten_seconds() {
    let mut cluster = Cluster::start(Plan::full(SHELF).alone()).await;
    let (leads, joined) = takeover(&mut cluster, Signal::SIGSTOP).await;
    eprintln!("takeover after SIGSTOP: leads after {leads:?}, knows a pool after {joined:?}");
    assert!(joined < Duration::from_secs(10), "{joined:?}");
    running_work_was_kept(&mut cluster).await;
    cluster.kill_orchestrator(0);
    cluster.all_is_well().await;
}

/// The new leader never knew the dead node, so that only the end of its lease tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_with_the_leader_is_missed_when_its_lease_runs_out() {
    let mut cluster = Cluster::start(Plan::full(SHELF).alone()).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    cluster.worker(0).signal(Signal::SIGSTOP);
    let held = cluster.task_at(0).await;
    let begin = Instant::now();
    cluster.kill_orchestrator(0);
    cluster.kill_worker(0);
    if let Some(held) = held {
        cluster
            .until("the dead node's lease is ended", async |cluster| {
                let tasks = cluster.tasks().await;
                let now = tasks.into_iter().find(|task| task.id == held.id);
                now.is_some_and(|now| now.fence() != held.fence())
            })
            .await;
        let missed = begin.elapsed();
        eprintln!("leader and node killed together: its lease of {LEASE:?} ended after {missed:?}");
        assert!(missed < LEASE + Duration::from_secs(5), "{missed:?}");
    }
    cluster.start_orchestrator(0, "").await;
    cluster.all_is_well().await;
}
