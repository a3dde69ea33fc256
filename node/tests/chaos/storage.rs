use parkhang_core::domain::TaskStatus;

use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;
use crate::support::files;

/// The store of each node with a device is full for its first writes. No page is given up for it: the stages are tried again
/// when there is room, and nothing is charged.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_full_for_a_while() {
    let mut plan = Plan::full(SHELF);
    plan.failpoints = "store.write=12*return(full)".to_owned();
    let mut cluster = Cluster::start(plan).await;
    cluster.create_jobs().await;
    cluster.settle().await;
    let tasks = cluster.tasks().await;
    for task in &tasks {
        assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0), "{task:?}");
        cluster.history_is_sound(task).await;
        let results = cluster.results(task.id).await;
        assert_eq!(results.nb_errors, 0, "a page of {} was given up", task.volume);
    }
    assert!(
        tasks.iter().any(|task| task.generation.0 > 0),
        "the store was never full"
    );
    for job in &cluster.jobs {
        let made = cluster.artifacts().join("jobs").join(job.key.as_str());
        let undisturbed = SHELF.undisturbed(job.key.as_str());
        assert!(
            files(&made) == files(&undisturbed),
            "the artifacts of {} differ",
            job.key
        );
    }
    cluster.leave().await;
}
