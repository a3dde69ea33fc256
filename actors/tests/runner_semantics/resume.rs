//! When the items of a run are taken over from an earlier one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use parkhang_actors::runner::{ItemWorker, Redo, StageControls, StageOptions, StageOutcome, WorkItem};
use parkhang_core::domain::StageError;
use parkhang_store::artifact::{Digest, Fingerprint};

use crate::support::run_with;

/// Outputs that outlive a run: by item, the text and what it was made of.
type Shelf = Arc<Mutex<BTreeMap<String, (String, Fingerprint)>>>;

/// Copies the item's input to its output, and remembers whose.
struct Copier {
    inputs: BTreeMap<String, String>,
    outputs: Shelf,
    copied: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl ItemWorker for Copier {
    type Output = String;

    async fn run(&self, item: &WorkItem, _: u32) -> Result<String, StageError> {
        let made = (self.inputs[&item.item_id].clone(), item.fingerprint.unwrap());
        self.outputs.lock().unwrap().insert(item.item_id.clone(), made);
        self.copied.lock().unwrap().push(item.item_id.clone());
        Ok(item.item_id.clone())
    }

    async fn resume(&self, item: &WorkItem) -> Result<String, Redo> {
        match self.outputs.lock().unwrap().get(&item.item_id) {
            None => Err(Redo::Absent),
            Some((_, made_of)) if Some(*made_of) != item.fingerprint => Err(Redo::Changed),
            Some(_) => Ok(item.item_id.clone()),
        }
    }
}

/// Inputs and outputs of three items.
struct CopyStage {
    inputs: BTreeMap<String, String>,
    outputs: Shelf,
}

impl CopyStage {
    fn new() -> Self {
        let inputs = ["a", "b", "c"].map(|id| (id.to_owned(), id.to_owned()));
        Self {
            inputs: inputs.into(),
            outputs: Shelf::default(),
        }
    }

    fn plan(&self, config: &[u8]) -> Vec<WorkItem> {
        let item = |(id, input): (&String, &String)| {
            let input_hash = Digest::of(input.as_bytes());
            WorkItem {
                input_hash: Some(input_hash),
                fingerprint: Some(Fingerprint::of("test", 1, Digest::of(config), input_hash, &[])),
                ..WorkItem::new(id)
            }
        };
        self.inputs.iter().map(item).collect()
    }

    /// Runs the plan as the inputs are now; returns what was copied, in order.
    async fn copy(&self, config: &[u8], force: bool) -> (Vec<String>, StageOutcome) {
        let worker = Copier {
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            copied: Arc::default(),
        };
        let copied = worker.copied.clone();
        let options = StageOptions {
            resume: true,
            force,
            workers: 1,
            ..StageOptions::default()
        };
        let (outcome, collected) =
            run_with(self.plan(config), worker, &options, StageControls::default()).await;
        assert_eq!(
            collected.ids(),
            ["a", "b", "c"],
            "skipped items are delivered as well"
        );
        (copied.lock().unwrap().clone(), outcome)
    }
}

/// Rows: 162, 174, 182, 192, 194.
#[tokio::test]
async fn a_finished_run_is_skipped_whole() {
    let stage = CopyStage::new();
    assert_eq!(stage.copy(b"1", false).await.0, ["a", "b", "c"]);
    let (copied, outcome) = stage.copy(b"1", false).await;
    assert!(copied.is_empty());
    assert_eq!((outcome.skipped, outcome.scheduled, outcome.succeeded), (3, 0, 0));
}

#[tokio::test]
async fn outputs_that_are_gone_are_made_again() {
    let stage = CopyStage::new();
    stage.copy(b"1", false).await;
    stage.outputs.lock().unwrap().remove("a");
    assert_eq!(stage.copy(b"1", false).await.0, ["a"]);
}

/// Rows: 195.
#[tokio::test]
async fn a_new_configuration_makes_everything_again() {
    let stage = CopyStage::new();
    stage.copy(b"1", false).await;
    assert_eq!(stage.copy(b"2", false).await.0, ["a", "b", "c"]);
    assert!(stage.copy(b"2", false).await.0.is_empty());
}

/// Rows: 196.
#[tokio::test]
async fn a_new_input_makes_its_item_again() {
    let mut stage = CopyStage::new();
    stage.copy(b"1", false).await;
    stage.inputs.insert("b".to_owned(), "new".to_owned());
    assert_eq!(stage.copy(b"1", false).await.0, ["b"]);
    assert_eq!(stage.outputs.lock().unwrap()["b"].0, "new");
}

/// Rows: 174, 197.
#[tokio::test]
async fn force_makes_everything_again() {
    let stage = CopyStage::new();
    stage.copy(b"1", false).await;
    assert_eq!(stage.copy(b"1", true).await.0, ["a", "b", "c"]);
}
