//! What a new orchestrator makes of the leases that it finds. Time is paused: it passes when nobody has anything to do.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use parkhang_actors::orchestrator::{OrchestratorConfig, OrchestratorHandle};
use parkhang_actors::supervisor::ControlPlane;
use parkhang_core::domain::{Fence, Job, LeaseRenewal, WorkerId};
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, MemoryStore, Outcome, StateStore};
use tokio::time::Instant;

use crate::cluster::{Deed, told, two_volumes};

const LEASE: Duration = Duration::from_secs(60);

/// A job of one task, whose lease ran out a minute ago.
async fn run_out(store: &MemoryStore, worker: &WorkerId) -> (Job, Fence) {
    let (stage, _) = told("stage", Deed::Succeed);
    let mut job = two_volumes(&[stage]);
    job.volumes.truncate(1);
    let job = store.create_job(&job, Utc::now()).await.unwrap();
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

async fn orchestrate(store: Arc<MemoryStore>) -> OrchestratorHandle {
    let mut config = OrchestratorConfig::new(store);
    config.lease = LEASE;
    OrchestratorHandle::start(config).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn leases_that_ran_out_while_nobody_led_are_not_ended_at_once() {
    let store = Arc::new(MemoryStore::new());
    let (job, _) = run_out(&store, &WorkerId("gone".to_owned())).await;
    let begin = Instant::now();
    let orchestrator = orchestrate(store).await;
    orchestrator.idle(job.id).await.unwrap();
    let waited = begin.elapsed();
    assert!(waited >= LEASE / 2, "the nodes had {waited:?} to come back");
    assert!(
        waited <= LEASE,
        "nobody came back, and it took {waited:?} to see it"
    );
    orchestrator.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_finds_the_new_leader_keeps_its_work() {
    let store = Arc::new(MemoryStore::new());
    let worker = WorkerId("back".to_owned());
    let (job, fence) = run_out(&store, &worker).await;
    let orchestrator = orchestrate(store.clone()).await;
    let pulse = LeaseRenewal {
        fence: fence.clone(),
        volume: "W1-I1".parse().unwrap(),
        progress: None,
    };
    let renewal = ControlPlane::heartbeat(&orchestrator, &worker, vec![pulse]).await;
    assert!(renewal.lost.is_empty());
    let settled = tokio::time::timeout(LEASE, orchestrator.idle(job.id)).await;
    assert!(settled.is_err(), "the lease was ended");
    let task = &store.tasks(job.id).await.unwrap()[0];
    assert_eq!(task.fence(), Some(fence));
    orchestrator.stop().await;
}
