//! Questions to records as runs write them.

use std::path::Path;
use std::time::Duration;

use parkhang_actors::runner::{ItemReport, ItemStatus, ManifestRecord, ManifestSink, WorkItem};
use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{ErrorCategory, StageError};
use serde_json::{Map, Value};

use super::*;

async fn record(root: &Path, of: (&str, &str), page: &str, seconds: f64, error: Option<ErrorCategory>) {
    let (volume, stage_name) = of;
    let stage = stage(stage_name);
    let report = ItemReport {
        status: error.map_or(ItemStatus::Success, |_| ItemStatus::Failure),
        attempts: 2,
        duration: Duration::from_secs_f64(seconds),
        error: error.map(|category| StageError::new(stage_name, category, format!("{page} is bad"))),
        manifest: Map::from_iter([("chunk_count".to_owned(), Value::from(3))]),
    };
    let path = format!("manifests/J1/{volume}/parkhang.{stage_name}.manifest.jsonl");
    let sink = ManifestSink::new(root.join(path));
    sink.append(ManifestRecord::new(&stage, &WorkItem::new(page), &report))
        .await
        .unwrap();
}

fn of(folder: &Path) -> RecordArgs {
    RecordArgs {
        folder: folder.to_owned(),
        job: None,
        stage: None,
    }
}

async fn example() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    use ErrorCategory::{Input, Timeout};
    record(root, ("W1-I1", "doctags"), "p1", 0.5, None).await;
    record(root, ("W1-I1", "doctags"), "p2", 12.0, None).await;
    record(root, ("W1-I1", "doctags"), "p3", 30.0, Some(Timeout)).await;
    record(root, ("W1-I1", "doctags"), "p4", 0.1, Some(Input)).await;
    record(root, ("W1-I2", "doctags"), "p1", 0.1, Some(Input)).await;
    // A later run does what an earlier one could not.
    record(root, ("W1-I1", "doctags"), "p3", 11.0, None).await;
    record(root, ("W1-I1", "chunk"), "p1", 99.0, None).await;
    folder
}

/// Rows: 215.
#[tokio::test]
async fn slow_pages_are_listed_the_slowest_first() {
    let folder = example().await;
    let mut arguments = SlowArgs {
        records: of(folder.path()),
        slower_than: Duration::from_secs(10),
        limit: 3,
        json: true,
    };
    let found = slow::find(&arguments).unwrap();
    let pages: Vec<(&str, f64)> = found
        .pages
        .iter()
        .map(|page| (page.stage.as_str(), page.duration_s))
        .collect();
    assert_eq!(pages, [("chunk", 99.0), ("doctags", 30.0), ("doctags", 12.0)]);
    assert_eq!(found.total, 4);
    arguments.records.stage = Some(stage("doctags"));
    arguments.limit = 1;
    let found = slow::find(&arguments).unwrap();
    assert_eq!((found.total, found.pages[0].page.as_str()), (3, "p3"));
}

/// Rows: 215.
#[tokio::test]
async fn failures_are_counted_by_category_as_they_are_at_last() {
    let folder = example().await;
    let counts = errors::count(&of(folder.path())).unwrap();
    let [kind] = &counts[..] else {
        panic!("{counts:?}");
    };
    assert_eq!(
        (kind.stage.as_str(), kind.category.as_str(), kind.pages),
        ("doctags", "input", 2)
    );
    assert_eq!(
        (kind.such_as.as_str(), kind.message.as_str()),
        ("W1-I1 p4", "p4 is bad")
    );
}

/// Rows: 203.
#[tokio::test]
async fn records_get_the_names_and_the_form_of_docparse() {
    let folder = example().await;
    let to = folder.path().join("to");
    let paths = docparse::write(&of(folder.path()), &to).unwrap();
    let expected =
        ["chunk", "doctags"].map(|stage| to.join(format!("Data/Manifests/docparse.{stage}.manifest.jsonl")));
    assert_eq!(paths, expected);
    let lines = std::fs::read_to_string(&paths[1]).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[1]["doc_id"], "W1-I1/p2");
    assert_eq!(lines[1]["schema_version"], "docparse/1.1.0");
    assert_eq!(lines[1]["chunk_count"], 3);
    assert_eq!(std::fs::read_dir(to.join("Data/Manifests")).unwrap().count(), 2);
}

#[tokio::test]
async fn what_is_no_record_is_named() {
    let folder = example().await;
    let none = errors::count(&of(&folder.path().join("none"))).unwrap_err();
    assert!(format!("{none:#}").contains("none/manifests"), "{none:#}");
    let file = folder
        .path()
        .join("manifests/J1/W1-I2/parkhang.doctags.manifest.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{whole}{{\"stage\": \"doc")).unwrap();
    assert_eq!(
        errors::count(&of(folder.path())).unwrap()[0].pages,
        2,
        "a line that is being written"
    );
    std::fs::write(&file, format!("{whole}{{}}\n")).unwrap();
    let broken = format!("{:#}", errors::count(&of(folder.path())).unwrap_err());
    assert!(
        broken.contains("line 2 of ") && broken.contains("W1-I2/parkhang.doctags"),
        "{broken}"
    );
}
