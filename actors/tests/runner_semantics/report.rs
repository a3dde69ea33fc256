//! What hooks, progress, percentiles and manifests say.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use parkhang_actors::runner::{
    ItemReport, ItemStatus, ManifestRecord, ManifestSink, Progress, Redo, RunContext, StageControls,
    StageHooks, StageOptions, StageOutcome, WorkItem,
};
use parkhang_core::domain::ErrorCategory;
use tokio::time::sleep;

use crate::support::{FnWorker, error, items, options, run, run_with, work_off_cost};

/// Notes what it is told, and panics each time after.
struct Diary {
    entries: Mutex<Vec<String>>,
    panics: bool,
    /// Why items are worked on.
    reason: Redo,
}

impl Default for Diary {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            panics: false,
            reason: Redo::Forced,
        }
    }
}

impl Diary {
    fn write(&self, entry: String) {
        self.entries.lock().unwrap().push(entry);
        assert!(!self.panics, "a hook must not stop the run");
    }
}

impl StageHooks for Diary {
    fn before_stage(&self, context: &RunContext) {
        self.write(format!("stage {} of {}", context.stage, context.total));
    }

    fn after_stage(&self, outcome: &StageOutcome, _: &RunContext) {
        self.write(format!(
            "{} succeeded, {} failed",
            outcome.succeeded, outcome.failed
        ));
    }

    fn before_item(&self, item: &WorkItem, reason: Redo, _: &RunContext) {
        assert_eq!(reason, self.reason);
        self.write(format!("+{}", item.item_id));
    }

    fn after_item(&self, item: &WorkItem, report: &ItemReport, _: &RunContext) {
        let sign = match report.status {
            ItemStatus::Success => "-",
            ItemStatus::Skip => "=",
            ItemStatus::Failure => "!",
        };
        self.write(format!("{sign}{}", item.item_id));
    }

    fn progress(&self, progress: &Progress, _: &RunContext) {
        let left = progress.remaining.map(|remaining| remaining.as_secs());
        self.write(format!(
            "{} of {}, {left:?} s left",
            progress.succeeded, progress.total
        ));
    }
}

/// Rows: 177, 179, 180.
#[tokio::test(start_paused = true)]
async fn hooks_see_every_item_in_order_and_cannot_stop_the_run() {
    for panics in [false, true] {
        let diary = Arc::new(Diary {
            panics,
            reason: Redo::Absent,
            ..Diary::default()
        });
        let worker = FnWorker::new(|item: WorkItem, _| async move {
            sleep(Duration::from_secs_f64(item.cost_hint)).await;
            if item.item_id == "1" {
                Err(error(ErrorCategory::Input))
            } else {
                Ok(item.item_id)
            }
        })
        .resuming(["3"]);
        let controls = StageControls {
            hooks: diary.clone(),
            ..StageControls::default()
        };
        let options = StageOptions {
            resume: true,
            ..options(2)
        };
        let (outcome, _) = run_with(items(&[3.0, 1.0, 1.0, 1.0]), worker, &options, controls).await;
        assert_eq!((outcome.succeeded, outcome.skipped, outcome.failed), (2, 1, 1));
        let entries = diary.entries.lock().unwrap();
        let expected = [
            "stage test of 4",
            "+0",
            "+1",
            "+2",
            "-0",
            "!1",
            "-2",
            "=3",
            "2 succeeded, 1 failed",
        ];
        assert_eq!(*entries, expected);
    }
}

/// Rows: 162, 175, 183.
#[tokio::test(start_paused = true)]
async fn progress_is_reported_at_its_interval() {
    let diary = Arc::new(Diary::default());
    let controls = StageControls {
        hooks: diary.clone(),
        ..StageControls::default()
    };
    let (outcome, _) = run_with(
        items(&[25.0; 4]),
        FnWorker::new(work_off_cost),
        &options(1),
        controls,
    )
    .await;
    assert_eq!((outcome.exec_p50_ms, outcome.exec_p95_ms), (25_000.0, 25_000.0));
    let entries = diary.entries.lock().unwrap();
    let progress: Vec<&str> = entries
        .iter()
        .map(String::as_str)
        .filter(|entry| entry.contains("left"))
        .collect();
    assert_eq!(
        progress,
        [
            "1 of 4, Some(90) s left",
            "2 of 4, Some(60) s left",
            "3 of 4, Some(30) s left"
        ]
    );
}

/// Rows: 178.
#[tokio::test(start_paused = true)]
async fn percentiles_are_of_waiting_and_of_work() {
    let (outcome, _) = run(items(&[1.0, 2.0, 3.0, 4.0]), work_off_cost, &options(1)).await;
    assert_eq!((outcome.exec_p50_ms, outcome.exec_p95_ms), (2000.0, 4000.0));
    assert_eq!(outcome.queue_p50_ms, 1000.0, "of 0, 1, 3 and 6 s");
    assert_eq!(outcome.wall_ms, 10_000.0);
}

/// Rows: 162, 177, 198, 205.
#[tokio::test]
async fn the_manifest_has_a_line_for_each_item_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = ManifestSink::new(folder.path().join("test.manifest.jsonl"));
    let worker = FnWorker::new(|item: WorkItem, _| async move {
        if item.item_id == "1" {
            Err(error(ErrorCategory::Input))
        } else {
            Ok(item.item_id)
        }
    })
    .resuming(["2"]);
    let options = StageOptions {
        resume: true,
        ..options(2)
    };
    let controls = StageControls {
        manifest: Some(manifest.clone()),
        ..StageControls::default()
    };
    run_with(items(&[0.0; 4]), worker, &options, controls).await;
    let text = std::fs::read_to_string(manifest.path()).unwrap();
    let records: Vec<ManifestRecord> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seen: Vec<(&str, ItemStatus, u32)> = records
        .iter()
        .map(|record| (record.doc_id.as_str(), record.status, record.attempts))
        .collect();
    let expected = [
        ("0", ItemStatus::Success, 1),
        ("1", ItemStatus::Failure, 1),
        ("2", ItemStatus::Skip, 0),
        ("3", ItemStatus::Success, 1),
    ];
    assert_eq!(seen, expected);
    assert_eq!(records[1].error.as_ref().unwrap().category, ErrorCategory::Input);
    assert_eq!(records[2].reason.as_deref(), Some("resume-satisfied"));
    assert_eq!(records[0].extra["length"], 1);
}
