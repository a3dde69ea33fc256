use parkhang_core::domain::{ErrorCategory, TaskStatus};

use crate::cluster::{Cluster, Plan};
use crate::library::{Library, SHELF};
use crate::support::assert_same_files;

/// On every node the first stage that runs panics.
#[tokio::test(flavor = "multi_thread")]
async fn stages_panic() {
    let mut plan = Plan::full(SHELF);
    plan.failpoints = "stage.started=1*panic".to_owned();
    let mut cluster = Cluster::start(plan).await;
    cluster.create_jobs().await;
    cluster.until_said(0, "stage actor died").await;
    cluster.settle().await;
    assert!(cluster.interruptions().await > 0);
    cluster.all_is_well().await;
}

/// On every node with a device the first forward pass never returns.
/// Rows: F32.
#[tokio::test(flavor = "multi_thread")]
async fn device_threads_hang() {
    let mut plan = Plan::full(SHELF).with(&[("health.progress_window", "10s")]);
    plan.failpoints = "device.pass=1*pause".to_owned();
    let mut cluster = Cluster::start(plan).await;
    cluster.create_jobs().await;
    cluster.until_said(0, "no progress; its pool is replaced").await;
    cluster.settle().await;
    assert!(cluster.interruptions().await > 0);
    cluster.all_is_well().await;
}

/// One of the two nodes with a device has a sick one, which hangs or is lost, for good or at times, or is slow. The other node does
/// the work, no volume pays for it, and the node with the sick device says so.
#[tokio::test(flavor = "multi_thread")]
async fn half_of_the_devices_are_sick() {
    for (pass, told) in [
        ("pause", Some("no progress; its pool is replaced")),
        ("panic", Some("the stage is taken out of service on this node")),
        (
            "30%panic",
            Some("the stage is out of order; it will be tested again"),
        ),
        ("sleep(2000)", None),
    ] {
        let settings = [("health.progress_window", "10s"), ("health.max_renewals", "1")];
        let mut cluster = Cluster::start(Plan::full(SHELF).with(&settings)).await;
        cluster.kill_worker(0);
        let sick = format!("device.pass={pass}");
        cluster.start_worker(0, &sick).await;
        cluster.plan.failpoints_of_successors = sick;
        cluster.create_jobs().await;
        if let Some(told) = told {
            cluster.until_said(0, told).await;
        }
        cluster.all_is_well().await;
    }
}

/// Every node that begins one of the volumes dies of it. The volume is set aside with its reason; the others are done, and
/// the nodes are well.
/// Rows: 138.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_kills_its_nodes_is_set_aside() {
    let cluster = Cluster::start(with_poison(Plan::full(SHELF))).await;
    all_but_the_poison_is_done(cluster).await;
}

/// The same plan with a volume of which nodes die.
pub(crate) fn with_poison(plan: Plan) -> Plan {
    let mut plan = plan.with(&[("orchestrator.max_interruptions", "3")]);
    let poison = Library::volume(1);
    plan.failpoints = format!("stage.started@{poison}/line_detection=return(abort)");
    plan.failpoints_of_successors = plan.failpoints.clone();
    plan
}

pub(crate) async fn all_but_the_poison_is_done(mut cluster: Cluster) {
    cluster.create_job("kangyur").await;
    cluster.settle().await;
    for task in cluster.tasks().await {
        cluster.history_is_sound(&task).await;
        let volume = task.volume.to_string();
        if volume == Library::volume(1) {
            assert_eq!(task.status, TaskStatus::Failed, "{task:?}");
            let reason = task.last_error.unwrap();
            assert_eq!(reason.category, ErrorCategory::Poison);
            assert!(reason.message.contains("3 times in a row"), "{reason}");
        } else {
            assert_eq!((task.status, task.attempts), (TaskStatus::Done, 0), "{task:?}");
            let folder = |job: &std::path::Path| job.join("volumes").join(&volume);
            let made = cluster.artifacts().join("jobs/kangyur");
            let undisturbed = cluster.plan.library.undisturbed("kangyur");
            assert_same_files(&folder(&made), &folder(&undisturbed));
        }
    }
    cluster.leave().await;
}
