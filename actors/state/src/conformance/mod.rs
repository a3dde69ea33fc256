//! Conformance suite of [`StateStore`]: the promises of the trait as tests. A store that passes it can stand in for any other.
//!
//! It is a part of the library, behind the feature `testing`, since stores are tested in different places: the memory store in a unit
//! test, the one on Postgres in an integration test with a server; `crowd` serves tests of other crates. A case gets a fresh
//! store and knows nothing but the trait, so it tests what was promised and not how a store does it. Most cases are about
//! refusals: writes of a worker whose lease is over, transitions that the table does not have, changes that come twice or in
//! crossing batches.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: it lives here because the unit tests and the integration tests both run it"
)]

mod backlog;
mod claims;
mod control;
pub mod crowd;
mod history;
pub mod inbox;
mod jobs;
mod leases;
mod markers;
mod nodes;
pub mod outbox;
mod scaling;
pub mod services;
mod spending;
mod standing;

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Change, Expected, Outcome, StateStore};
use parkhang_core::domain::testing::{self, at, stage, worker};
use parkhang_core::domain::{
    ErrorCategory, Job, JobConfig, JobKey, NewJob, StageError, StageName, Task, VolumeId,
};
use parkhang_core::policy::transition::{Event, runnable_stage};

type Store = Arc<dyn StateStore>;

/// Runs every case, each on a fresh store from `make`; panics at the first breach.
pub async fn suite(make: impl AsyncFn() -> Arc<dyn StateStore>) {
    jobs::suite(&make).await;
    control::suite(&make).await;
    standing::suite(&make).await;
    leases::suite(&make).await;
    claims::suite(&make).await;
    backlog::suite(&make).await;
    history::suite(&make).await;
    markers::suite(&make).await;
    nodes::suite(&make).await;
    scaling::suite(&make).await;
    spending::suite(&make).await;
}

fn volumes(names: &[&str]) -> Vec<VolumeId> {
    names
        .iter()
        .map(|name| VolumeId::new("W1", *name).unwrap())
        .collect()
}

fn new_job(key: &str, names: &[&str]) -> NewJob {
    NewJob {
        key: Some(JobKey::new(key).unwrap()),
        config: JobConfig {
            max_attempts: 2,
            ..JobConfig::default()
        },
        volumes: volumes(names),
        ..testing::new_job(&["detect", "read"], 0)
    }
}

/// A job with one task for each of `names`.
async fn job_with(store: &Store, names: &[&str]) -> (Job, Vec<Task>) {
    let job = store.create_job(&new_job("job", names), at(0)).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    assert_eq!(tasks.len(), names.len());
    (job, tasks)
}

async fn current(store: &Store, task: &Task) -> Task {
    store.task(task.id).await.unwrap().unwrap()
}

fn change(task: &Task, event: Event) -> Change {
    Change::new(Expected::of(task), event)
}

fn lease(task: &Task, job: &Job, holder: &str) -> Change {
    let stage = runnable_stage(task, &job.pipeline, job.config.retry_scope)
        .unwrap()
        .clone();
    change(
        task,
        Event::Leased {
            stage,
            worker: worker(holder),
            until: at(60),
        },
    )
}

fn failure(category: ErrorCategory) -> Event {
    Event::Failed {
        error: StageError::new("detect", category, "went wrong").at_item("p0001"),
        not_before: Some(at(30)),
    }
}

fn outage() -> Event {
    Event::Deferred {
        error: StageError::new("detect", ErrorCategory::Network, "no answer"),
        not_before: Some(at(30)),
    }
}

fn rerun_from(name: &str) -> Event {
    Event::Rerun {
        stage: stage(name),
        force: false,
    }
}

/// Commits one change, which must apply.
async fn applied(store: &Store, change: Change) -> Task {
    match store.commit(&[change], at(1)).await.unwrap().remove(0) {
        Outcome::Applied(task) => {
            assert_eq!(
                current(store, &task).await,
                task,
                "the outcome is the row as stored"
            );
            task
        }
        refused => panic!("expected the change to apply: {refused:?}"),
    }
}

/// Leases the task's next stage and ends it with `event`.
async fn run_stage(store: &Store, job: &Job, task: &Task, event: Event) -> Task {
    let running = applied(store, lease(task, job, "w")).await;
    applied(store, change(&running, event)).await
}

/// Commits one change, which must be fenced off and leave the row alone.
async fn fenced(store: &Store, change: Change) {
    let id = change.expected.task();
    let before = store.task(id).await.unwrap();
    let runs = store.stage_runs(id).await.unwrap();
    let outcome = store.commit(&[change], at(2)).await.unwrap().remove(0);
    assert_eq!(outcome, Outcome::Fenced(before.clone()));
    assert_eq!(store.task(id).await.unwrap(), before);
    assert_eq!(store.stage_runs(id).await.unwrap(), runs);
}
