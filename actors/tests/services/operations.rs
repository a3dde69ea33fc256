//! Operations of Google that read the pages of a volume, with a server that behaves well and badly: answers that are lost, operations that
//! it forgets, errors within a success.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use parkhang_actors::engines::VisionOperations;
use parkhang_core::domain::{JobStatus, TaskStatus};
use parkhang_state::{MemoryStore, ServiceStore, StateStore};
use parkhang_store::storage::MemoryArtifacts;
use parkhang_test_support::Wait;

use crate::google::{
    Fault, Google, PAGES, STAGE, counted, lead, lead_within, names_of_jobs, put_pages, reading, the_task,
};
use crate::shut::Shut;
use crate::tasks::{MAX_RETRIES, external, leader};

/// The leader dies between the intent and the answer of a submit that Google carries out.
///
/// Rows: 84, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_answer_was_lost_is_found_by_what_it_writes_and_paid_once() {
    let storage = Arc::new(MemoryArtifacts::default());
    let google = Google::start(&storage, &[Fault::Silent]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    put_pages(&storage, &job, &the_task(&store, &job).await, PAGES).await;
    let (first, _, running) = lead(&store, &storage, &google).await;
    Wait::until("Google has read the pages")
        .sees_async(async || google.counts(), |counts| *counts == (1, PAGES))
        .await;
    running.abort();
    first.orchestrator.kill();
    let leased = the_task(&store, &job).await;
    let intended = store.intend_submit(&leased.fence().unwrap(), Utc::now()).await;
    assert!(!intended.unwrap(), "it was written before anything was sent");
    assert_eq!(store.service_jobs(leased.id).await.unwrap(), []);

    let (second, _, running) = lead(&store, &storage, &google).await;
    second.job_ends(job.id, JobStatus::Completed).await;
    running.abort();
    assert_eq!(google.counts(), (1, PAGES));
    let known = store.service_jobs(leased.id).await.unwrap();
    assert_eq!(known[0].job, VisionOperations::FOUND);
    second.stop().await;
}

/// The leader dies while Google works, and the lease runs out. The operation has a name, under which Google is asked about it.
///
/// Rows: 84, 237, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_outlives_its_leader_and_its_lease_is_waited_for_and_paid_once() {
    let storage = Arc::new(MemoryArtifacts::default());
    let google = Google::start(&storage, &[Fault::Slow]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    let task = the_task(&store, &job).await;
    put_pages(&storage, &job, &task, PAGES).await;
    let (first, _, running) = lead(&store, &storage, &google).await;
    let names = async || names_of_jobs(&store, &task).await;
    Wait::until("the operation has a name")
        .sees_async(names, |names| names.len() == 1)
        .await;
    running.abort();
    first.orchestrator.kill();

    let (second, _, running) = lead(&store, &storage, &google).await;
    let taken_over = Wait::until("another lease has the operation")
        .sees_async(names, |names| names.len() == 2)
        .await;
    assert_eq!(taken_over, ["operations/1"; 2]);
    google.finish().await;
    second.job_ends(job.id, JobStatus::Completed).await;
    running.abort();
    assert_eq!(google.counts(), (1, PAGES));
    assert_eq!(counted(&store, &job).await, PAGES as u64);
    second.stop().await;
}

/// Google begins an operation, and its answer does not come in time.
///
/// Rows: 84, 235.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_google_may_have_begun_is_waited_for_and_not_submitted_again() {
    let storage = Arc::new(MemoryArtifacts::default());
    let google = Google::start(&storage, &[Fault::SilentAndSlow]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    put_pages(&storage, &job, &the_task(&store, &job).await, PAGES).await;
    let (sandbox, _, running) = lead_within(&store, &storage, &google, Duration::from_millis(500)).await;
    Wait::until("the answer to the submit is given up")
        .sees_async(
            async || store.services().await.unwrap(),
            |services| services.iter().any(|service| service.failures > 0),
        )
        .await;
    google.finish().await;
    sandbox.job_ends(job.id, JobStatus::Completed).await;
    assert_eq!(google.counts(), (1, PAGES));
    assert_eq!(counted(&store, &job).await, PAGES as u64);
    let runs = store.stage_runs(the_task(&store, &job).await.id).await.unwrap();
    assert_eq!(runs.len(), 1, "it costs no try: {runs:?}");
    running.abort();
    sandbox.stop().await;
}

/// Rows: 84, 235.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_read_by_operations_though_google_refuses_fails_and_forgets() {
    let storage = Arc::new(MemoryArtifacts::default());
    let faults = [Fault::Refused, Fault::Failed, Fault::Expired, Fault::Forgotten];
    let google = Google::start(&storage, &faults).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    put_pages(&storage, &job, &the_task(&store, &job).await, PAGES).await;
    let (sandbox, _, running) = lead(&store, &storage, &google).await;
    sandbox.job_ends(job.id, JobStatus::Completed).await;
    assert_eq!(
        google.counts(),
        (4, PAGES),
        "what it forgot was there all the same"
    );
    let task = the_task(&store, &job).await;
    assert_eq!(task.status, TaskStatus::Done);
    let names = [2, 3, 4].map(|number| format!("operations/{number}"));
    assert_eq!(
        names_of_jobs(&store, &task).await,
        [&names[..], &[VisionOperations::FOUND.to_owned()]].concat()
    );
    running.abort();
    sandbox.stop().await;
}

/// The bucket is shut for longer than the stage has tries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_costs_no_try() {
    let storage = Arc::new(MemoryArtifacts::default());
    let google = Google::start(&storage, &[]).await;
    let store = Arc::new(MemoryStore::new());
    let job = store.create_job(&reading(), Utc::now()).await.unwrap();
    put_pages(&storage, &job, &the_task(&store, &job).await, PAGES).await;
    // Each try reads two tables.
    let shut = Arc::new(Shut::for_reads(&storage, 2 * (MAX_RETRIES as usize + 2)));
    let sandbox = leader(store.clone()).start().await;
    let (_, running) = external(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        shut.clone(),
        vec![(STAGE, google.at_stage(Duration::from_secs(20)))],
    );
    sandbox.job_ends(job.id, JobStatus::Completed).await;
    assert_eq!(shut.reads_left(), 0);
    assert_eq!(the_task(&store, &job).await.status, TaskStatus::Done);
    assert_eq!(google.counts(), (1, PAGES));
    running.abort();
    sandbox.stop().await;
}
