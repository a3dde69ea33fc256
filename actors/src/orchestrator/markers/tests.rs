use super::*;
use parkhang_core::domain::testing::{at, new_job, stage, worker};
use parkhang_core::domain::{ErrorCategory, JobConfig, JobKey, LayoutName, NewJob, StageError, VolumeId};
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, MemoryStore, Outcome};
use parkhang_store::artifact::Markers;
use parkhang_store::storage::{ArtifactKey, MemoryArtifacts};

/// A job of one stage, in a layout with markers.
struct Control {
    store: MemoryStore,
    artifacts: MemoryArtifacts,
    job: Job,
}

impl Control {
    async fn new() -> Self {
        Self::with_volumes(3).await
    }

    async fn with_volumes(volumes: usize) -> Self {
        let store = MemoryStore::new();
        let job = NewJob {
            key: Some(JobKey::new("job").unwrap()),
            config: JobConfig {
                layout: LayoutName::BdrcV1,
                ..JobConfig::default()
            },
            ..new_job(&["ocr"], volumes)
        };
        let job = store.create_job(&job, at(0)).await.unwrap();
        Self {
            store,
            artifacts: MemoryArtifacts::new(),
            job,
        }
    }

    async fn task(&self, name: &str) -> Task {
        let tasks = self.store.tasks(self.job.id).await.unwrap();
        let found = tasks.into_iter().find(|task| task.volume == volume(name));
        found.unwrap()
    }

    async fn commit(&self, name: &str, event: Event, seconds: i64) {
        let change = Change::new(Expected::of(&self.task(name).await), event);
        let outcomes = self.store.commit(&[change], at(seconds)).await.unwrap();
        assert!(matches!(outcomes[0], Outcome::Applied(_)), "{outcomes:?}");
    }

    /// Runs the stage from second 10 to second 12.
    async fn run(&self, name: &str, event: Event) {
        let leased = Event::Leased {
            stage: stage("ocr"),
            worker: worker("w"),
            until: at(60),
        };
        self.commit(name, leased, 10).await;
        self.commit(name, event, 12).await;
    }

    fn markers(&self, name: &str) -> Markers {
        let layout = ArtifactLayout::new(self.job.config.layout, &self.job.key);
        layout.volume(&volume(name)).markers().unwrap()
    }

    /// Which of the two markers are there.
    async fn marked(&self, name: &str) -> (bool, bool) {
        let Markers { done, error } = self.markers(name);
        let is_there = async |key: &ArtifactKey| self.artifacts.head(key).await.unwrap().is_some();
        (is_there(&done).await, is_there(&error).await)
    }

    async fn write(&self) -> Result<(), MarkerError> {
        write_markers(&self.store, &self.artifacts).await
    }
}

fn volume(name: &str) -> VolumeId {
    name.parse().unwrap()
}

fn failure() -> Event {
    Event::Failed {
        error: StageError::new("ocr", ErrorCategory::Input, "torn"),
        not_before: None,
    }
}

/// Rows: 94, 101, F34.
#[tokio::test]
async fn a_finished_volume_has_the_marker_of_its_end() {
    let control = Control::new().await;
    control.run("W1-I1", Event::Succeeded).await;
    control.run("W1-I2", failure()).await;
    control.write().await.unwrap();
    assert_eq!(control.marked("W1-I1").await, (true, false));
    assert_eq!(control.marked("W1-I2").await, (false, true));
    assert_eq!(control.marked("W1-I3").await, (false, false));

    let done = control
        .artifacts
        .get(&control.markers("W1-I1").done)
        .await
        .unwrap();
    let reported: VolumeDone = serde_json::from_slice(&done).unwrap();
    assert_eq!(
        (&reported.job, &reported.volume_id),
        (&control.job.key, &volume("W1-I1"))
    );
    assert_eq!(
        (reported.done_at, reported.took_ms[&stage("ocr")]),
        (at(12), 2000.0)
    );
    let failed = control
        .artifacts
        .get(&control.markers("W1-I2").error)
        .await
        .unwrap();
    let reported: VolumeFailed = serde_json::from_slice(&failed).unwrap();
    assert_eq!(
        (reported.error.unwrap().message.as_str(), reported.failed_at),
        ("torn", at(12))
    );

    // A process that dies before it notes what it wrote writes the same again.
    let rerun = Control::new().await;
    rerun.run("W1-I1", Event::Succeeded).await;
    rerun
        .artifacts
        .put(&rerun.markers("W1-I1").done, done.clone())
        .await
        .unwrap();
    rerun.write().await.unwrap();
    assert_eq!(
        rerun.artifacts.get(&rerun.markers("W1-I1").done).await.unwrap(),
        done
    );
}

/// Rows: U36.
#[tokio::test]
async fn a_volume_that_is_done_again_has_the_marker_of_its_last_end() {
    let control = Control::new().await;
    control.run("W1-I1", failure()).await;
    control.write().await.unwrap();
    assert_eq!(control.marked("W1-I1").await, (false, true));
    let again = Event::Rerun {
        stage: stage("ocr"),
        force: false,
    };
    control.commit("W1-I1", again, 20).await;
    control.run("W1-I1", Event::Succeeded).await;
    control.write().await.unwrap();
    assert_eq!(control.marked("W1-I1").await, (true, false));
}

/// Rows: U30.
#[tokio::test]
async fn a_marker_that_cannot_be_written_is_still_due_and_holds_up_no_other() {
    let control = Control::new().await;
    control.run("W1-I1", Event::Succeeded).await;
    control.run("W1-I2", Event::Succeeded).await;
    // What lies below the key of an object keeps it from being written.
    let in_the_way = control.markers("W1-I1").done.join("x").unwrap();
    control.artifacts.put(&in_the_way, "x".into()).await.unwrap();
    assert!(matches!(control.write().await, Err(MarkerError::Storage(_))));
    assert_eq!(control.marked("W1-I2").await, (true, false));
    let due = control.store.volumes_to_mark(None, 9).await.unwrap();
    assert_eq!(due.len(), 1);

    control.artifacts.delete(&in_the_way).await.unwrap();
    control.write().await.unwrap();
    assert_eq!(control.marked("W1-I1").await, (true, false));
    assert!(control.store.volumes_to_mark(None, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn volumes_behind_a_batch_that_fails_as_a_whole_are_marked() {
    let control = Control::with_volumes(BATCH + 1).await;
    for number in 1..=BATCH + 1 {
        control.run(&format!("W1-I{number}"), Event::Succeeded).await;
    }
    let tasks = control.store.tasks(control.job.id).await.unwrap();
    let (last, first) = tasks.split_last().unwrap();
    for task in first {
        let in_the_way = control.markers(&task.volume.to_string()).done.join("x").unwrap();
        control.artifacts.put(&in_the_way, "x".into()).await.unwrap();
    }
    assert!(matches!(control.write().await, Err(MarkerError::Storage(_))));
    assert_eq!(control.marked(&last.volume.to_string()).await, (true, false));
    let due = control.store.volumes_to_mark(None, BATCH + 1).await.unwrap();
    assert_eq!(due.len(), BATCH);
}

#[tokio::test]
async fn there_is_one_round_at_a_time_and_failures_wait_longer_each_time() {
    let artifacts: Arc<dyn ArtifactStore> = Arc::new(MemoryArtifacts::new());
    let mut rounds = MarkerRounds::new(Arc::new(MemoryStore::new()), Some(artifacts));
    let first = rounds.begin().unwrap();
    assert!(rounds.begin().is_none());
    assert_eq!(rounds.ended(first.await), AfterRound::Again);
    let second = rounds.begin().unwrap();
    assert_eq!(rounds.ended(second.await), AfterRound::Rest);

    let failure = || Err(MarkerError::State(StateError::Unavailable("away".to_owned())));
    let mut delays = Vec::new();
    for _ in 0..10 {
        assert!(rounds.begin().is_some());
        if let AfterRound::Retry(delay) = rounds.ended(failure()) {
            delays.push(delay.as_secs());
        }
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
    assert!(rounds.begin().is_some());
    rounds.ended(Ok(()));
    assert_eq!(rounds.ended(failure()), AfterRound::Retry(FIRST_RETRY));

    let mut none = MarkerRounds::new(Arc::new(MemoryStore::new()), None);
    assert!(none.begin().is_none());
}
