//! Budgets of jobs at external stages.

use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use parkhang_core::domain::testing::{new_job, stage};
use parkhang_core::domain::{
    Adjustment, Amount, Expense, JobConfig, JobStatus, NewJob, Spending, Task, TaskStatus, Usage, WorkerId,
};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, MemoryStore, StateStore};
use parkhang_store::storage::MemoryArtifacts;
use parkhang_test_support::Wait;

use crate::service::Service;
use crate::tasks::{external, leader};

const VOLUMES: u64 = 40;

/// A job over so many volumes that may spend 1 at services.
fn budgeted(volumes: usize) -> NewJob {
    NewJob {
        config: JobConfig {
            budget: "1".parse().unwrap(),
            ..JobConfig::default()
        },
        ..new_job(&["scrape"], volumes)
    }
}

/// Each submit costs 0.25, so that four use the budget up; eight may be under way at once.
///
/// Rows: 84.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_has_spent_its_budget_waits_and_loses_nothing() {
    let service = Service::start(&[]).await;
    let store = Arc::new(MemoryStore::new());
    let job = budgeted(VOLUMES as usize);
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

/// The leader died between the lease and the submit, and others have used the budget up since.
///
/// Rows: 84, 242.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_work_was_never_sent_is_no_way_around_the_budget() {
    let service = Service::start(&[]).await;
    let store = Arc::new(MemoryStore::new());
    let job = budgeted(1);
    let began = Utc::now() - TimeDelta::seconds(2);
    let job = store.create_job(&job, began).await.unwrap();
    let task = store.tasks(job.id).await.unwrap().remove(0);
    let leased = Event::Leased {
        stage: stage("scrape"),
        worker: WorkerId::of_service("scraper", &stage("scrape")),
        until: began + TimeDelta::seconds(60),
    };
    let changes = [Change::new(Expected::of(&task), leased)];
    let leased = store.commit(&changes, began).await.unwrap().remove(0);
    let expense = Expense {
        fence: leased.applied().unwrap().fence().unwrap(),
        service: "another".to_owned(),
        usage: Usage::CALL,
        cost: "1".parse().unwrap(),
    };
    store.spend(&expense).await.unwrap();

    let sandbox = leader(store.clone()).start().await;
    let (_external, running) = external(
        &sandbox.orchestrator,
        store.clone(),
        store.clone(),
        Arc::new(MemoryArtifacts::default()),
        vec![("scrape", service.at_stage("scraper", false))],
    );
    let at_rest = async || {
        let status = store.job_by_id(job.id).await.unwrap().unwrap().status;
        let task = store.tasks(job.id).await.unwrap().remove(0);
        (status, task.lease.is_some())
    };
    Wait::until("the job is paused, and the lease released")
        .sees_async(at_rest, |at_rest| *at_rest == (JobStatus::Paused, false))
        .await;
    assert_eq!(service.submits().0, 0);
    running.abort();
    sandbox.stop().await;
}
