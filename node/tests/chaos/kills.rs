use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;

/// SIGKILL to a gpu node, a cpu node and the leader, each while it has work, each started again.
/// Rows: 138.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_every_kind_are_killed() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    for worker in [0, 2] {
        cluster.until_busy(worker).await;
        cluster.kill_worker(worker);
        cluster.start_worker(worker, "").await;
    }
    // On a busy machine the first jobs are over by now.
    cluster.create_job("kangyur-late").await;
    cluster.until_busy(1).await;
    cluster.kill_orchestrator(0);
    cluster.start_orchestrator(0, "").await;
    cluster.settle().await;
    assert!(cluster.interruptions().await > 0, "nobody was hit");
    cluster.all_is_well().await;
}
