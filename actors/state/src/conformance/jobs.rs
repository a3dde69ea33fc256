//! Jobs: their creation, growth and end.

use super::*;
use crate::StateError;
use parkhang_core::domain::{JobId, JobStatus, Position, RetryScope, TaskId, TaskStatus};
use parkhang_core::policy::job_action::JobAction;

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    a_job_reads_back(make().await).await;
    a_key_is_taken_once(make().await).await;
    a_job_without_a_key_is_named_by_its_number(make().await).await;
    volumes_keep_their_order_and_count_once(make().await).await;
    volumes_are_added_once(make().await).await;
    a_paused_job_hands_out_no_lease(make().await).await;
    a_job_completes_when_all_tasks_are_done(make().await).await;
    a_stage_border_is_not_an_end(make().await).await;
    retry_scope_decides_what_is_terminal(make().await).await;
    tasks_are_read_by_their_ids(make().await).await;
}

/// Rows: 74, 104, F1.
async fn a_job_reads_back(store: Store) {
    let mut new = new_job("first", &["I1"]);
    new.config.k_factor = 2.5;
    let job = store.create_job(&new, at(0)).await.unwrap();
    assert_eq!(job.key.as_str(), "first");
    assert_eq!((job.status, job.created_at), (JobStatus::Running, at(0)));
    assert_eq!((&job.pipeline, &job.config), (&new.pipeline, &new.config));
    assert_eq!(store.job(&job.key).await.unwrap().as_ref(), Some(&job));
    assert_eq!(store.job_by_id(job.id).await.unwrap(), Some(job));
    assert_eq!(store.job(&JobKey::new("other").unwrap()).await.unwrap(), None);
    assert_eq!(store.job_by_id(JobId(4711)).await.unwrap(), None);
    assert_eq!(store.tasks(JobId(4711)).await.unwrap(), vec![]);
}

async fn tasks_are_read_by_their_ids(store: Store) {
    let (_, tasks) = job_with(&store, &["I3", "I1", "I2"]).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    let asked = [ids[2], TaskId(4711), ids[0], ids[2]];
    let read = store.tasks_by_id(&asked).await.unwrap();
    assert_eq!(
        read,
        [tasks[0].clone(), tasks[2].clone()],
        "in their order, each once, and no others"
    );
    assert_eq!(store.tasks_by_id(&[]).await.unwrap(), []);
    assert_eq!(store.task(ids[1]).await.unwrap().as_ref(), Some(&tasks[1]));
    assert_eq!(store.task(TaskId(4711)).await.unwrap(), None);
}

async fn a_key_is_taken_once(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let again = store.create_job(&new_job("job", &["I2"]), at(1)).await;
    assert!(matches!(again, Err(StateError::JobExists(key)) if key == job.key));
    assert_eq!(
        store.tasks(job.id).await.unwrap(),
        tasks,
        "nothing of it is written"
    );
}

/// Rows: 103.
async fn a_job_without_a_key_is_named_by_its_number(store: Store) {
    let mut new = new_job("x", &["I1"]);
    new.key = None;
    let first = store.create_job(&new, at(0)).await.unwrap();
    assert_eq!(first.key.as_str(), format!("J{}", first.id));
    let squatter = format!("J{}", first.id.0 + 2);
    store.create_job(&new_job(&squatter, &[]), at(0)).await.unwrap();
    let next = store.create_job(&new, at(0)).await.unwrap();
    assert_eq!(next.key.as_str(), format!("J{}", next.id));
}

/// Rows: 74, 105.
async fn volumes_keep_their_order_and_count_once(store: Store) {
    let (_, tasks) = job_with(&store, &["I3", "I1", "I2"]).await;
    let names: Vec<&str> = tasks.iter().map(|task| task.volume.i_id()).collect();
    assert_eq!(names, ["I3", "I1", "I2"]);
    for task in &tasks {
        let start = (&task.position, task.status, task.attempts);
        assert_eq!(start, (&Position::Pending, TaskStatus::Pending, 0));
    }
    let repeated = store
        .create_job(&new_job("twice", &["I1", "I2", "I1"]), at(0))
        .await
        .unwrap();
    let tasks = store.tasks(repeated.id).await.unwrap();
    let names: Vec<&str> = tasks.iter().map(|task| task.volume.i_id()).collect();
    assert_eq!(names, ["I1", "I2"]);
    assert!(
        tasks
            .iter()
            .all(|task| (task.max_attempts, task.retry_budget) == (2, 2))
    );
}

async fn volumes_are_added_once(store: Store) {
    let (job, _) = job_with(&store, &["I1"]).await;
    let more = volumes(&["I1", "I2", "I3", "I2"]);
    assert_eq!(store.add_volumes(job.id, &more).await.unwrap(), 2);
    assert_eq!(store.add_volumes(job.id, &more).await.unwrap(), 0);
    let tasks = store.tasks(job.id).await.unwrap();
    assert_eq!((tasks.len(), tasks[2].max_attempts), (3, 2));
    assert!(matches!(
        store.add_volumes(JobId(4711), &more).await,
        Err(StateError::NoSuchJob(_))
    ));
}

async fn a_paused_job_hands_out_no_lease(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    let running = applied(&store, lease(&tasks[0], &job, "w")).await;
    store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    let refused = store.commit(&[lease(&tasks[1], &job, "w")], at(6)).await.unwrap();
    assert!(matches!(refused[..], [Outcome::Illegal(_)]));
    assert_eq!(current(&store, &tasks[1]).await, tasks[1]);
    applied(&store, change(&running, Event::Succeeded)).await;
}

async fn a_job_completes_when_all_tasks_are_done(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    for task in &tasks {
        assert_eq!(store.finish_jobs(at(9)).await.unwrap(), vec![]);
        let detected = run_stage(&store, &job, task, Event::Succeeded).await;
        run_stage(&store, &job, &detected, Event::Succeeded).await;
    }
    let finished = store.finish_jobs(at(10)).await.unwrap();
    assert_eq!(
        finished,
        [Job {
            status: JobStatus::Completed,
            finished_at: Some(at(10)),
            ..job.clone()
        }]
    );
    assert_eq!(store.job_by_id(job.id).await.unwrap().as_ref(), finished.first());
    assert_eq!(store.finish_jobs(at(11)).await.unwrap(), vec![]);
}

async fn a_stage_border_is_not_an_end(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    run_stage(&store, &job, &tasks[0], failure(ErrorCategory::Input)).await;
    let waiting = run_stage(&store, &job, &tasks[1], Event::Succeeded).await;
    assert_eq!(waiting.status, TaskStatus::Done);
    assert_eq!(store.finish_jobs(at(9)).await.unwrap(), vec![]);
    run_stage(&store, &job, &waiting, Event::Succeeded).await;
    let finished = store.finish_jobs(at(10)).await.unwrap();
    assert_eq!(finished[0].status, JobStatus::Failed);
}

async fn retry_scope_decides_what_is_terminal(store: Store) {
    for (scope, is_terminal) in [(RetryScope::Task, true), (RetryScope::Stage, false)] {
        let mut new = new_job(&format!("{scope:?}"), &["I1"]);
        new.config.retry_scope = scope;
        let job = store.create_job(&new, at(0)).await.unwrap();
        let task = store.tasks(job.id).await.unwrap().remove(0);
        let task = run_stage(&store, &job, &task, failure(ErrorCategory::Network)).await;
        let task = run_stage(&store, &job, &task, Event::Succeeded).await;
        let task = run_stage(&store, &job, &task, failure(ErrorCategory::Network)).await;
        assert_eq!(task.attempts, 2);
        assert_eq!(task.not_before.is_none(), is_terminal);
        let finished = store.finish_jobs(at(9)).await.unwrap();
        assert_eq!(finished.iter().any(|finished| finished.id == job.id), is_terminal);
    }
}
