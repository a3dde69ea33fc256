//! How a run is stopped: drained or killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parkhang_actors::runner::{StageControls, StageOptions, WorkItem};
use parkhang_core::domain::ErrorCategory;
use parkhang_test_support::Wait;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::{FnWorker, error, items, options, run_with, work_off_cost};

/// Rows: 178, 186.
#[tokio::test(start_paused = true)]
async fn a_drained_run_finishes_what_is_in_work_and_starts_nothing() {
    let cancel = CancellationToken::new();
    let controls = StageControls {
        cancel: cancel.clone(),
        ..StageControls::default()
    };
    let drain = async {
        sleep(Duration::from_millis(1500)).await;
        cancel.cancel();
    };
    let options = options(2);
    let stage = run_with(
        items(&[1.0; 10]),
        FnWorker::new(work_off_cost),
        &options,
        controls,
    );
    let ((outcome, collected), ()) = tokio::join!(stage, drain);
    assert!(outcome.cancelled);
    assert_eq!(
        (outcome.scheduled, outcome.succeeded, outcome.wall_ms),
        (4, 4, 2000.0)
    );
    assert_eq!(collected.ids(), ["0", "1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_drained_run_does_not_wait_for_retries() {
    let cancel = CancellationToken::new();
    let controls = StageControls {
        cancel: cancel.clone(),
        ..StageControls::default()
    };
    let options = StageOptions {
        retries: 5,
        retry_backoff_s: 1000.0,
        ..options(2)
    };
    let worker = FnWorker::new(|item: WorkItem, _| async move {
        if item.item_id == "0" {
            return Err(error(ErrorCategory::Network));
        }
        sleep(Duration::from_secs(3)).await;
        Ok(item.item_id)
    });
    let drain = async {
        sleep(Duration::from_secs(2)).await;
        cancel.cancel();
    };
    let stage = run_with(items(&[0.0; 4]), worker, &options, controls);
    let ((outcome, collected), ()) = tokio::join!(stage, drain);
    assert!(outcome.cancelled);
    assert_eq!(
        (outcome.succeeded, outcome.failed, outcome.unfinished()),
        (1, 0, 3)
    );
    assert_eq!(outcome.wall_ms, 3000.0);
    assert_eq!(
        collected.ids(),
        ["1"],
        "the item that waited is left for the next run"
    );
}

#[tokio::test(start_paused = true)]
async fn cancelling_after_the_end_changes_nothing() {
    let cancel = CancellationToken::new();
    let controls = StageControls {
        cancel: cancel.clone(),
        ..StageControls::default()
    };
    let (outcome, _) = run_with(
        items(&[1.0; 2]),
        FnWorker::new(work_off_cost),
        &options(2),
        controls,
    )
    .await;
    cancel.cancel();
    assert!(!outcome.cancelled);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_drops_the_tries() {
    struct Alive(Arc<AtomicUsize>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let alive = Arc::new(AtomicUsize::new(0));
    let worker = FnWorker::new({
        let alive = alive.clone();
        move |_: WorkItem, _| {
            alive.fetch_add(1, Ordering::SeqCst);
            let guard = Alive(alive.clone());
            async move {
                std::future::pending::<()>().await;
                drop(guard);
                Ok(String::new())
            }
        }
    });
    let options = options(3);
    let stage = run_with(items(&[0.0; 5]), worker, &options, StageControls::default());
    assert!(tokio::time::timeout(Duration::from_secs(1), stage).await.is_err());
    Wait::until("the workers are dropped")
        .sees_async(async || alive.load(Ordering::SeqCst), |alive| *alive == 0)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_finished_all_the_same_was_not_cancelled() {
    let cancel = CancellationToken::new();
    let controls = StageControls {
        cancel: cancel.clone(),
        ..StageControls::default()
    };
    let options = options(2);
    let stage = run_with(items(&[1.0; 2]), FnWorker::new(work_off_cost), &options, controls);
    let drain = async {
        sleep(Duration::from_millis(500)).await;
        cancel.cancel();
    };
    let ((outcome, _), ()) = tokio::join!(stage, drain);
    assert_eq!((outcome.succeeded, outcome.cancelled), (2, false));
}
