use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parkhang_actors::domain::TaskStatus;

use crate::cluster::{Cluster, Plan};
use crate::library::SHELF;
use crate::support::files;

/// The store of each node with a device is full for its first writes. No page is given up for it: the stages are tried again
/// when there is room.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_full_for_a_while() {
    let mut plan = Plan::full(SHELF);
    plan.failpoints = "store.write=12*return(full)".to_owned();
    let mut cluster = Cluster::start(plan).await;
    cluster.create_jobs().await;
    cluster.settle().await;
    let tasks = cluster.tasks().await;
    for task in &tasks {
        assert_eq!(task.status, TaskStatus::Done, "{task:?}");
        cluster.history_is_sound(task).await;
        let results = cluster.results(task.id).await;
        assert_eq!(results.nb_errors, 0, "a page of {} was given up", task.volume);
    }
    assert!(
        tasks.iter().any(|task| task.attempts > 0),
        "the store was never full"
    );
    for job in &cluster.jobs {
        let made = cluster.artifacts().join("jobs").join(job.key.as_str());
        let undisturbed = SHELF.undisturbed(job.key.as_str());
        let (made, undisturbed) = (of_first_attempts(&made), of_first_attempts(&undisturbed));
        assert!(made == undisturbed, "the artifacts of {} differ", job.key);
    }
    cluster.leave().await;
}

/// All files, with the number of the attempt that each table names set to 1.
fn of_first_attempts(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    const NAMED: &[u8] = b"\"attempt\":";
    let mut files = files(folder);
    for bytes in files.values_mut() {
        let places: Vec<usize> = bytes
            .windows(NAMED.len())
            .enumerate()
            .filter_map(|(place, window)| (window == NAMED).then_some(place + NAMED.len()))
            .collect();
        for place in places {
            bytes[place] = b'1';
        }
    }
    files
}
