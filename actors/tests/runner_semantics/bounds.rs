//! How many items may be in work and in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parkhang_actors::runner::{StageControls, StageOptions, WorkItem, run_stage};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::support::{Collected, FnWorker, items, options, plan, run_with, work_off_cost};

/// Rows: 162, 168.
#[tokio::test(start_paused = true)]
async fn no_more_items_are_in_work_than_there_are_workers() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let worker = FnWorker::new({
        let (running, most) = (running.clone(), most.clone());
        move |item: WorkItem, _| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let running = running.clone();
            async move {
                sleep(Duration::from_secs_f64(item.cost_hint)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(item.item_id)
            }
        }
    });
    let costs: Vec<f64> = (0..40).map(|index| f64::from(index * 7 % 5)).collect();
    let (outcome, _) = run_with(items(&costs), worker, &options(3), StageControls::default()).await;
    assert_eq!(outcome.succeeded, 40);
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

/// Rows: 173, 191.
#[tokio::test(start_paused = true)]
async fn a_slow_consumer_holds_the_workers_back() {
    for (max_queue, bound) in [(1, 3), (4, 6)] {
        let (started, may_deliver) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let worker = FnWorker::new({
            let started = started.clone();
            move |item: WorkItem, _| {
                started.fetch_add(1, Ordering::SeqCst);
                async move { Ok(item.item_id) }
            }
        });
        let options = StageOptions {
            max_queue,
            ..options(2)
        };
        let mut collected = Collected::gated(may_deliver.clone());
        let watch = async {
            for delivered in 0..=20_usize {
                // Everything that can happen has happened once time moves.
                sleep(Duration::from_secs(1)).await;
                assert_eq!(started.load(Ordering::SeqCst), (delivered + bound).min(20));
                may_deliver.add_permits(1);
            }
        };
        let stage = run_stage(
            plan(items(&[0.0; 20])),
            Arc::new(worker),
            &mut collected,
            &options,
            StageControls::default(),
        );
        let (outcome, ()) = tokio::join!(stage, watch);
        assert_eq!(outcome.unwrap().succeeded, 20);
    }
}

#[tokio::test(start_paused = true)]
async fn workers_go_on_while_an_output_is_delivered() {
    let mut collected = Collected::taking(Duration::from_secs(1));
    let stage = run_stage(
        plan(items(&[1.0; 5])),
        Arc::new(FnWorker::new(work_off_cost)),
        &mut collected,
        &options(1),
        StageControls::default(),
    )
    .await;
    assert_eq!(stage.unwrap().wall_ms, 6000.0, "not ten seconds");
}
