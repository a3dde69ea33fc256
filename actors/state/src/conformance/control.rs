//! Actions of operators: pause, cancel, limits, reruns.

use std::collections::BTreeMap;

use glob::Pattern;

use super::*;
use crate::{JobTaskCount, RerunResult, Sample, StateError};
use parkhang_core::domain::{
    Adjustment, JobId, JobStatus, LeaseStatus, Position, RetryScope, StageRunStatus, TaskStatus,
};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::rerun::{Rerun, TaskFilter};
use parkhang_core::policy::transition::Phase;

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    a_job_can_be_paused_and_resumed(make().await).await;
    cancelled_is_final(make().await).await;
    a_cancelled_job_is_finished_when_its_last_lease_has_ended(make().await).await;
    a_cancelled_stage_is_notified_by_its_heartbeat(make().await).await;
    limits_can_change(make().await).await;
    new_tries_hold_for_what_has_not_failed_for_good(make().await).await;
    a_job_at_rest_can_be_revised(make().await).await;
    a_rerun_opens_the_job_again(make().await).await;
    a_rerun_touches_what_it_means(make().await).await;
    a_rerun_of_nothing_leaves_the_job_alone(make().await).await;
    a_rerun_fences_running_work_off(make().await).await;
    a_forced_rerun_is_remembered(make().await).await;
    tasks_are_counted(make().await).await;
}

async fn act(store: &Store, job: &Job, action: JobAction) -> Job {
    let after = store.act_on_job(job.id, action).await.unwrap();
    assert_eq!(store.job_by_id(job.id).await.unwrap().as_ref(), Some(&after));
    after
}

async fn forbidden(store: &Store, job: &Job, action: JobAction) {
    let before = store.job_by_id(job.id).await.unwrap();
    let refused = store.act_on_job(job.id, action).await;
    assert!(matches!(refused, Err(StateError::Forbidden(_))), "{refused:?}");
    assert_eq!(store.job_by_id(job.id).await.unwrap(), before);
}

fn rerun(from: &str, tasks: TaskFilter) -> Rerun {
    Rerun {
        tasks,
        from: stage(from),
        force: false,
    }
}

/// Runs both stages of the task.
async fn finish(store: &Store, job: &Job, task: &Task) -> Task {
    let detected = run_stage(store, job, task, Event::Succeeded).await;
    run_stage(store, job, &detected, Event::Succeeded).await
}

async fn a_job_can_be_paused_and_resumed(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let detected = run_stage(&store, &job, &tasks[0], Event::Succeeded).await;
    for _ in 0..2 {
        let paused = act(&store, &job, JobAction::Pause).await;
        assert_eq!((paused.status, paused.finished_at), (JobStatus::Paused, None));
    }
    assert_eq!(store.finish_jobs(at(9)).await.unwrap(), vec![]);
    for _ in 0..2 {
        assert_eq!(act(&store, &job, JobAction::Resume).await, job);
    }
    assert_eq!(
        current(&store, &detected).await,
        detected,
        "it goes on where it stood"
    );
    assert!(matches!(
        store.act_on_job(JobId(4711), JobAction::Pause).await,
        Err(StateError::NoSuchJob(_))
    ));
}

async fn cancelled_is_final(store: Store) {
    let (job, _) = job_with(&store, &["I1"]).await;
    act(&store, &job, JobAction::Cancel).await;
    for action in [JobAction::Pause, JobAction::Resume, JobAction::Reopen] {
        forbidden(&store, &job, action).await;
    }
    let again = store
        .rerun(job.id, &rerun("detect", TaskFilter::default()), at(5))
        .await;
    assert!(matches!(again, Err(StateError::Forbidden(_))), "{again:?}");
    let again = store.reopen_job(&new_job("job", &["I2"])).await;
    assert!(matches!(again, Err(StateError::Forbidden(_))), "{again:?}");
    assert_eq!(
        store.tasks(job.id).await.unwrap().len(),
        1,
        "nothing of it is written"
    );
}

async fn a_cancelled_job_is_finished_when_its_last_lease_has_ended(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    let running = applied(&store, lease(&tasks[0], &job, "w")).await;
    let cancelled = act(&store, &job, JobAction::Cancel).await;
    assert_eq!(
        (cancelled.status, cancelled.finished_at),
        (JobStatus::Cancelled, None)
    );
    assert_eq!(store.finish_jobs(at(5)).await.unwrap(), vec![]);

    let stopped = applied(&store, change(&running, Event::Cancelled)).await;
    assert_eq!((stopped.attempts, stopped.interruptions), (0, 0));
    fenced(&store, change(&running, Event::Succeeded)).await;
    let runs = store.stage_runs(running.id).await.unwrap();
    assert_eq!(runs[0].status, StageRunStatus::Cancelled);
    assert_eq!((runs[0].ended_at, &runs[0].error), (Some(at(1)), &None));

    let finished = Job {
        finished_at: Some(at(6)),
        ..cancelled
    };
    assert_eq!(
        store.finish_jobs(at(6)).await.unwrap(),
        std::slice::from_ref(&finished)
    );
    assert_eq!(store.finish_jobs(at(7)).await.unwrap(), vec![]);
    assert_eq!(act(&store, &job, JobAction::Cancel).await, finished);
}

async fn a_cancelled_stage_is_notified_by_its_heartbeat(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let running = applied(&store, lease(&tasks[0], &job, "w")).await;
    let fences = [running.fence().unwrap()];
    act(&store, &job, JobAction::Pause).await;
    assert_eq!(
        store.renew_leases(&fences, at(300)).await.unwrap(),
        [LeaseStatus::Held]
    );
    let renewed = current(&store, &running).await;
    act(&store, &job, JobAction::Cancel).await;
    let later = store.renew_leases(&fences, at(400)).await.unwrap();
    assert_eq!(later, [LeaseStatus::Cancelled]);
    assert_eq!(current(&store, &running).await, renewed, "it runs out by itself");
    applied(&store, change(&renewed, Event::Cancelled)).await;
    assert_eq!(
        store.renew_leases(&fences, at(400)).await.unwrap(),
        [LeaseStatus::Lost]
    );
}

async fn limits_can_change(store: Store) {
    let (job, _) = job_with(&store, &["I1"]).await;
    let adjustment = Adjustment::new(["priority=7", "max_running=3", "timeout_s=9"]).unwrap();
    let adjusted = store.adjust_job(job.id, &adjustment).await.unwrap();
    let config = &adjusted.config;
    assert_eq!(
        (config.priority, config.max_running, config.timeout_s),
        (7, 3, 9.0)
    );
    assert_eq!(
        adjusted,
        Job {
            config: adjusted.config.clone(),
            ..job.clone()
        }
    );
    assert_eq!(store.job_by_id(job.id).await.unwrap(), Some(adjusted.clone()));
    let room = BTreeMap::from([(stage("detect"), 1)]);
    let ready = store.ready_tasks(&room, at(1)).await.unwrap();
    assert_eq!(*ready.tasks[0].1, adjusted);
    assert!(matches!(
        store.adjust_job(JobId(4711), &adjustment).await,
        Err(StateError::NoSuchJob(_))
    ));
}

async fn new_tries_hold_for_what_has_not_failed_for_good(store: Store) {
    for scope in [RetryScope::Task, RetryScope::Stage] {
        let mut new = new_job(&format!("{scope:?}"), &["I1", "I2", "I3"]);
        new.config.retry_scope = scope;
        let job = store.create_job(&new, at(0)).await.unwrap();
        let tasks = store.tasks(job.id).await.unwrap();
        let once = run_stage(&store, &job, &tasks[0], failure(ErrorCategory::Network)).await;
        let hopeless = run_stage(&store, &job, &tasks[1], failure(ErrorCategory::Input)).await;

        let to = async |tries: i32| {
            let adjustment = Adjustment::new([format!("max_attempts={tries}")]).unwrap();
            store.adjust_job(job.id, &adjustment).await.unwrap();
            let tasks = store.tasks(job.id).await.unwrap();
            let tries = tasks.iter().map(|task| (task.max_attempts, task.retry_budget));
            tries.collect::<Vec<_>>()
        };
        assert_eq!(to(5).await, [(5, 5), (2, 2), (5, 5)]);
        assert_eq!(to(1).await, [(2, 2), (2, 2), (1, 1)], "a promised try is kept");
        let room = BTreeMap::from([(stage("detect"), 9)]);
        let ready = store.ready_tasks(&room, at(60)).await.unwrap();
        let ready = ready.tasks.iter().filter(|(task, _)| task.job_id == job.id);
        assert_eq!(ready.count(), 2);

        let once = current(&store, &once).await;
        let twice = run_stage(&store, &job, &once, failure(ErrorCategory::Network)).await;
        assert_eq!(twice.not_before, None, "it was the last try");
        let fresh = current(&store, &tasks[2]).await;
        run_stage(&store, &job, &fresh, failure(ErrorCategory::Network)).await;
        assert_eq!(current(&store, &hopeless).await, hopeless);
        let finished = store.finish_jobs(at(9)).await.unwrap();
        assert_eq!(finished[0].status, JobStatus::Failed);
        store.add_volumes(job.id, &volumes(&["I4"])).await.unwrap();
        assert_eq!(store.tasks(job.id).await.unwrap()[3].max_attempts, 1);
    }
}

/// Rows: F3.
async fn a_job_at_rest_can_be_revised(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    let revise = async |pair: &str| {
        let revision = Adjustment::revision([pair]).unwrap();
        store.adjust_job(job.id, &revision).await
    };
    let revised = revise("k_factor=2.5").await.unwrap();
    assert_eq!(revised.config.k_factor, 2.5, "nothing has begun");
    let running = applied(&store, lease(&tasks[0], &job, "w")).await;
    let refused = revise("k_factor=3").await;
    assert!(matches!(refused, Err(StateError::Forbidden(_))), "{refused:?}");
    act(&store, &job, JobAction::Pause).await;
    let revised = revise("k_factor=3").await.unwrap();
    assert_eq!(
        (revised.config.k_factor, revised.status),
        (3.0, JobStatus::Paused)
    );
    assert_eq!(revise("max_attempts=9").await.unwrap().config.max_attempts, 9);
    assert_eq!(current(&store, &running).await.max_attempts, 9);
    act(&store, &job, JobAction::Resume).await;
    assert!(revise("k_factor=1").await.is_err());
    act(&store, &job, JobAction::Cancel).await;
    assert!(revise("k_factor=1").await.is_err());
    assert_eq!(
        store.job_by_id(job.id).await.unwrap().unwrap().config.k_factor,
        3.0
    );
}

/// Rows: U29, U36.
async fn a_rerun_opens_the_job_again(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    for task in &tasks {
        finish(&store, &job, task).await;
    }
    store.finish_jobs(at(9)).await.unwrap();
    let result = store
        .rerun(job.id, &rerun("read", TaskFilter::default()), at(10))
        .await
        .unwrap();
    assert_eq!(store.tasks(job.id).await.unwrap(), result.tasks.first);
    assert_eq!(result.not_reached, Sample::default());
    for task in &result.tasks.first {
        assert_eq!(
            (&task.position, task.status, task.generation.0),
            (&Position::At(stage("detect")), TaskStatus::Done, 1)
        );
    }
    assert_eq!(store.job_by_id(job.id).await.unwrap().as_ref(), Some(&job));
    assert_eq!(store.finish_jobs(at(11)).await.unwrap(), vec![]);
    for task in &result.tasks.first {
        run_stage(&store, &job, task, Event::Succeeded).await;
    }
    assert_eq!(
        store.finish_jobs(at(12)).await.unwrap()[0].finished_at,
        Some(at(12))
    );
}

/// Rows: F11.
async fn a_rerun_touches_what_it_means(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2", "J1"]).await;
    let failed = run_stage(&store, &job, &tasks[0], failure(ErrorCategory::Input)).await;
    finish(&store, &job, &tasks[1]).await;
    let before = store.tasks(job.id).await.unwrap();

    let named = TaskFilter {
        volumes: vec![Pattern::new("W1-I?").unwrap()],
        ..TaskFilter::default()
    };
    let result = store.rerun(job.id, &rerun("read", named), at(10)).await.unwrap();
    let touched: Vec<_> = result.tasks.first.iter().map(|task| task.id).collect();
    assert_eq!(touched, [tasks[1].id]);
    let left: Vec<_> = result.not_reached.first.iter().map(|task| task.id).collect();
    assert_eq!(left, [failed.id]);

    let broken = TaskFilter {
        error: Some(ErrorCategory::Input),
        phases: vec![Phase::FailedRetryable, Phase::FailedTerminal],
        ..TaskFilter::default()
    };
    let result = store
        .rerun(job.id, &rerun("detect", broken), at(10))
        .await
        .unwrap();
    let touched: Vec<_> = result
        .tasks
        .first
        .iter()
        .map(|task| (task.id, task.max_attempts))
        .collect();
    assert_eq!(touched, [(failed.id, 3)], "as many tries as at first");
    assert_eq!(store.tasks(job.id).await.unwrap()[2], before[2]);
}

async fn a_rerun_of_nothing_leaves_the_job_alone(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    finish(&store, &job, &tasks[0]).await;
    let finished = store.finish_jobs(at(9)).await.unwrap();
    let failed = TaskFilter {
        phases: vec![Phase::FailedRetryable, Phase::FailedTerminal],
        ..TaskFilter::default()
    };
    let result = store
        .rerun(job.id, &rerun("detect", failed), at(10))
        .await
        .unwrap();
    assert_eq!(result, RerunResult::default());
    assert_eq!(store.jobs().await.unwrap(), finished);
}

async fn a_rerun_fences_running_work_off(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let detected = run_stage(&store, &job, &tasks[0], Event::Succeeded).await;
    let reading = applied(&store, lease(&detected, &job, "w")).await;
    act(&store, &job, JobAction::Pause).await;
    let result = store
        .rerun(job.id, &rerun("detect", TaskFilter::default()), at(10))
        .await
        .unwrap();
    assert_eq!(result.tasks.first[0].fence(), None);
    fenced(&store, change(&reading, Event::Succeeded)).await;
    let runs = store.stage_runs(reading.id).await.unwrap();
    assert_eq!(runs[1].status, StageRunStatus::Interrupted);
    let job = store.job_by_id(job.id).await.unwrap().unwrap();
    assert_eq!(job.status, JobStatus::Paused, "a pause outlasts a rerun");
}

async fn a_forced_rerun_is_remembered(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    finish(&store, &job, &tasks[0]).await;
    let forced = Rerun {
        force: true,
        ..rerun("read", TaskFilter::default())
    };
    let result = store.rerun(job.id, &forced, at(10)).await.unwrap();
    let running = applied(&store, lease(&result.tasks.first[0], &job, "w")).await;
    assert!(running.forced);
    let done = applied(&store, change(&running, Event::Succeeded)).await;
    assert!(!done.forced);
}

/// Rows: F9.
async fn tasks_are_counted(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3", "I4"]).await;
    let other = store.create_job(&new_job("other", &["I1"]), at(0)).await.unwrap();
    finish(&store, &job, &tasks[0]).await;
    run_stage(&store, &job, &tasks[1], failure(ErrorCategory::Input)).await;
    let count = |job: &Job, position: &str, status, terminal, tasks| JobTaskCount {
        job: job.id,
        position: position.parse().unwrap(),
        status,
        terminal,
        tasks,
    };
    let expected = [
        count(&job, "detect", TaskStatus::Failed, true, 1),
        count(&job, "done", TaskStatus::Done, false, 1),
        count(&job, "pending", TaskStatus::Pending, false, 2),
        count(&other, "pending", TaskStatus::Pending, false, 1),
    ];
    let sorted = |mut counts: Vec<JobTaskCount>| {
        counts.sort_by_key(|count| (count.job, count.position.to_string()));
        counts
    };
    assert_eq!(sorted(store.job_task_counts(None).await.unwrap()), expected);
    assert_eq!(
        sorted(store.job_task_counts(Some(job.id)).await.unwrap()),
        expected[..3]
    );
    assert_eq!(store.jobs().await.unwrap(), [job, other]);
}
