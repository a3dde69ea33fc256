//! Answers of Google to submits that come when the lease is over, or when another orchestrator leads: the operation has a name, and is known.

use std::sync::Arc;

use chrono::Utc;
use parkhang_actors::external::ExternalStages;
use parkhang_answers::vision::OPERATION_IMAGES;
use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{Job, JobStatus, Task, TaskStatus};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::rerun::{Rerun, TaskFilter};
use parkhang_sandbox::Sandbox;
use parkhang_state::{MemoryStore, StateStore};
use parkhang_store::storage::MemoryArtifacts;
use parkhang_test_support::Wait;
use tokio::task::JoinHandle;

use crate::google::{
    Fault, Google, PAGES, STAGE, counted, lead, names_of_jobs, put_pages, reading, the_task,
};

/// Job whose volume Google has begun to read, and has not said so.
struct Begun {
    storage: Arc<MemoryArtifacts>,
    google: Google,
    store: Arc<MemoryStore>,
    job: Job,
    sandbox: Sandbox,
    stages: Arc<ExternalStages>,
    running: JoinHandle<()>,
}

impl Begun {
    async fn start(pages: usize, faults: &[Fault]) -> Self {
        let storage = Arc::new(MemoryArtifacts::default());
        let google = Google::start(&storage, faults).await;
        let store = Arc::new(MemoryStore::new());
        let job = store.create_job(&reading(), Utc::now()).await.unwrap();
        put_pages(&storage, &job, &the_task(&store, &job).await, pages).await;
        let (sandbox, stages, running) = lead(&store, &storage, &google).await;
        Wait::until("Google has every submit that it does not answer")
            .sees_async(async || google.counts().0, |submits| *submits == faults.len())
            .await;
        Self {
            storage,
            google,
            store,
            job,
            sandbox,
            stages,
            running,
        }
    }

    async fn task(&self) -> Task {
        the_task(&self.store, &self.job).await
    }

    /// Waits until operations with these names are known, one for each lease that has one.
    async fn names_are(&self, names: &[&str]) {
        let task = self.task().await;
        Wait::until("the operations are known by their names")
            .sees_async(
                async || names_of_jobs(&self.store, &task).await,
                |known| known == names,
            )
            .await;
    }

    /// Waits until another lease than this one has the task.
    async fn leased_anew(&self, before: &Task) {
        let other = |task: &Task| task.fence().is_some_and(|fence| Some(fence) != before.fence());
        Wait::until("another lease has the task")
            .sees_async(async || self.task().await, other)
            .await;
    }

    /// Ends the operations, and with them the job. Each page was read once and counted once.
    async fn ends_well(self, leader: Option<(Sandbox, JoinHandle<()>)>) {
        self.google.finish().await;
        let (sandbox, running) = leader.unwrap_or((self.sandbox, self.running));
        sandbox.job_ends(self.job.id, JobStatus::Completed).await;
        assert_eq!(self.google.counts(), (1, PAGES));
        assert_eq!(counted(&self.store, &self.job).await, PAGES as u64);
        running.abort();
        sandbox.stop().await;
    }
}

/// Rows: 84, 237, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_name_comes_when_the_stage_is_done_again_is_taken_over() {
    let begun = Begun::start(PAGES, &[Fault::LateAndSlow]).await;
    let before = begun.task().await;
    let rerun = Rerun {
        tasks: TaskFilter::default(),
        from: stage(STAGE),
        force: false,
    };
    begun.store.rerun(begun.job.id, &rerun, Utc::now()).await.unwrap();
    begun.sandbox.orchestrator.wake();
    begun.leased_anew(&before).await;
    begun.google.answer();
    begun.names_are(&["operations/1"; 2]).await;
    begun.ends_well(None).await;
}

/// Rows: 84, 237, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_name_comes_when_its_lease_is_stuck_is_taken_over() {
    let begun = Begun::start(PAGES, &[Fault::LateAndSlow]).await;
    let before = begun.task().await;
    begun.leased_anew(&before).await;
    begun.google.answer();
    begun.names_are(&["operations/1"; 2]).await;
    begun.ends_well(None).await;
}

/// The leader loses its leadership, and not its life.
///
/// Rows: 84, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_name_comes_when_another_leads_is_known_to_it() {
    let begun = Begun::start(PAGES, &[Fault::LateAndSlow]).await;
    let before = begun.task().await;
    begun.running.abort();
    begun.sandbox.orchestrator.kill();
    let (second, _, running) = lead(&begun.store, &begun.storage, &begun.google).await;
    begun.google.answer();
    begun.names_are(&["operations/1"]).await;
    begun.stages.part().await;
    assert_eq!(begun.task().await.fence(), before.fence(), "it is the same lease");
    begun.ends_well(Some((second, running))).await;
}

/// Rows: 84.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn google_is_told_of_a_cancelled_job_when_the_operation_has_a_name() {
    let begun = Begun::start(PAGES, &[Fault::LateAndSlow]).await;
    begun
        .store
        .act_on_job(begun.job.id, JobAction::Cancel)
        .await
        .unwrap();
    begun.sandbox.orchestrator.wake();
    Wait::until("the lease is ended")
        .sees_async(async || begun.task().await.lease.is_none(), |ended| *ended)
        .await;
    assert!(begun.google.cancelled().is_empty(), "it has no name yet");
    begun.google.answer();
    Wait::until("Google is told")
        .sees_async(
            async || begun.google.cancelled(),
            |told| *told == ["operations/1"],
        )
        .await;
    begun.running.abort();
    begun.sandbox.stop().await;
}

/// The leader dies between the first operation of a volume and the second one. Pages without an answer are asked for by `ocr`.
///
/// Rows: 84, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_two_operations_is_known_before_the_second_is() {
    let begun = Begun::start(2 * OPERATION_IMAGES, &[Fault::Slow, Fault::LateAndSlow]).await;
    begun.names_are(&["operations/1"]).await;
    begun.running.abort();
    begun.sandbox.orchestrator.kill();
    let (second, _, running) = lead(&begun.store, &begun.storage, &begun.google).await;
    begun.google.finish().await;
    second.job_ends(begun.job.id, JobStatus::Completed).await;
    assert_eq!(begun.google.counts(), (2, 2 * OPERATION_IMAGES));
    assert_eq!(begun.task().await.status, TaskStatus::Done);
    running.abort();
    second.stop().await;
}

/// Rows: 84.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_of_two_operations_waits_for_both() {
    let begun = Begun::start(2 * OPERATION_IMAGES, &[Fault::Slow; 2]).await;
    begun.names_are(&["operations/1 operations/2"]).await;
    begun.google.finish().await;
    begun.sandbox.job_ends(begun.job.id, JobStatus::Completed).await;
    assert_eq!(begun.google.counts(), (2, 2 * OPERATION_IMAGES));
    assert_eq!(
        counted(&begun.store, &begun.job).await,
        2 * OPERATION_IMAGES as u64
    );
    begun.running.abort();
    begun.sandbox.stop().await;
}
