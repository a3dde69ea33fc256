//! When the items of a run are taken over from an earlier one: outputs on plain paths, with their fingerprint files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use parkhang_actors::artifact::Digest;
use parkhang_actors::domain::{ErrorCategory, StageError};
use parkhang_actors::runner::{
    ItemWorker, OutputFingerprints, StageControls, StageOptions, StageOutcome, WorkItem,
};

use crate::support::run_with;

/// Copies the item's input to its output, and remembers whose.
#[derive(Default)]
struct Copier {
    copied: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl ItemWorker for Copier {
    type Output = String;

    async fn run(&self, item: &WorkItem, _: u32) -> Result<String, StageError> {
        let fail = |error| StageError::new("test", ErrorCategory::Runtime, error);
        tokio::fs::copy(&item.inputs["page"], &item.outputs["copy"])
            .await
            .map_err(fail)?;
        OutputFingerprints::record(item).await.map_err(fail)?;
        self.copied.lock().unwrap().push(item.item_id.clone());
        Ok(item.item_id.clone())
    }

    async fn resume(&self, item: &WorkItem) -> Option<String> {
        OutputFingerprints::satisfy(item)
            .await
            .then(|| item.item_id.clone())
    }
}

fn plan(folder: &Path, config: &[u8]) -> Vec<WorkItem> {
    let path = |name: String| folder.join(name).to_str().unwrap().to_owned();
    let item = |id: &str| {
        let input = path(format!("{id}.in"));
        let input_hash = Digest::of(&std::fs::read(&input).unwrap());
        WorkItem {
            inputs: BTreeMap::from([("page".to_owned(), input)]),
            outputs: BTreeMap::from([("copy".to_owned(), path(format!("{id}.out")))]),
            input_hash: Some(input_hash),
            ..WorkItem::new(id, Digest::of(config))
        }
    };
    ["a", "b", "c"].map(item).into()
}

/// Runs the plan as the files are now; returns what was copied, in order.
async fn copy(folder: &Path, config: &[u8], force: bool) -> (Vec<String>, StageOutcome) {
    let worker = Copier::default();
    let copied = worker.copied.clone();
    let options = StageOptions {
        resume: true,
        force,
        workers: 1,
        ..StageOptions::default()
    };
    let (outcome, collected) =
        run_with(plan(folder, config), worker, &options, StageControls::default()).await;
    assert_eq!(
        collected.ids(),
        ["a", "b", "c"],
        "skipped items are delivered as well"
    );
    (copied.lock().unwrap().clone(), outcome)
}

fn folder_with_inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for id in ["a", "b", "c"] {
        std::fs::write(folder.path().join(format!("{id}.in")), id).unwrap();
    }
    folder
}

#[tokio::test]
async fn a_finished_run_is_skipped_whole() {
    let folder = folder_with_inputs();
    assert_eq!(copy(folder.path(), b"1", false).await.0, ["a", "b", "c"]);
    let (copied, outcome) = copy(folder.path(), b"1", false).await;
    assert!(copied.is_empty());
    assert_eq!((outcome.skipped, outcome.scheduled, outcome.succeeded), (3, 0, 0));
}

#[tokio::test]
async fn outputs_that_are_gone_empty_or_unmarked_are_made_again() {
    let folder = folder_with_inputs();
    copy(folder.path(), b"1", false).await;
    std::fs::remove_file(folder.path().join("a.out")).unwrap();
    assert_eq!(copy(folder.path(), b"1", false).await.0, ["a"]);
    std::fs::write(folder.path().join("b.out"), "").unwrap();
    assert_eq!(copy(folder.path(), b"1", false).await.0, ["b"]);
    std::fs::remove_file(folder.path().join("c.out.fp.json")).unwrap();
    assert_eq!(copy(folder.path(), b"1", false).await.0, ["c"]);
    std::fs::write(folder.path().join("c.out.fp.json"), "{").unwrap();
    assert_eq!(copy(folder.path(), b"1", false).await.0, ["c"]);
}

#[tokio::test]
async fn a_new_configuration_makes_everything_again() {
    let folder = folder_with_inputs();
    copy(folder.path(), b"1", false).await;
    assert_eq!(copy(folder.path(), b"2", false).await.0, ["a", "b", "c"]);
    assert!(copy(folder.path(), b"2", false).await.0.is_empty());
}

#[tokio::test]
async fn a_new_input_makes_its_item_again() {
    let folder = folder_with_inputs();
    copy(folder.path(), b"1", false).await;
    std::fs::write(folder.path().join("b.in"), "new").unwrap();
    assert_eq!(copy(folder.path(), b"1", false).await.0, ["b"]);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("b.out")).unwrap(),
        "new"
    );
}

#[tokio::test]
async fn force_makes_everything_again() {
    let folder = folder_with_inputs();
    copy(folder.path(), b"1", false).await;
    assert_eq!(copy(folder.path(), b"1", true).await.0, ["a", "b", "c"]);
}
