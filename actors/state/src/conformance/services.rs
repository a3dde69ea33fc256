//! Cases of [`ServiceStore`], on stores that are one too.

use std::num::NonZeroU32;
use std::slice;
use std::time::Duration;

use super::*;
use crate::ServiceStore;
use parkhang_core::domain::{Fence, Generation, ServiceJob, ServiceMessage, ServiceRecord, TaskId, WorkerId};

/// A store and its services, which are the same.
#[derive(Debug)]
pub struct Both {
    pub store: Store,
    pub services: Arc<dyn ServiceStore>,
}

/// Runs every case, each on a fresh store from `make`; panics at the first breach.
pub async fn suite(make: impl AsyncFn() -> Both) {
    a_submit_is_intended_once(make().await).await;
    a_job_is_of_the_lease_in_force(make().await).await;
    a_job_of_a_lease_that_is_over_is_known(make().await).await;
    leases_of_a_service_come_page_by_page(make().await).await;
    a_stage_counts_its_own_tries(make().await).await;
    the_last_word_about_a_service_stands(make().await).await;
    turns_of_a_service_come_one_after_the_other(make().await).await;
    what_is_heard_of_a_job_is_noted(make().await).await;
    messages_are_kept_once_until_they_are_dropped(make().await).await;
}

fn holder() -> WorkerId {
    WorkerId::of_service("llm", &stage("detect"))
}

fn lease_to(task: &Task, worker: WorkerId) -> Change {
    let stage = stage("detect");
    change(
        task,
        Event::Leased {
            stage,
            worker,
            until: at(600),
        },
    )
}

fn job_of(task: &Task, name: &str, submitted_at: i64) -> ServiceJob {
    ServiceJob::new(task.fence().unwrap(), name, at(submitted_at))
}

/// Rows: 242.
async fn a_submit_is_intended_once(both: Both) {
    let Both { store, services } = &both;
    let (_, tasks) = job_with(store, &["I1"]).await;
    let first = applied(store, lease_to(&tasks[0], holder())).await;
    let intend = async |task: &Task| {
        let fence = task.fence().unwrap();
        services.intend_submit(&fence, at(1)).await.unwrap()
    };
    assert!(intend(&first).await);
    assert!(!intend(&first).await, "it may have been sent");
    let released = applied(store, change(&first, Event::Released)).await;
    let second = applied(store, lease_to(&released, holder())).await;
    assert!(intend(&second).await, "another lease is another submit");
}

/// Rows: 242.
async fn a_job_is_of_the_lease_in_force(both: Both) {
    let Both { store, services } = &both;
    let (job, tasks) = job_with(store, &["I1", "I2"]).await;
    let record = async |job: &ServiceJob| services.record_service_job(job).await.unwrap();

    let ours = applied(store, lease(&tasks[1], &job, "w")).await;
    assert!(!record(&job_of(&ours, "x", 1)).await, "a pool has no job");
    let given_back = applied(store, change(&ours, Event::Released)).await;
    let first = applied(store, lease_to(&tasks[0], holder())).await;
    assert!(record(&job_of(&first, "a", 1)).await);
    assert!(record(&job_of(&first, "a", 2)).await, "it is written already");
    assert!(!record(&job_of(&first, "b", 3)).await, "the first one stays");
    assert_eq!(
        services.service_jobs(first.id).await.unwrap(),
        [job_of(&first, "a", 1)]
    );

    let released = applied(store, change(&first, Event::Released)).await;
    assert!(!record(&job_of(&first, "a", 4)).await, "the lease is over");
    let second = applied(store, lease_to(&released, holder())).await;
    assert!(!record(&job_of(&first, "c", 5)).await);
    assert!(record(&job_of(&second, "d", 6)).await);
    assert!(record(&job_of(&second, "d e", 7)).await, "it has another part");
    assert!(!record(&job_of(&second, "de", 8)).await, "it is another job");
    assert!(!record(&job_of(&second, "d", 9)).await);
    let all = [job_of(&first, "a", 1), job_of(&second, "d e", 6)];
    assert_eq!(services.service_jobs(first.id).await.unwrap(), all);
    assert_eq!(services.service_jobs(TaskId(9_999)).await.unwrap(), []);
    let third = applied(store, lease_to(&given_back, holder())).await;
    let writes_itself = ServiceJob {
        place: Some("operations/x".to_owned()),
        ..job_of(&third, "e", 7)
    };
    assert!(record(&writes_itself).await);
    assert_eq!(services.service_jobs(third.id).await.unwrap(), [writes_itself]);
}

/// The answer to a submit comes when the lease is over.
/// Rows: 242.
async fn a_job_of_a_lease_that_is_over_is_known(both: Both) {
    let Both { store, services } = &both;
    let (_, tasks) = job_with(store, &["I1"]).await;
    let first = applied(store, lease_to(&tasks[0], holder())).await;
    let released = applied(store, change(&first, Event::Released)).await;
    let second = applied(store, lease_to(&released, holder())).await;
    let late = ServiceJob {
        place: Some("operations/x".to_owned()),
        ..job_of(&first, "a", 1)
    };
    assert!(!services.record_service_job(&late).await.unwrap());
    let known = async || services.service_jobs(first.id).await.unwrap();
    assert_eq!(known().await, slice::from_ref(&late));
    let leases = services.service_leases(&holder(), at(9), None, 9).await.unwrap();
    assert_eq!(leases[0].job, None, "it is none of the lease in force");
    let never = ServiceJob {
        fence: Fence {
            generation: Generation(99),
            ..second.fence().unwrap()
        },
        ..late.clone()
    };
    assert!(!services.record_service_job(&never).await.unwrap());
    assert_eq!(known().await, [late]);
}

async fn leases_of_a_service_come_page_by_page(both: Both) {
    let Both { store, services } = &both;
    let (_, tasks) = job_with(store, &["I1", "I2", "I3", "I4"]).await;
    let mut leased = Vec::new();
    for task in &tasks[..3] {
        leased.push(applied(store, lease_to(task, holder())).await);
    }
    applied(
        store,
        lease_to(&tasks[3], WorkerId::of_service("other", &stage("detect"))),
    )
    .await;
    services
        .record_service_job(&job_of(&leased[1], "a", 2))
        .await
        .unwrap();
    let page = async |after: Option<&Task>, limit, begun_by| {
        let after = after.map(|task| task.id);
        let holder = holder();
        let leases = services.service_leases(&holder, at(begun_by), after, limit);
        let leases = leases.await.unwrap().into_iter();
        leases.map(|lease| (lease.task, lease.job)).collect::<Vec<_>>()
    };
    let one = |index: usize, job: Option<&str>| (leased[index].clone(), job.map(str::to_owned));
    assert_eq!(page(None, 2, 1).await, [one(0, None), one(1, Some("a"))]);
    assert_eq!(page(Some(&leased[1]), 2, 1).await, [one(2, None)]);
    let without_job = [one(0, None), one(2, None)];
    assert_eq!(page(None, 9, 0).await, without_job, "the other one began later");
    applied(store, change(&leased[0], Event::Succeeded)).await;
    assert_eq!(page(None, 9, 1).await, [one(1, Some("a")), one(2, None)]);
}

/// Rows: 236, 237.
async fn a_stage_counts_its_own_tries(both: Both) {
    let Both { store, .. } = &both;
    let (_, tasks) = job_with(store, &["I1"]).await;
    let failed = Event::ServiceFailed {
        error: StageError::new("detect", ErrorCategory::Transient, "HTTP 503"),
        not_before: None,
        tries: 4,
    };
    let mut task = tasks[0].clone();
    for _ in 0..4 {
        let leased = applied(store, lease_to(&task, holder())).await;
        task = applied(store, change(&leased, failed.clone())).await;
    }
    assert_eq!(
        (task.attempts, task.stage_attempts, task.stage_tries),
        (4, 4, Some(4))
    );
    let again = store.commit(&[lease_to(&task, holder())], at(9)).await.unwrap();
    assert!(matches!(again[..], [Outcome::Illegal(_)]), "{again:?}");
    assert_eq!(store.finish_jobs(at(10)).await.unwrap().len(), 1);
}

async fn what_is_heard_of_a_job_is_noted(both: Both) {
    let Both { store, services } = &both;
    let (_, tasks) = job_with(store, &["I1", "I2"]).await;
    let mut jobs = Vec::new();
    for (task, name) in tasks.iter().zip(["a", "b"]) {
        let leased = applied(store, lease_to(task, holder())).await;
        jobs.push(job_of(&leased, name, 1));
    }
    for job in &jobs {
        services.record_service_job(job).await.unwrap();
    }
    let fences: Vec<Fence> = jobs.iter().map(|job| job.fence.clone()).collect();
    services.note_polls(&fences, at(10)).await.unwrap();
    services.note_polls(&fences[..1], at(12)).await.unwrap();
    services.note_message(&fences[0], at(13)).await.unwrap();
    services.note_message(&fences[0], at(14)).await.unwrap();
    let known = async |number: usize| services.service_jobs(tasks[number].id).await.unwrap();
    let (first, second) = (jobs.remove(0), jobs.remove(0));
    let first = ServiceJob {
        polls: 2,
        polled_at: Some(at(12)),
        told_at: Some(at(13)),
        ..first
    };
    let second = ServiceJob {
        polls: 1,
        polled_at: Some(at(10)),
        ..second
    };
    assert_eq!((known(0).await, known(1).await), (vec![first], vec![second]));
}

async fn turns_of_a_service_come_one_after_the_other(both: Both) {
    let services = &both.services;
    let take = async |service: &str| services.take_turn(service, NonZeroU32::MIN).await.unwrap();
    assert_eq!(take("llm").await, Duration::ZERO);
    let mut waits = Vec::new();
    for _ in 0..60 {
        waits.push(take("llm").await);
    }
    assert!(waits.is_sorted(), "{waits:?}");
    let last = waits[59];
    assert!(
        (Duration::from_secs(30)..=Duration::from_secs(60)).contains(&last),
        "{last:?}"
    );
    assert_eq!(take("scraper").await, Duration::ZERO);
}

/// Rows: 233.
async fn messages_are_kept_once_until_they_are_dropped(both: Both) {
    let Both { store, services } = &both;
    let (_, tasks) = job_with(store, &["I1", "I2"]).await;
    let message = |task: TaskId, status: &str| ServiceMessage {
        task,
        stage: stage("detect"),
        job: "a".to_owned(),
        content: serde_json::json!({ "status": status, "result": { "text": "hello" } }),
    };
    let first = message(tasks[0].id, "running");
    let second = message(tasks[0].id, "completed");
    let third = message(tasks[1].id, "completed");
    for kept in [
        &first,
        &second,
        &first,
        &third,
        &message(TaskId(9_999), "completed"),
    ] {
        services.keep_message(kept).await.unwrap();
    }
    let kept = async |after, limit| services.kept_messages(after, limit).await.unwrap();
    let numbered = kept(0, 9).await;
    let messages: Vec<&ServiceMessage> = numbered.iter().map(|(_, message)| message).collect();
    assert_eq!(messages, [&first, &second, &third]);
    assert_eq!(kept(numbered[0].0, 1).await, numbered[1..2]);
    services.drop_messages(&[numbered[0].0]).await.unwrap();
    services.drop_messages(&[numbered[0].0]).await.unwrap();
    assert_eq!(kept(0, 9).await, numbered[1..]);
}

async fn the_last_word_about_a_service_stands(both: Both) {
    let services = &both.services;
    let record = |name: &str, failures| ServiceRecord {
        name: name.to_owned(),
        failures,
        paused_until: (failures > 0).then(|| at(60)),
        error: (failures > 0).then(|| "HTTP 503".to_owned()),
        submits: 7,
        errors: [("server".to_owned(), u64::from(failures))].into(),
        told_at: at(1),
    };
    assert_eq!(services.services().await.unwrap(), []);
    for told in [record("scraper", 0), record("llm", 2), record("llm", 3)] {
        services.record_service(&told).await.unwrap();
    }
    assert_eq!(
        services.services().await.unwrap(),
        [record("llm", 3), record("scraper", 0)]
    );
}
