use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;

/// Nothing comes through between a node and both orchestrators, and nothing is closed, for longer than a lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_the_dark_loses_its_work_and_comes_back() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(1).await;
    let held = cluster.task_at(1).await;
    cluster.workers[1].links.iter().for_each(|link| link.darken());
    if let Some(held) = held {
        cluster
            .until("the work in the dark is taken over", async |cluster| {
                let tasks = cluster.tasks().await;
                let now = tasks.into_iter().find(|task| task.id == held.id);
                now.is_some_and(|now| now.fence() != held.fence())
            })
            .await;
    }
    cluster.workers[1].links.iter().for_each(|link| link.restore());
    cluster.all_is_well().await;
}

/// The leader loses sight of Postgres: another leads, and the old one commits nothing when the light is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_loses_sight_of_postgres_is_succeeded() {
    let mut cluster = Cluster::start(Plan::full(SHELF)).await;
    cluster.create_jobs().await;
    cluster.until_busy(0).await;
    let dark = cluster.journal.end();
    cluster.orchestrators[0].database.darken();
    cluster
        .until("the standby leads", async |cluster| {
            let leads = "this process leads";
            cluster.journal.find_of("orchestrator-b", dark, leads).is_some()
        })
        .await;
    cluster
        .until("the old leader gives way", async |cluster| {
            cluster
                .journal
                .find_of("orchestrator-a", dark, "; standing ")
                .is_some()
        })
        .await;
    cluster.orchestrators[0].database.restore();
    cluster.all_is_well().await;
}
