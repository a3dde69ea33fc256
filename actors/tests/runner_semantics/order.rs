//! In which order items start and outcomes come, and that a run can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parkhang_actors::runner::{Redo, StageControls, StageOptions, StageOutcome, WorkItem, preview_stage};
use parkhang_core::domain::{ErrorCategory, SchedulingOrder};
use parkhang_core::policy::order::starting_order;
use proptest::prelude::*;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::{FnWorker, error, items, options, plan, run, run_with, work_off_cost};

/// Rows: 165, 209, 217.
#[tokio::test(start_paused = true)]
async fn outcomes_come_in_plan_order_whatever_ends_first() {
    let (outcome, collected) = run(items(&[5.0, 1.0, 3.0, 0.0, 2.0]), work_off_cost, &options(5)).await;
    assert_eq!(collected.ids(), ["0", "1", "2", "3", "4"]);
    assert_eq!(
        (
            outcome.total,
            outcome.scheduled,
            outcome.succeeded,
            outcome.failed
        ),
        (5, 5, 5, 0)
    );
    assert!(!outcome.cancelled);
}

/// Rows: 189, 190.
#[tokio::test(start_paused = true)]
async fn items_start_by_cost_when_asked() {
    let costs = [3.0, 1.0, 2.0, 1.0];
    for (order, expected) in [
        (SchedulingOrder::Fifo, ["0", "1", "2", "3"]),
        (SchedulingOrder::Sjf, ["1", "3", "2", "0"]),
        (SchedulingOrder::Lpt, ["0", "2", "1", "3"]),
    ] {
        let options = StageOptions { order, ..options(1) };
        let (_, collected) = run(items(&costs), work_off_cost, &options).await;
        assert_eq!(collected.ids(), expected, "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn longest_first_shortens_the_run() {
    let costs = [1.0, 1.0, 1.0, 1.0, 4.0];
    let mut walls = Vec::new();
    for order in [SchedulingOrder::Fifo, SchedulingOrder::Lpt] {
        let options = StageOptions { order, ..options(2) };
        walls.push(run(items(&costs), work_off_cost, &options).await.0.wall_ms);
    }
    assert_eq!(walls, [6000.0, 4000.0]);
}

/// Rows: 209.
#[tokio::test(start_paused = true)]
async fn the_same_run_has_the_same_outcome() {
    let once = || async {
        let worker = |item: WorkItem, attempt: u32| async move {
            sleep(Duration::from_secs_f64(item.cost_hint)).await;
            match item.cost_hint as u32 % 3 {
                0 => Err(error(ErrorCategory::Input)),
                1 if attempt == 1 => Err(error(ErrorCategory::Network)),
                _ => Ok(item.item_id),
            }
        };
        let costs: Vec<f64> = (1..30).map(|index| f64::from(index * 11 % 13)).collect();
        let options = StageOptions {
            retries: 1,
            max_queue: 3,
            order: SchedulingOrder::Lpt,
            ..options(4)
        };
        let controls = StageControls {
            jitter: Arc::new(|| 0.5),
            ..StageControls::default()
        };
        let (outcome, collected) = run_with(items(&costs), FnWorker::new(worker), &options, controls).await;
        (outcome, collected.ids())
    };
    let (first, second) = (once().await, once().await);
    assert_eq!(first, second);
    assert!(first.0.failed > 0 && first.0.succeeded > 0);
}

#[tokio::test(start_paused = true)]
async fn an_empty_plan_is_a_success() {
    let (outcome, collected) = run(Vec::new(), work_off_cost, &options(4)).await;
    assert_eq!(outcome, StageOutcome::default());
    assert!(collected.ids().is_empty());
}

/// Rows: 176.
#[tokio::test]
async fn a_dry_run_looks_and_does_nothing() {
    let ran = Arc::new(AtomicBool::new(false));
    let worker = FnWorker::new({
        let ran = ran.clone();
        move |item: WorkItem, _| {
            ran.store(true, Ordering::SeqCst);
            async move { Ok(item.item_id) }
        }
    })
    .resuming(["1", "2"]);
    let plan = plan(items(&[0.0; 4]));
    for (force, expected) in [
        (false, [Some(Redo::Absent), None, None, Some(Redo::Absent)]),
        (true, [Some(Redo::Forced); 4]),
    ] {
        let options = StageOptions {
            resume: true,
            force,
            ..options(2)
        };
        let previews = preview_stage(&plan, &worker, &options).await;
        let ids: Vec<&str> = previews.iter().map(|item| item.item_id.as_str()).collect();
        assert_eq!(ids, ["0", "1", "2", "3"]);
        let reasons: Vec<Option<Redo>> = previews.iter().map(|item| item.redo).collect();
        assert_eq!(reasons, expected);
    }
    assert!(!ran.load(Ordering::SeqCst));
}

/// Rows: 190.
#[tokio::test(start_paused = true)]
async fn an_early_item_does_not_starve_when_ageing_counts() {
    let costs = [9.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    for (ageing, place) in [(0.0, 5), (3.0, 2), (9.0, 0)] {
        let options = StageOptions {
            order: SchedulingOrder::Sjf,
            ageing,
            ..options(1)
        };
        let (_, collected) = run(items(&costs), work_off_cost, &options).await;
        assert_eq!(collected.ids()[place], "0", "ageing {ageing}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the plan: every item ends once, in starting order, and the books balance.
    /// Rows: F31.
    #[test]
    fn every_item_is_accounted_for(
        costs in prop::collection::vec(0_u8..6, 0..30),
        workers in 1_usize..5, max_queue in 0_usize..4, error_budget in 0_usize..4, retries in 0_u32..3,
        order in prop::sample::select(vec![SchedulingOrder::Fifo, SchedulingOrder::Sjf, SchedulingOrder::Lpt]),
        cancel_after in prop::option::of(0_u64..12),
    ) {
        let costs: Vec<f64> = costs.into_iter().map(f64::from).collect();
        let options = StageOptions { workers, max_queue, error_budget, retries, order, ..StageOptions::default() };
        let cancel = CancellationToken::new();
        let controls = StageControls { cancel: cancel.clone(), jitter: Arc::new(|| 0.0), ..StageControls::default() };
        let worker = FnWorker::new(|item: WorkItem, attempt| async move {
            sleep(Duration::from_secs_f64(item.cost_hint)).await;
            match item.cost_hint as u32 {
                0 => Err(error(ErrorCategory::Input)),
                cost if cost > attempt => Err(error(ErrorCategory::Network)),
                _ => Ok(item.item_id),
            }
        });
        let drain = async {
            if let Some(seconds) = cancel_after {
                sleep(Duration::from_secs(seconds)).await;
                cancel.cancel();
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let ((outcome, collected), ()) =
            runtime.block_on(async { tokio::join!(run_with(items(&costs), worker, &options, controls), drain) });

        let started: Vec<String> =
            starting_order(order, &costs, 0.0).iter().take(outcome.scheduled).map(ToString::to_string).collect();
        let delivered = collected.ids();
        prop_assert_eq!(delivered.len(), outcome.succeeded + outcome.failed);
        let mut rest = started.iter();
        prop_assert!(delivered.iter().all(|id| rest.any(|started| started == id)), "{:?} of {:?}", delivered, started);
        prop_assert_eq!(outcome.total, costs.len());
        prop_assert_eq!(outcome.errors.len(), outcome.failed);
        if !outcome.cancelled {
            prop_assert_eq!(outcome.unfinished(), 0);
        }
        if error_budget > 0 {
            prop_assert!(outcome.failed <= error_budget + workers);
        }
    }
}
