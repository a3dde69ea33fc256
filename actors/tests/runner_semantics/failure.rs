//! Retries, timeouts, panics and the error budget.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use parkhang_actors::runner::{CpuPool, StageControls, StageOptions, WorkItem, run_stage};
use parkhang_core::domain::{ErrorCategory, StageError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::support::{Collected, FnWorker, error, items, options, plan, run, run_with, work_off_cost};

/// Rows: 162, 172, 178, 184.
#[tokio::test(start_paused = true)]
async fn a_run_stops_when_more_failed_than_the_budget_allows() {
    let fail = |_: WorkItem, _| async { Err::<String, _>(error(ErrorCategory::Input)) };
    for (budget, failed, cancelled) in [(2, 3, true), (9, 10, true), (10, 10, false), (0, 10, false)] {
        let options = StageOptions {
            error_budget: budget,
            ..options(1)
        };
        let (outcome, collected) = run(items(&[0.0; 10]), fail, &options).await;
        assert_eq!(
            (outcome.failed, outcome.cancelled),
            (failed, cancelled),
            "budget {budget}"
        );
        assert_eq!(outcome.scheduled, failed);
        assert_eq!(outcome.unfinished(), 10 - failed);
        assert_eq!(collected.ids().len(), failed);
        assert_eq!(outcome.errors.len(), failed);
        assert_eq!(outcome.errors[1].item_id.as_deref(), Some("1"));
    }
}

/// Rows: 184.
#[tokio::test(start_paused = true)]
async fn items_in_work_are_finished_when_the_budget_is_crossed() {
    let worker = |item: WorkItem, _| async move {
        sleep(Duration::from_secs_f64(item.cost_hint)).await;
        if item.item_id == "2" {
            Ok(item.item_id)
        } else {
            Err(error(ErrorCategory::Input))
        }
    };
    let options = StageOptions {
        error_budget: 1,
        ..options(3)
    };
    let (outcome, collected) = run(items(&[1.0, 1.0, 9.0, 1.0, 1.0]), worker, &options).await;
    assert_eq!((outcome.scheduled, outcome.failed, outcome.succeeded), (3, 2, 1));
    assert_eq!(collected.ids(), ["0", "1", "2"]);
}

/// Rows: 162, 169, 185, F32.
#[tokio::test(start_paused = true)]
async fn a_hung_try_times_out_and_frees_its_worker() {
    let worker = |item: WorkItem, _| async move {
        if item.item_id == "0" {
            std::future::pending::<()>().await;
        }
        Ok(item.item_id)
    };
    let options = StageOptions {
        per_item_timeout_s: 10.0,
        retries: 3,
        ..options(1)
    };
    let (outcome, collected) = run(items(&[0.0; 3]), worker, &options).await;
    assert_eq!(
        (outcome.failed, outcome.succeeded, outcome.wall_ms),
        (1, 2, 10_000.0)
    );
    let timeout = collected.error("0");
    assert_eq!(
        (timeout.category, timeout.retryable),
        (ErrorCategory::Timeout, false)
    );
    assert!(timeout.message.contains("10 s"), "{timeout}");
}

/// Rows: 216.
#[tokio::test(start_paused = true)]
async fn a_hung_thread_does_not_stop_the_rest() {
    // A blocking task keeps paused time from running ahead of the pool's threads.
    let (hold, held) = mpsc::channel::<()>();
    let time_stands = tokio::task::spawn_blocking(move || held.recv());
    let pool = CpuPool::new(1, "cpu").unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (released, hangs) = (Arc::new(Mutex::new(released)), Arc::new(Notify::new()));
    let worker = FnWorker::new({
        let (pool, hangs) = (pool.clone(), hangs.clone());
        move |item: WorkItem, _| {
            let (pool, released, hangs) = (pool.clone(), released.clone(), hangs.clone());
            async move {
                let id = item.item_id;
                let work = pool.run(move |_| {
                    if id == "0" {
                        hangs.notify_one();
                        let _ = released.lock().unwrap().recv();
                    }
                    id
                });
                work.await
                    .map_err(|panic| StageError::new("test", panic.category(), panic))
            }
        }
    });
    let options = StageOptions {
        per_item_timeout_s: 10.0,
        ..options(1)
    };
    let mut collected = Collected::default();
    let advance = async {
        hangs.notified().await;
        tokio::time::advance(Duration::from_secs(11)).await;
    };
    let stage = run_stage(
        plan(items(&[0.0; 4])),
        Arc::new(worker),
        &mut collected,
        &options,
        StageControls::default(),
    );
    let (outcome, ()) = tokio::join!(stage, advance);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.succeeded, outcome.failed), (3, 1));
    assert_eq!(collected.error("0").category, ErrorCategory::Timeout);
    assert_eq!(pool.stats().written_off, 1);
    drop((release, hold));
    let _ = time_stands.await;
}

/// Rows: 162, 171, 206, 207.
#[tokio::test(start_paused = true)]
async fn retries_wait_exactly_as_long_as_the_formula_says() {
    for (jitter, expected) in [
        (0.0, [0.0, 1.0, 3.0, 7.0]),
        (1.0, [0.0, 1.25, 3.75, 8.75]),
        (-1.0, [0.0, 0.75, 2.25, 5.25]),
    ] {
        let tries = Arc::new(Mutex::new(Vec::new()));
        let started = Instant::now();
        let worker = FnWorker::new({
            let tries = tries.clone();
            move |_: WorkItem, attempt| {
                tries
                    .lock()
                    .unwrap()
                    .push((attempt, started.elapsed().as_secs_f64()));
                async { Err::<String, _>(error(ErrorCategory::Network)) }
            }
        });
        let options = StageOptions {
            retries: 3,
            retry_backoff_s: 1.0,
            ..options(1)
        };
        let controls = StageControls {
            jitter: Arc::new(move || jitter),
            ..StageControls::default()
        };
        let (outcome, collected) = run_with(items(&[0.0]), worker, &options, controls).await;
        let tries = tries.lock().unwrap();
        for (index, (attempt, at)) in tries.iter().enumerate() {
            assert_eq!(*attempt as usize, index + 1);
            // Tokio's timers have a granularity of a millisecond.
            assert!(
                (at - expected[index]).abs() <= 0.004,
                "try {attempt} at {at}, jitter {jitter}"
            );
        }
        assert_eq!(tries.len(), 4);
        assert_eq!(outcome.failed, 1);
        assert_eq!(collected.report("0").attempts, 4);
    }
}

/// Rows: 170, 204.
#[tokio::test(start_paused = true)]
async fn only_retryable_errors_are_retried() {
    let tries = |category| async move {
        let options = StageOptions {
            retries: 2,
            ..options(1)
        };
        let worker = move |_: WorkItem, attempt| async move {
            if attempt == 3 {
                Ok("third".to_owned())
            } else {
                Err(error(category))
            }
        };
        run(items(&[0.0]), worker, &options).await.1.report("0").attempts
    };
    assert_eq!(tries(ErrorCategory::Network).await, 3);
    assert_eq!(tries(ErrorCategory::Transient).await, 3);
    assert_eq!(tries(ErrorCategory::Timeout).await, 1);
    assert_eq!(tries(ErrorCategory::Input).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_worker_fails_its_item_only() {
    let worker = |item: WorkItem, _| async move {
        assert_ne!(item.item_id, "1", "a bad page");
        Ok(item.item_id)
    };
    let (outcome, collected) = run(items(&[0.0; 3]), worker, &options(2)).await;
    assert_eq!((outcome.succeeded, outcome.failed), (2, 1));
    let crash = collected.error("1");
    assert_eq!(crash.category, ErrorCategory::Runtime);
    assert!(crash.message.contains("a bad page"), "{crash}");
}

#[tokio::test(start_paused = true)]
async fn an_output_that_cannot_be_kept_ends_the_run() {
    let mut collected = Collected::failing_at("2");
    let worker = FnWorker::new(work_off_cost);
    let result = run_stage(
        plan(items(&[1.0; 9])),
        Arc::new(worker),
        &mut collected,
        &options(1),
        StageControls::default(),
    )
    .await;
    assert_eq!(result.unwrap_err().category, ErrorCategory::Network);
    assert_eq!(collected.ids(), ["0", "1"]);
}
