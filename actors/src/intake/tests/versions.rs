//! Requests for volumes that were read before, in a version that may have changed.

use parkhang_core::domain::{JobStatus, Position, VolumeId};
use parkhang_core::policy::job_action::JobAction;
use parkhang_store::pages::{BdrcArchive, PageSource, common_version};
use parkhang_store::storage::{ArtifactKey, ArtifactStore, MemoryArtifacts};

use super::*;

/// An archive in memory.
struct Archive {
    store: Arc<MemoryArtifacts>,
    scans: Arc<dyn PageSource>,
}

impl Archive {
    fn new() -> Self {
        let store = Arc::new(MemoryArtifacts::new());
        let scans = Arc::new(BdrcArchive::new(store.clone()));
        Self { store, scans }
    }

    /// Writes the list of a volume with so many images; returns its version.
    async fn put(&self, volume: &VolumeId, images: usize) -> String {
        let list: Vec<Value> = (0..images)
            .map(|n| json!({ "filename": format!("I0001{n:03}.jpg"), "width": 10, "height": 10 }))
            .collect();
        let bytes = serde_json::to_vec(&list).unwrap();
        self.store.put(&key(volume), bytes.into()).await.unwrap();
        let pages = self.scans.pages(volume).await.unwrap();
        common_version(&pages).unwrap().to_owned()
    }

    async fn damage(&self, volume: &VolumeId) {
        self.store
            .put(&key(volume), b"no list".to_vec().into())
            .await
            .unwrap();
    }
}

fn key(volume: &VolumeId) -> ArtifactKey {
    ArtifactKey::new(format!("{}/dimensions.json", BdrcArchive::folder(volume))).unwrap()
}

impl World {
    async fn settle(&self, archive: &Archive) -> u64 {
        self.intake.settle(&archive.scans).await.unwrap()
    }

    async fn open(&self) -> usize {
        self.store
            .open_requests(self.job.id, None, 100)
            .await
            .unwrap()
            .len()
    }
}

/// The archive's rows are of one version each, so that a message for another one is work; one for the same is not.
#[tokio::test(start_paused = true)]
async fn a_volume_is_read_again_when_the_archive_has_another_version() {
    let (world, archive) = (World::new().await, Archive::new());
    world.enqueue("W1", "I1").await;
    world.take_all().await;
    let task = world.task().await;
    let first = archive.put(&task.volume, 1).await;
    let done = world.finish(&task, &first).await;
    world.enqueue("W1", "I1").await;
    world.take_all().await;
    assert_eq!((world.open().await, world.settle(&archive).await), (1, 0));
    assert_eq!((world.task().await, world.open().await), (done, 0));

    let second = archive.put(&task.volume, 2).await;
    assert_ne!(first, second);
    assert_eq!(world.settle(&archive).await, 0, "nobody has asked");
    for _ in 0..2 {
        world.enqueue("W1", "I1").await;
    }
    world.take_all().await;
    assert_eq!(world.settle(&archive).await, 1);
    let again = world.task().await;
    assert_eq!(
        (&again.position, again.status),
        (&Position::Pending, TaskStatus::Pending)
    );
    let done = world.finish(&again, &second).await;
    assert_eq!(world.settle(&archive).await, 0);
    assert_eq!(world.task().await, done);
}

/// The first stage may have looked at the list before it changed, so what it has read decides once it is known.
#[tokio::test(start_paused = true)]
async fn a_request_while_the_first_stage_runs_is_answered_after_it() {
    let (world, archive) = (World::new().await, Archive::new());
    world.enqueue("W1", "I1").await;
    world.take_all().await;
    let task = world.task().await;
    let first = archive.put(&task.volume, 1).await;
    let running = world.lease(&task).await;
    archive.put(&task.volume, 2).await;
    world.enqueue("W1", "I1").await;
    world.take_all().await;
    assert_eq!(world.settle(&archive).await, 0);
    assert_eq!((world.task().await, world.open().await), (running.clone(), 1));
    let read = Some(json!({ "version": first }));
    let detected = world.commit_with(&running, Event::Succeeded, read).await.unwrap();
    let reading = world.lease(&detected).await;
    assert_eq!(world.settle(&archive).await, 1);
    assert_eq!(
        world.commit_with(&reading, Event::Succeeded, None).await,
        None,
        "whoever reads the old version is fenced off"
    );
    assert_eq!(world.task().await.position, Position::Pending);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_looked_up_holds_up_no_other() {
    let (world, archive) = (World::new().await, Archive::new());
    for n in 0..3 {
        world.enqueue("W1", &format!("I{n}")).await;
    }
    world.take_all().await;
    for task in world.tasks().await {
        archive.put(&task.volume, 1).await;
        world.finish(&task, "before").await;
        world.enqueue("W1", task.volume.i_id()).await;
    }
    world.take_all().await;
    let volumes: Vec<VolumeId> = world.tasks().await.into_iter().map(|task| task.volume).collect();
    archive.damage(&volumes[0]).await;
    archive.store.delete(&key(&volumes[1])).await.unwrap();
    assert_eq!(world.settle(&archive).await, 1);
    let tasks = world.tasks().await;
    assert_eq!(tasks[1].position, Position::Done, "there is nothing to read");
    assert_eq!(tasks[2].position, Position::Pending);
    assert_eq!(world.open().await, 1, "asked again");
    archive.put(&volumes[0], 3).await;
    assert_eq!(world.settle(&archive).await, 1);
}

/// A request of the time when the job stood is answered after it was closed, too.
#[tokio::test(start_paused = true)]
async fn a_closed_job_answers_what_it_was_asked() {
    let (world, archive) = (World::new().await, Archive::new());
    world.enqueue("W1", "I1").await;
    world.take_all().await;
    let task = world.task().await;
    archive.put(&task.volume, 1).await;
    world.finish(&task, "before").await;
    world.enqueue("W1", "I1").await;
    world.take_all().await;
    let close = world.store.act_on_job(world.job.id, JobAction::Close);
    close.await.unwrap();
    world.store.finish_jobs(at(5)).await.unwrap();
    assert!(world.intake.round().await.is_err());
    assert_eq!(world.settle(&archive).await, 1);
    let job = world.store.job_by_id(world.job.id).await.unwrap().unwrap();
    assert_eq!(job.status, JobStatus::Running);
    let cancel = world.store.act_on_job(world.job.id, JobAction::Cancel);
    cancel.await.unwrap();
    assert_eq!(world.settle(&archive).await, 0);
}

/// The cases of the archive's runtime in which a message comes for a volume that was taken before. By the age of its row it deletes the
/// messages of volumes that nobody goes on with, and takes others from whoever works on them; the cases of its markers, of its writes
/// that fail and of rows by version have no counterpart here, as there is one transaction. Here, of whatever age: what runs goes on,
/// what failed is tried again, what is done stays done unless its version has changed, and no message is left.
/// Rows: U26, U27, U32.
#[tokio::test(start_paused = true)]
async fn no_case_of_the_archives_runtime_loses_a_volume_or_takes_it_away() {
    let mut lost_there = 0;
    for case in golden("process_cases.jsonl") {
        let (world, archive) = (World::new().await, Archive::new());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (w_id, i_id) = (text(&case["volume"]["w_id"]), text(&case["volume"]["i_id"]));
        world.enqueue(&w_id, &i_id).await;
        world.take_all().await;
        let task = world.task().await;
        let version = archive.put(&task.volume, 1).await;
        let status = text(&case["existing_task"]["status"]);
        let before = match status.as_str() {
            "running" => world.lease(&task).await,
            "done" => match text(&case["scenario"]).as_str() {
                "same_volume_other_etag" => world.finish(&task, "another").await,
                _ => world.finish(&task, &version).await,
            },
            "retryable_failed" => world.fail(&task, ErrorCategory::Network).await,
            "terminal_failed" => world.fail(&task, ErrorCategory::Input).await,
            other => panic!("{other}"),
        };
        world.enqueue(&w_id, &i_id).await;
        world.take_all().await;
        let sent_back = world.settle(&archive).await;
        let after = world.task().await;
        match (status.as_str(), text(&case["scenario"]).as_str()) {
            ("terminal_failed", _) => {
                assert_eq!((&after.position, sent_back), (&Position::Pending, 0), "{case}");
            }
            (_, "same_volume_other_etag") => {
                assert_eq!((&after.position, sent_back), (&Position::Pending, 1), "{case}");
            }
            _ => assert_eq!(after, before, "{case}"),
        }
        let scope = world.job.config.retry_scope;
        let goes_on = after.status == TaskStatus::Running
            || after.position == Position::Done
            || runnable_stage(&after, &world.job.pipeline, scope).is_some();
        assert!(goes_on, "{case}");
        assert_eq!(world.counts().await, (0, 0, 0));
        let there = case["status_after"][0].as_str().unwrap();
        lost_there += usize::from(case["message_deleted"] == true && there.ends_with("_failed"));
    }
    assert!(lost_there >= 8, "{lost_there}");
}
