//! Budgets of jobs at external stages.

use std::sync::Arc;

use parkhang_core::domain::testing::new_job;
use parkhang_core::domain::{Adjustment, Amount, JobConfig, JobStatus, NewJob, Spending, Task, TaskStatus};
use parkhang_core::policy::job_action::JobAction;
use parkhang_state::{MemoryStore, StateStore};
use parkhang_store::storage::MemoryArtifacts;
use parkhang_test_support::Wait;

use crate::service::Service;
use crate::tasks::{external, leader};

const VOLUMES: u64 = 40;

/// Each submit costs 0.25, so that four use the budget up; eight may be under way at once.
///
/// Rows: 84.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_has_spent_its_budget_waits_and_loses_nothing() {
    let service = Service::start(&[]).await;
    let store = Arc::new(MemoryStore::new());
    let job = NewJob {
        config: JobConfig {
            budget: "1".parse().unwrap(),
            ..JobConfig::default()
        },
        ..new_job(&["scrape"], VOLUMES as usize)
    };
    let sandbox = leader(store.clone()).job(job).start().await;
    let (_external, running) = external(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        Arc::new(MemoryArtifacts::default()),
        vec![("scrape", service.at_stage("scraper", false))],
    );
    let id = sandbox.job().id;
    let at_rest = async || {
        let tasks = store.tasks(id).await.unwrap();
        let status = store.job_by_id(id).await.unwrap().unwrap().status;
        // The service fails some of them, which costs as much.
        let has_ended = |task: &&Task| matches!(task.status, TaskStatus::Done | TaskStatus::Failed);
        let ended = tasks.iter().filter(has_ended).count();
        let is_held = tasks.iter().any(|task| task.lease.is_some());
        (status == JobStatus::Paused && !is_held, ended as u64)
    };
    let (_, ended) = Wait::until("the job is paused, and what was in flight has ended")
        .sees_async(at_rest, |(at_rest, _)| *at_rest)
        .await;
    let submits = |number: u64| "0.25".parse::<Amount>().unwrap().times(number, 1);
    let spent = async || Spending::total(&store.spending(Some(id)).await.unwrap());
    assert!((4..4 + 8).contains(&ended), "{ended}");
    assert_eq!(
        (service.submits().0 as u64, spent().await),
        (ended, submits(ended)),
        "every submit is counted, and its result kept"
    );

    let raise = Adjustment::new(["budget=0"]).unwrap();
    store.adjust_job(id, &raise).await.unwrap();
    store.act_on_job(id, JobAction::Resume).await.unwrap();
    sandbox.orchestrator.wake();
    sandbox.ends(JobStatus::Failed).await;
    assert_eq!(
        (service.submits().0 as u64, spent().await),
        (VOLUMES, submits(VOLUMES))
    );
    running.abort();
    sandbox.stop().await;
}
