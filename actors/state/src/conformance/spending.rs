//! Cases about what jobs spend at services, and about their budgets.

use futures::future::join_all;

use super::*;
use parkhang_core::domain::{Adjustment, Amount, Expense, Fence, JobId, JobStatus, Spending, TaskId, Usage};

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    what_is_spent_counts_once_however_often_it_is_written(make().await).await;
    a_job_that_would_spend_more_than_its_budget_is_paused(make().await).await;
    many_writers_at_once_spend_no_more_than_they_have_in_hand(make().await).await;
}

/// Expense of so many calls, at a price of 0.10 each.
fn expense(task: TaskId, attempt: i32, calls: u64) -> Expense {
    Expense {
        fence: Fence {
            attempt: parkhang_core::domain::Attempt(attempt),
            ..testing::fence(task.0, "detect")
        },
        service: "vision".to_owned(),
        usage: Usage {
            calls,
            input_tokens: 10 * calls,
            output_tokens: calls,
        },
        cost: "0.1".parse::<Amount>().unwrap().times(calls, 1),
    }
}

fn spending(job: JobId, calls: u64) -> Spending {
    let Expense { usage, cost, .. } = expense(TaskId(1), 1, calls);
    Spending {
        job,
        service: "vision".to_owned(),
        usage,
        cost,
    }
}

async fn job_with_budget(store: &Store, names: &[&str], budget: &str) -> (Job, Vec<Task>) {
    let new = new_job("job", names);
    let new = NewJob {
        config: JobConfig {
            budget: budget.parse().unwrap(),
            ..new.config
        },
        ..new
    };
    let job = store.create_job(&new, at(0)).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    (job, tasks)
}

async fn what_is_spent_counts_once_however_often_it_is_written(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    let other = store.create_job(&new_job("other", &["I1"]), at(0)).await.unwrap();
    let others = store.tasks(other.id).await.unwrap();
    let spend = async |expense: Expense| store.spend(&expense).await.unwrap();
    assert!(
        spend(expense(tasks[0].id, 1, 0)).await,
        "nothing is asked for yet"
    );
    assert_eq!(store.spending(None).await.unwrap(), []);
    for calls in [1, 3, 3, 2] {
        assert!(spend(expense(tasks[0].id, 1, calls)).await);
    }
    spend(expense(tasks[0].id, 2, 4)).await;
    spend(expense(tasks[1].id, 1, 5)).await;
    spend(expense(others[0].id, 1, 7)).await;
    assert_eq!(
        store.spending(Some(job.id)).await.unwrap(),
        [spending(job.id, 12)]
    );
    let all = [spending(job.id, 12), spending(other.id, 7)];
    assert_eq!(store.spending(None).await.unwrap(), all);
    let gone = expense(TaskId(9_999), 1, 1);
    assert!(!store.spend(&gone).await.unwrap(), "there is no such task");
}

async fn a_job_that_would_spend_more_than_its_budget_is_paused(store: Store) {
    let (job, tasks) = job_with_budget(&store, &["I1"], "0.5").await;
    let status = async || store.job_by_id(job.id).await.unwrap().unwrap().status;
    assert!(store.spend(&expense(tasks[0].id, 1, 4)).await.unwrap());
    assert_eq!(status().await, JobStatus::Running);
    assert!(!store.spend(&expense(tasks[0].id, 1, 6)).await.unwrap());
    assert_eq!(status().await, JobStatus::Running, "it may want nothing more");
    let nothing = expense(tasks[0].id, 2, 0);
    assert!(!store.spend(&nothing).await.unwrap());
    assert_eq!(status().await, JobStatus::Paused);
    assert_eq!(store.spending(None).await.unwrap(), [spending(job.id, 6)]);

    let raise = Adjustment::new(["budget=0.7"]).unwrap();
    store.adjust_job(job.id, &raise).await.unwrap();
    store
        .act_on_job(job.id, parkhang_core::policy::job_action::JobAction::Resume)
        .await
        .unwrap();
    assert!(store.spend(&nothing).await.unwrap());
    let lower = Adjustment::new(["budget=0.6"]).unwrap();
    store.adjust_job(job.id, &lower).await.unwrap();
    assert!(!store.spend(&nothing).await.unwrap());
    assert_eq!(status().await, JobStatus::Paused);
}

async fn many_writers_at_once_spend_no_more_than_they_have_in_hand(store: Store) {
    let (job, tasks) = job_with_budget(&store, &["I1", "I2", "I3", "I4"], "2").await;
    let writer = async |task: TaskId| {
        let mut calls = 0;
        loop {
            calls += 1;
            if !store.spend(&expense(task, 1, calls)).await.unwrap() {
                return calls;
            }
        }
    };
    let calls: u64 = join_all(tasks.iter().map(|task| writer(task.id)))
        .await
        .into_iter()
        .sum();
    // The budget is for twenty calls; each writer has one in hand.
    assert!((20..20 + tasks.len() as u64).contains(&calls), "{calls}");
    assert_eq!(store.spending(None).await.unwrap(), [spending(job.id, calls)]);
    assert!(!store.spend(&expense(tasks[0].id, 2, 0)).await.unwrap());
    let paused = store.job_by_id(job.id).await.unwrap().unwrap();
    assert_eq!(paused.status, JobStatus::Paused);
}
