//! Passes over a stage that a service does.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, Utc};

use super::super::{PassLimits, Plan};
use parkhang_core::domain::testing::{at, new_job, pool, stage};
use parkhang_core::domain::{ErrorCategory, StageLimits, StageRunStatus, Task, TaskStatus, WorkerId};
use parkhang_core::policy::placement::Conduct;
use parkhang_core::policy::service::ServiceTerms;
use parkhang_state::{MemoryStore, StateStore};

const LIMITS: PassLimits = PassLimits {
    ends_leases: true,
    lease: Duration::seconds(30),
    max_interruptions: 1,
};

/// A pass with a service that has one retry and 600 seconds, with room for two of three volumes.
async fn pass(store: &MemoryStore, admits: usize, now: DateTime<Utc>) -> Vec<Task> {
    let worker = WorkerId::of_service("llm", &stage("read"));
    let pools = [pool(&worker.0, "read", 9)];
    let terms = ServiceTerms {
        limits: StageLimits {
            max_retries: 1,
            ..StageLimits::default()
        },
        max_in_flight: 2,
        admits,
    };
    let mut plan = Plan::make(
        store,
        &pools,
        &BTreeMap::from([(worker, terms)]),
        &Conduct::default(),
        LIMITS,
        now,
    )
    .await
    .unwrap();
    let changes = std::mem::take(&mut plan.changes);
    let outcomes = store.commit(&changes, now).await.unwrap();
    plan.granted(outcomes);
    let job = store.jobs().await.unwrap().remove(0);
    store.tasks(job.id).await.unwrap()
}

/// Rows: 236, 237, D11.
#[tokio::test]
async fn a_job_that_took_too_long_is_charged_to_its_stage() {
    let store = MemoryStore::new();
    store.create_job(&new_job(&["read"], 3), at(0)).await.unwrap();
    let running = |tasks: &[Task]| -> Vec<bool> {
        tasks
            .iter()
            .map(|task| task.status == TaskStatus::Running)
            .collect()
    };
    assert_eq!(
        running(&pass(&store, 0, at(0)).await),
        [false; 3],
        "it is left alone"
    );
    assert_eq!(running(&pass(&store, 1, at(0)).await), [true, false, false]);
    let tasks = pass(&store, 9, at(1)).await;
    assert_eq!(running(&tasks), [true, true, false], "it has room for two");
    let until = tasks[0].lease.as_ref().map(|lease| lease.until);
    assert_eq!(until, Some(at(600)), "nobody renews it");

    let first = &pass(&store, 0, at(600)).await[0];
    let error = first.last_error.as_ref().unwrap();
    assert_eq!((first.status, first.interruptions), (TaskStatus::Failed, 0));
    assert_eq!((error.category, error.retryable), (ErrorCategory::Timeout, true));
    assert!(error.message.contains("no end of the job at llm"), "{error}");
    assert!(running(&pass(&store, 1, at(601)).await)[0], "it has a retry");
    pass(&store, 0, at(1201)).await;
    assert_eq!(running(&pass(&store, 9, at(1202)).await), [false, true, true]);
    let runs = store.stage_runs(first.id).await.unwrap();
    let ends: Vec<StageRunStatus> = runs.iter().map(|run| run.status).collect();
    assert_eq!(ends, [StageRunStatus::Failed; 2]);
}
