//! Standing jobs: those that go on when their tasks are over.

use super::*;
use parkhang_core::domain::{JobStatus, NewJob};
use parkhang_core::policy::job_action::JobAction;

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    a_standing_job_ends_once_it_is_closed(make().await).await;
    a_closed_job_waits_for_its_tasks(make().await).await;
    a_standing_job_is_paused_and_cancelled_like_any_other(make().await).await;
}

fn standing(names: &[&str]) -> NewJob {
    NewJob {
        standing: true,
        ..new_job("job", names)
    }
}

/// Runs both stages of every task.
async fn finish_all(store: &Store, job: &Job) {
    for task in store.tasks(job.id).await.unwrap() {
        let detected = run_stage(store, job, &task, Event::Succeeded).await;
        run_stage(store, job, &detected, Event::Succeeded).await;
    }
}

async fn a_standing_job_ends_once_it_is_closed(store: Store) {
    let job = store.create_job(&standing(&[]), at(0)).await.unwrap();
    assert_eq!((job.status, job.standing), (JobStatus::Running, true));
    assert_eq!(store.job_by_id(job.id).await.unwrap().as_ref(), Some(&job));
    assert_eq!(
        store.finish_jobs(at(1)).await.unwrap(),
        [],
        "no volumes are no end"
    );
    store.add_volumes(job.id, &volumes(&["I1"])).await.unwrap();
    finish_all(&store, &job).await;
    assert_eq!(store.finish_jobs(at(2)).await.unwrap(), []);
    for _ in 0..2 {
        let closed = store.act_on_job(job.id, JobAction::Close).await.unwrap();
        assert_eq!((closed.status, closed.standing), (JobStatus::Running, false));
    }
    let finished = store.finish_jobs(at(3)).await.unwrap();
    assert_eq!(
        finished,
        [Job {
            status: JobStatus::Completed,
            standing: false,
            finished_at: Some(at(3)),
            ..job.clone()
        }]
    );
    let again = store.act_on_job(job.id, JobAction::Close).await.unwrap();
    assert_eq!(again, finished[0], "an answer that was lost is asked for again");
}

async fn a_closed_job_waits_for_its_tasks(store: Store) {
    let job = store.create_job(&standing(&["I1", "I2"]), at(0)).await.unwrap();
    let tasks = store.tasks(job.id).await.unwrap();
    run_stage(&store, &job, &tasks[0], failure(ErrorCategory::Input)).await;
    store.act_on_job(job.id, JobAction::Close).await.unwrap();
    assert_eq!(store.finish_jobs(at(2)).await.unwrap(), []);
    let detected = run_stage(&store, &job, &tasks[1], Event::Succeeded).await;
    run_stage(&store, &job, &detected, Event::Succeeded).await;
    assert_eq!(
        store.finish_jobs(at(3)).await.unwrap()[0].status,
        JobStatus::Failed
    );
}

async fn a_standing_job_is_paused_and_cancelled_like_any_other(store: Store) {
    let job = store.create_job(&standing(&["I1"]), at(0)).await.unwrap();
    let paused = store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    assert_eq!((paused.status, paused.standing), (JobStatus::Paused, true));
    assert_eq!(store.act_on_job(job.id, JobAction::Resume).await.unwrap(), job);
    let cancelled = store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    assert!(!cancelled.standing, "an ended job does not stand");
    assert_eq!(store.finish_jobs(at(3)).await.unwrap()[0].id, job.id);
    assert!(store.act_on_job(job.id, JobAction::Close).await.is_err());
}
