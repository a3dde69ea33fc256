//! What a new orchestrator makes of the leases that it finds. Time is paused: it passes when nobody has anything to do.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use parkhang_actors::supervisor::ControlPlane;
use parkhang_core::domain::testing::{new_job, worker};
use parkhang_core::domain::{Fence, Job, LeaseRenewal, WorkerId};
use parkhang_core::policy::transition::Event;
use parkhang_sandbox::Sandbox;
use parkhang_state::{Change, Expected, MemoryStore, Outcome, StateStore};
use tokio::time::Instant;

use crate::flaky_store::FlakyStore;

const LEASE: Duration = Duration::from_secs(60);

/// A job of one task, whose lease ran out a minute ago.
async fn run_out(store: &dyn StateStore, worker: &WorkerId) -> (Job, Fence) {
    let job = store
        .create_job(&new_job(&["stage"], 1), Utc::now())
        .await
        .unwrap();
    let task = &store.tasks(job.id).await.unwrap()[0];
    let leased = Event::Leased {
        stage: job.pipeline.stages()[0].clone(),
        worker: worker.clone(),
        until: Utc::now() - LEASE,
    };
    let change = Change::new(Expected::of(task), leased);
    let outcomes = store.commit(&[change], Utc::now()).await.unwrap();
    let [Outcome::Applied(task)] = &outcomes[..] else {
        panic!("{outcomes:?}");
    };
    (job, task.fence().unwrap())
}

async fn orchestrate(store: Arc<dyn StateStore>) -> Sandbox {
    let sandbox = Sandbox::over(store).configured(|config| config.lease = LEASE);
    sandbox.start().await
}

#[tokio::test(start_paused = true)]
async fn leases_that_ran_out_while_nobody_led_are_not_ended_at_once() {
    let store = Arc::new(MemoryStore::new());
    let (job, _) = run_out(&*store, &worker("gone")).await;
    let begin = Instant::now();
    let sandbox = orchestrate(store).await;
    sandbox.orchestrator.idle(job.id).await.unwrap();
    let waited = begin.elapsed();
    assert!(waited >= LEASE / 2, "the nodes had {waited:?} to come back");
    assert!(
        waited <= LEASE,
        "nobody came back, and it took {waited:?} to see it"
    );
    sandbox.stop().await;
}

#[tokio::test(start_paused = true)]
async fn leases_that_ran_out_while_the_store_was_away_are_not_ended_at_its_return() {
    let store = Arc::new(FlakyStore::new(0));
    let (job, _) = run_out(&*store, &worker("gone")).await;
    store.be_away(true);
    let sandbox = orchestrate(store.clone()).await;
    let idle = sandbox.orchestrator.idle(job.id);
    let outage = tokio::time::timeout(2 * LEASE, idle).await;
    assert!(outage.is_err(), "nothing can be read");
    store.be_away(false);
    let back = Instant::now();
    sandbox.orchestrator.idle(job.id).await.unwrap();
    let waited = back.elapsed();
    let pass = Duration::from_secs(1);
    assert!(
        waited >= LEASE / 2 - pass,
        "the nodes had {waited:?} to renew their leases"
    );
    assert!(waited <= LEASE, "it took {waited:?} to see that nobody does");
    sandbox.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_finds_the_new_leader_keeps_its_work() {
    let store = Arc::new(MemoryStore::new());
    let worker = worker("back");
    let (job, fence) = run_out(&*store, &worker).await;
    let sandbox = orchestrate(store.clone()).await;
    let pulse = LeaseRenewal {
        fence: fence.clone(),
        volume: "W1-I1".parse().unwrap(),
        progress: None,
    };
    let renewal = ControlPlane::heartbeat(&sandbox.orchestrator, &worker, vec![pulse]).await;
    assert!(renewal.lost.is_empty());
    let finished = tokio::time::timeout(LEASE, sandbox.orchestrator.idle(job.id)).await;
    assert!(finished.is_err(), "the lease was ended");
    let task = &store.tasks(job.id).await.unwrap()[0];
    assert_eq!(task.fence(), Some(fence));
    sandbox.stop().await;
}
