use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::stage::checkpoint::Checkpoints;
use crate::stage::fenced::find;
use crate::stage::paged::beside;
use parkhang_core::domain::testing::{at, job, leased_task, stage};
use parkhang_core::domain::{Assignment, Attempt, Generation};
use parkhang_store::artifact::{Digest, ErrorRow, Fingerprint, OcrResultRow, write_table};
use parkhang_store::storage::{ArtifactStore, DelayedStore, MemoryArtifacts, StoreDelay};

type Row = OcrResultRow;

const PAGE: &str = "p1";

/// A run of a stage under a lease, which makes what its configuration says.
struct Worker {
    run: Arc<VolumeRun>,
    provenance: Provenance,
    found: FoundTables,
}

impl Worker {
    /// A run that begins now.
    async fn begin(
        store: &Arc<impl ArtifactStore + 'static>,
        generation: i64,
        attempt: i32,
        config: &str,
    ) -> Self {
        let mut assignment = Assignment::of(leased_task(1, "read", "w", at(60)), &job()).unwrap();
        assignment.fence.generation = Generation(generation);
        assignment.fence.attempt = Attempt(attempt);
        let run = Arc::new(VolumeRun::new(beside(assignment), store.clone(), stage("read")));
        let digest = Digest::of(config.as_bytes());
        let fingerprint = Fingerprint::of("read", 1, digest, digest, &[]);
        let provenance = Provenance {
            job: run.assignment().job.clone(),
            volume: run.volume().clone(),
            stage: run.stage.clone(),
            attempt: Attempt(attempt),
            models: Vec::new(),
            config_hash: digest,
            input_hash: digest,
            build: "1".to_owned(),
            fingerprint,
            pages: BTreeMap::from([(PAGE.to_owned(), fingerprint)]),
            service: None,
        };
        let version = async |key| find(&run, &key).await.unwrap().map(|found| found.version);
        let found = FoundTables {
            table: version(run.table::<Row>()).await,
            errors: version(run.layout.errors(&run.stage)).await,
        };
        Self {
            run,
            provenance,
            found,
        }
    }

    async fn publish(&self) -> Published {
        let finished = Finished::<Row> {
            rows: Vec::new(),
            errors: Vec::new(),
            pages: BTreeSet::from([PAGE.to_owned()]),
        };
        let published = publish(&self.run, finished, &self.provenance, &self.found).await;
        let published = published.unwrap();
        if published == Published::Yes {
            drop_parts(&self.run).await.unwrap();
        }
        published
    }

    async fn save_part(&self) -> ArtifactKey {
        let part = self.run.layout.part(&self.run.assignment().fence, 0);
        let rows = Vec::<Row>::new();
        write_table(self.run.store.as_ref(), &part, rows, &self.provenance)
            .await
            .unwrap();
        part
    }

    /// True if the tables are those of this run.
    async fn stands(&self) -> bool {
        let store = self.run.store.as_ref();
        let table = read_table::<Row>(store, &self.run.table::<Row>()).await.unwrap();
        let errors = self.run.layout.errors(&self.run.stage);
        let errors = read_table::<ErrorRow>(store, &errors).await.unwrap();
        assert_eq!(errors.provenance, table.provenance);
        table.provenance == self.provenance
    }
}

#[tokio::test]
async fn a_stale_worker_writes_over_no_table_and_deletes_no_checkpoint_of_its_successor() {
    let store = Arc::new(MemoryArtifacts::new());
    let stale = Worker::begin(&store, 0, 1, "old").await;
    stale.save_part().await;
    // The lease is lost; the task is sent back with another configuration.
    let successor = Worker::begin(&store, 1, 1, "new").await;
    assert_eq!(successor.publish().await, Published::Yes);
    assert_eq!(stale.publish().await, Published::Overtaken);
    assert!(successor.stands().await);

    // The successor of that one is at work.
    let next = Worker::begin(&store, 2, 1, "newer").await;
    let part = next.save_part().await;
    assert_eq!(stale.publish().await, Published::Overtaken);
    drop_parts(&stale.run).await.unwrap();
    assert!(store.head(&part).await.unwrap().is_some(), "of a later lease");
    assert_eq!(next.publish().await, Published::Yes);
    assert!(next.stands().await);
    assert_eq!(store.head(&part).await.unwrap(), None);
}

#[tokio::test]
async fn a_run_that_a_stale_worker_has_overtaken_sees_its_tables_the_next_time() {
    let store = Arc::new(MemoryArtifacts::new());
    let stale = Worker::begin(&store, 0, 1, "old").await;
    let successor = Worker::begin(&store, 1, 1, "new").await;
    let part = successor.save_part().await;
    assert_eq!(stale.publish().await, Published::Yes);
    assert!(
        store.head(&part).await.unwrap().is_some(),
        "the stale one deletes its own"
    );
    assert_eq!(successor.publish().await, Published::Overtaken);
    let again = Worker::begin(&store, 2, 1, "new").await;
    assert_eq!(again.publish().await, Published::Yes);
    assert!(again.stands().await);
}

#[tokio::test]
async fn a_table_that_was_deleted_meanwhile_does_not_come_back() {
    let store = Arc::new(MemoryArtifacts::new());
    let first = Worker::begin(&store, 0, 1, "old").await;
    assert_eq!(first.publish().await, Published::Yes);
    let stale = Worker::begin(&store, 1, 1, "new").await;
    for (key, _) in store
        .list(&stale.run.layout.stage_folder(&stale.run.stage))
        .await
        .unwrap()
    {
        store.delete(&key).await.unwrap();
    }
    assert_eq!(stale.publish().await, Published::Overtaken);
    let left = store.list(&stale.run.layout.stage_folder(&stale.run.stage)).await;
    assert!(left.unwrap().is_empty());
}

/// A run of the volume whose worker is killed while the store takes its time over a checkpoint.
async fn killed_while_it_saves(store: &Arc<MemoryArtifacts>) -> Worker {
    let delay = StoreDelay::default();
    let slow = Arc::new(DelayedStore::new(store.clone(), delay.clone()));
    let worker = Worker::begin(&slow, 0, 1, "same").await;
    let mut checkpoints = Checkpoints::<Row>::of_page(worker.run.clone(), &worker.provenance, PAGE);
    // Its images are flushed within the first second, and the part is written within the second one.
    delay.begin(Duration::from_secs(1), Duration::from_secs(60));
    let saving = tokio::spawn(async move { checkpoints.save_part().await });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    saving.abort();
    assert!(saving.await.unwrap_err().is_cancelled());
    worker
}

async fn parts_of(worker: &Worker) -> usize {
    parts(&worker.run).await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_is_under_way_when_its_worker_is_killed_is_written_for_the_next_run() {
    let store = Arc::new(MemoryArtifacts::new());
    let killed = killed_while_it_saves(&store).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(parts_of(&killed).await, 1);
    drop_superseded_parts::<Row>(&killed.run).await.unwrap();
    assert_eq!(
        parts_of(&killed).await,
        1,
        "nothing is published that has its page"
    );
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_is_under_way_when_its_worker_is_killed_is_deleted_where_the_stage_is_published() {
    let store = Arc::new(MemoryArtifacts::new());
    let killed = killed_while_it_saves(&store).await;
    let successor = Worker::begin(&store, 1, 1, "same").await;
    assert_eq!(successor.publish().await, Published::Yes);
    drop_superseded_parts::<Row>(&killed.run).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(parts_of(&killed).await, 0);
}
