//! Leases of services: what becomes of them when a leader dies at the wrong moment, and of ends that come too late.

use std::sync::Arc;

use chrono::Utc;
use parkhang_actors::external::{ExternalStages, MessageInbox};
use parkhang_actors::services::{Heard, JobListener, JobMessage};
use parkhang_core::domain::testing::{new_job, stage};
use parkhang_core::domain::{JobStatus, Task, TaskStatus};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::rerun::{Rerun, TaskFilter};
use parkhang_sandbox::Sandbox;
use parkhang_state::{MemoryStore, ServiceStore, StateStore};
use parkhang_store::storage::MemoryArtifacts;
use parkhang_test_support::Wait;
use tokio::task::JoinHandle;

use crate::service::{Fault, Service};
use crate::tasks::{at_rest, external, leader};

/// Leader over a store in memory, whose only stage is the service's.
async fn lead(store: &Arc<MemoryStore>, service: &Service) -> (Sandbox, Arc<ExternalStages>, JoinHandle<()>) {
    let sandbox = leader(store.clone()).start().await;
    let artifacts = Arc::new(MemoryArtifacts::default());
    let stages = vec![("scrape", service.at_stage("scraper", false))];
    let (external, running) = external(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        artifacts,
        stages,
    );
    (sandbox, external, running)
}

async fn the_task(store: &MemoryStore) -> Task {
    let job = store.jobs().await.unwrap().remove(0);
    store.tasks(job.id).await.unwrap().remove(0)
}

/// Rows: 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submit_that_nobody_recorded_is_made_again_under_its_key() {
    let service = Service::start(&[(1, Fault::Slow)]).await;
    let store = Arc::new(MemoryStore::new());
    store
        .create_job(&new_job(&["scrape"], 1), Utc::now())
        .await
        .unwrap();
    let (first, _, running) = lead(&store, &service).await;
    Wait::until("the service has taken the job")
        .sees_async(async || service.submits().0, |submits| *submits == 1)
        .await;
    // The answer has not come, and never will.
    running.abort();
    first.orchestrator.kill();
    let leased = the_task(&store).await;
    assert_eq!(leased.status, TaskStatus::Running);

    let (second, _, running) = lead(&store, &service).await;
    second.job_ends(leased.job_id, JobStatus::Completed).await;
    running.abort();
    let (submits, keys) = service.submits();
    assert_eq!((submits, keys), (2, vec![format!("{}-scrape-1-g0", leased.id)]));
    let runs = store.stage_runs(leased.id).await.unwrap();
    assert_eq!(runs.len(), 1, "it is one lease: {runs:?}");
}

/// Rows: 233.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_of_a_lease_that_is_over_changes_nothing() {
    let service = Service::start(&[(1, Fault::Never), (2, Fault::Never)]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store
        .create_job(&new_job(&["scrape"], 1), Utc::now())
        .await
        .unwrap();
    let (sandbox, external, running) = lead(&store, &service).await;
    let has_job = async |number: usize| {
        let task = the_task(&store).await;
        store.service_jobs(task.id).await.unwrap().len() == number
    };
    Wait::until("the service has the task")
        .sees_async(async || has_job(1).await, |has_job| *has_job)
        .await;
    let task = the_task(&store).await;
    let rerun = Rerun {
        tasks: TaskFilter::default(),
        from: stage("scrape"),
        force: false,
    };
    store.rerun(job.id, &rerun, Utc::now()).await.unwrap();
    sandbox.orchestrator.wake();
    Wait::until("the service has the task again")
        .sees_async(async || has_job(2).await, |has_job| *has_job)
        .await;
    let [late, current] = &service.messages()[..] else {
        panic!("two jobs")
    };
    assert_eq!(external.hear(late).await.unwrap(), Heard::Processed);
    let again = the_task(&store).await;
    assert!(again.status == TaskStatus::Running && again.generation > task.generation);

    let unknown = JobMessage {
        job: "job/99".to_owned(),
        ..current.clone()
    };
    assert_eq!(external.hear(&unknown).await.unwrap(), Heard::UnknownJob);
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    sandbox.orchestrator.wake();
    Wait::until("the lease is ended")
        .sees_async(async || the_task(&store).await.lease.is_none(), |ended| *ended)
        .await;
    let cancelled = the_task(&store).await;
    Wait::until("the service is told to cancel the job that it has")
        .sees_async(
            async || service.cancelled(),
            |told| *told == [current.job.clone()],
        )
        .await;
    for message in [late, current] {
        assert_eq!(external.hear(message).await.unwrap(), Heard::Processed);
    }
    assert_eq!(the_task(&store).await, cancelled);
    assert_eq!(service.submits().0, 2);
    running.abort();
    sandbox.stop().await;
}

/// Rows: 230, 231.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_has_hardly_begun_keeps_what_it_hears_and_carries_it_out_then() {
    let service = Service::start(&[(1, Fault::Never)]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store
        .create_job(&new_job(&["scrape"], 1), Utc::now())
        .await
        .unwrap();
    let (first, _, running) = lead(&store, &service).await;
    let task = the_task(&store).await.id;
    Wait::until("the service has the task")
        .sees_async(
            async || store.service_jobs(task).await.unwrap().len(),
            |jobs| *jobs == 1,
        )
        .await;
    running.abort();
    first.orchestrator.kill();

    let sandbox = leader(store.clone()).start().await;
    let stages = vec![("scrape", service.at_stage("scraper", false))];
    let begins = at_rest(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        Arc::new(MemoryArtifacts::default()),
        stages,
        None,
    );
    let told = &service.messages()[0];
    assert_eq!(begins.hear(told).await.unwrap(), Heard::Processed);
    assert_eq!(store.kept_messages(0, 9).await.unwrap().len(), 1);
    assert_eq!(the_task(&store).await.status, TaskStatus::Running);
    let run = begins.clone();
    let running = tokio::spawn(async move { run.run().await });
    begins.take_messages().await.unwrap();
    sandbox.job_ends(job.id, JobStatus::Completed).await;
    assert_eq!(store.kept_messages(0, 9).await.unwrap(), []);
    running.abort();
}

/// Rows: 230, 231, 233.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_orchestrator_hears_that_does_not_lead_is_carried_out_once_by_the_leader() {
    let service = Service::start(&[(1, Fault::Never), (2, Fault::Never)]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store
        .create_job(&new_job(&["scrape"], 2), Utc::now())
        .await
        .unwrap();
    let standby = MessageInbox::new(store.clone(), store.clone(), [stage("scrape")]);
    let (first, _, running) = lead(&store, &service).await;
    let tasks = async || store.tasks(job.id).await.unwrap();
    let have_jobs = async || {
        for task in tasks().await {
            if store.service_jobs(task.id).await.unwrap().is_empty() {
                return false;
            }
        }
        true
    };
    Wait::until("the service has both tasks")
        .sees_async(have_jobs, |have_jobs| *have_jobs)
        .await;
    // Nobody leads when the messages come, and one comes twice.
    running.abort();
    first.orchestrator.kill();
    let [one, other] = &service.messages()[..] else {
        panic!("two jobs")
    };
    // One that tells of no end is not kept.
    let not_over = JobMessage {
        status: "running".to_owned(),
        ..one.clone()
    };
    assert_eq!(standby.hear(&not_over).await.unwrap(), Heard::Processed);
    assert_eq!(store.kept_messages(0, 9).await.unwrap(), []);
    for message in [one, other, one] {
        assert_eq!(standby.hear(message).await.unwrap(), Heard::Processed);
    }
    let unknown = JobMessage {
        job: "job/99".to_owned(),
        ..one.clone()
    };
    assert_eq!(standby.hear(&unknown).await.unwrap(), Heard::UnknownJob);
    assert_eq!(store.kept_messages(0, 9).await.unwrap().len(), 2);
    assert!(
        tasks()
            .await
            .iter()
            .all(|task| task.status == TaskStatus::Running)
    );

    let (second, external, running) = lead(&store, &service).await;
    external.take_messages().await.unwrap();
    let done = second.job_ends(job.id, JobStatus::Completed).await;
    assert_eq!(store.kept_messages(0, 9).await.unwrap(), []);
    // Again when all is over, at the one and at the other.
    assert_eq!(standby.hear(one).await.unwrap(), Heard::Processed);
    assert_eq!(external.hear(one).await.unwrap(), Heard::Processed);
    assert_eq!(store.kept_messages(0, 9).await.unwrap(), []);
    assert_eq!(tasks().await, done);
    for task in &done {
        let runs = store.stage_runs(task.id).await.unwrap();
        assert_eq!(runs.len(), 1, "{runs:?}");
    }
    running.abort();
    second.stop().await;
}
