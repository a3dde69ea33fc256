//! Reads of a reconciler pass: leases, tasks that may begin, and the backlog.

use std::collections::BTreeMap;

use super::*;
use crate::Leases;
use parkhang_core::domain::{JobId, TaskId};
use parkhang_core::policy::job_action::JobAction;
use parkhang_core::policy::placement::Held;

pub(super) async fn suite(make: &impl AsyncFn() -> Store) {
    a_stage_with_room_gets_the_first_that_wait_for_it(make().await).await;
    a_stage_without_room_gets_nothing(make().await).await;
    only_running_jobs_have_ready_tasks(make().await).await;
    finished_tasks_are_not_ready(make().await).await;
    a_task_that_backs_off_is_announced_until_it_is_due(make).await;
    every_job_gets_its_share_of_the_room(make().await).await;
    leases_are_counted_by_worker_until_they_run_out(make().await).await;
    leases_of_a_paused_job_count(make().await).await;
    leases_of_a_cancelled_job_are_unwanted(make().await).await;
    a_worker_is_known_by_its_leases(make().await).await;
}

fn room(stages: &[(&str, usize)]) -> BTreeMap<StageName, usize> {
    stages.iter().map(|(name, room)| (stage(name), *room)).collect()
}

async fn ready(store: &Store, stages: &[(&str, usize)]) -> Vec<TaskId> {
    let ready = store.ready_tasks(&room(stages), at(1)).await.unwrap();
    ready.tasks.iter().map(|(task, _)| task.id).collect()
}

fn ids(tasks: &[&Task]) -> Vec<TaskId> {
    tasks.iter().map(|task| task.id).collect()
}

fn held(worker: &str, job: &Job, leases: usize) -> Held {
    Held {
        worker: testing::worker(worker),
        job: job.id,
        stage: stage("detect"),
        leases,
        suspects: 0,
    }
}

async fn a_stage_with_room_gets_the_first_that_wait_for_it(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3", "I4", "I5", "I6"]).await;
    let [fresh, running, given_back, detected, reading, fresh_too] = &tasks[..] else {
        panic!("not six");
    };
    applied(&store, lease(running, &job, "w")).await;
    run_stage(&store, &job, given_back, Event::Released).await;
    run_stage(&store, &job, detected, Event::Succeeded).await;
    let done = run_stage(&store, &job, reading, Event::Succeeded).await;
    run_stage(&store, &job, &done, Event::Interrupted).await;

    assert_eq!(ready(&store, &[("read", 9)]).await, ids(&[detected, reading]));
    let detect = ready(&store, &[("detect", 9)]).await;
    assert_eq!(detect, ids(&[fresh, given_back, fresh_too]));
    let both = ready(&store, &[("detect", 9), ("read", 9)]).await;
    assert_eq!(both, ids(&[fresh, given_back, detected, reading, fresh_too]));

    let first = ready(&store, &[("detect", 1)]).await;
    assert!(first.starts_with(&ids(&[fresh])), "{first:?}");
    assert!(!first.contains(&fresh_too.id), "more than there is room for");
    let found = store.ready_tasks(&room(&[("read", 9)]), at(1)).await.unwrap();
    assert_eq!(found.tasks[0].0, current(&store, detected).await);
    assert_eq!(*found.tasks[0].1, job);
}

async fn a_stage_without_room_gets_nothing(store: Store) {
    job_with(&store, &["I1"]).await;
    assert_eq!(ready(&store, &[]).await, []);
    assert_eq!(ready(&store, &[("detect", 0)]).await, []);
    assert_eq!(ready(&store, &[("elsewhere", 5)]).await, []);
}

async fn only_running_jobs_have_ready_tasks(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    let running = async || {
        let jobs = store.running_jobs().await.unwrap();
        jobs.iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(running().await, [job.id]);
    assert_eq!(
        ready(&store, &[("detect", 9)]).await,
        ids(&[&tasks[0], &tasks[1]])
    );
    store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    assert_eq!(running().await, []);
    assert_eq!(ready(&store, &[("detect", 9)]).await, []);
    store.act_on_job(job.id, JobAction::Resume).await.unwrap();
    assert_eq!(ready(&store, &[("detect", 9)]).await.len(), 2);
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    assert_eq!(ready(&store, &[("detect", 9)]).await, []);
}

async fn finished_tasks_are_not_ready(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    let detected = run_stage(&store, &job, &tasks[0], Event::Succeeded).await;
    run_stage(&store, &job, &detected, Event::Succeeded).await;
    run_stage(&store, &job, &tasks[1], failure(ErrorCategory::Input)).await;
    assert_eq!(ready(&store, &[("detect", 9), ("read", 9)]).await, []);
}

async fn a_task_that_backs_off_is_announced_until_it_is_due(make: &impl AsyncFn() -> Store) {
    for backs_off in [failure(ErrorCategory::Network), outage()] {
        waits_until_it_is_due(make().await, backs_off).await;
    }
}

async fn waits_until_it_is_due(store: Store, backs_off: Event) {
    let (job, tasks) = job_with(&store, &["I1", "I2"]).await;
    run_stage(&store, &job, &tasks[0], backs_off).await;
    let detect = room(&[("detect", 9)]);
    let early = store.ready_tasks(&detect, at(29)).await.unwrap();
    assert_eq!(early.next_due, Some(at(30)));
    assert_eq!(
        early.tasks.iter().map(|(task, _)| task.id).collect::<Vec<_>>(),
        [tasks[1].id]
    );
    let due = store.ready_tasks(&detect, at(30)).await.unwrap();
    assert_eq!((due.tasks.len(), due.next_due), (2, None));
}

async fn every_job_gets_its_share_of_the_room(store: Store) {
    let first = store
        .create_job(&new_job("first", &["I1", "I2", "I3"]), at(0))
        .await
        .unwrap();
    let second = store
        .create_job(&new_job("second", &["I1", "I2", "I3"]), at(0))
        .await
        .unwrap();
    let found = store.ready_tasks(&room(&[("detect", 2)]), at(1)).await.unwrap();
    let jobs: Vec<JobId> = found.tasks.iter().map(|(task, _)| task.job_id).collect();
    assert_eq!(jobs, [first.id, first.id, second.id, second.id]);
}

async fn leases_are_counted_by_worker_until_they_run_out(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3", "I4"]).await;
    assert_eq!(store.leases(at(1)).await.unwrap(), Leases::default());
    let mut running = Vec::new();
    for (task, worker) in tasks.iter().zip(["b", "a", "b", "b"]) {
        running.push(applied(&store, lease(task, &job, worker)).await);
    }
    let both = [held("a", &job, 1), held("b", &job, 3)];
    assert_eq!(
        store.leases(at(59)).await.unwrap(),
        Leases {
            held: both.to_vec(),
            ..Leases::default()
        }
    );

    applied(&store, change(&running[2], Event::Succeeded)).await;
    let fence = running[3].fence().unwrap();
    store.renew_leases(&[fence], at(90)).await.unwrap();
    let leases = store.leases(at(60)).await.unwrap();
    assert_eq!(leases.held, [held("b", &job, 1)]);
    assert_eq!(leases.expired, [running[0].clone(), running[1].clone()]);

    applied(&store, change(&running[0], Event::Interrupted)).await;
    applied(&store, change(&running[1], Event::Interrupted)).await;
    assert_eq!(store.leases(at(60)).await.unwrap().expired, vec![]);
}

async fn leases_of_a_paused_job_count(store: Store) {
    let (job, tasks) = job_with(&store, &["I1"]).await;
    let running = applied(&store, lease(&tasks[0], &job, "w")).await;
    store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    assert_eq!(store.leases(at(6)).await.unwrap().held, [held("w", &job, 1)]);
    assert_eq!(store.leases(at(60)).await.unwrap().expired, [running]);
}

async fn leases_of_a_cancelled_job_are_unwanted(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3"]).await;
    let first = applied(&store, lease(&tasks[0], &job, "w")).await;
    let second = applied(&store, lease(&tasks[1], &job, "w")).await;
    store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    let leases = store.leases(at(6)).await.unwrap();
    assert_eq!(leases.held, [held("w", &job, 2)], "the worker has yet to stop");
    assert_eq!(leases.unwanted, [first.clone(), second.clone()]);

    applied(&store, change(&first, Event::Cancelled)).await;
    let late = store.leases(at(60)).await.unwrap();
    assert_eq!((late.held, late.expired), (vec![], vec![]));
    assert_eq!(late.unwanted, [second]);
}

async fn a_worker_is_known_by_its_leases(store: Store) {
    let (job, tasks) = job_with(&store, &["I1", "I2", "I3"]).await;
    let mine = applied(&store, lease(&tasks[0], &job, "mine")).await;
    applied(&store, lease(&tasks[1], &job, "other")).await;
    let also_mine = applied(&store, lease(&tasks[2], &job, "mine")).await;
    let worker = worker("mine");
    assert_eq!(
        store.leased_to(&worker).await.unwrap(),
        [mine.clone(), also_mine.clone()]
    );
    applied(&store, change(&mine, Event::Succeeded)).await;
    assert_eq!(store.leased_to(&worker).await.unwrap(), [also_mine]);
}
