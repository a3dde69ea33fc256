//! Cases of [`Inbox`], on stores that are one too.

use serde_json::json;

use super::*;
use crate::{Inbox, OpenRequests, Settled, StateError, Taken, VolumeRequest};
use parkhang_core::domain::{DocumentKey, JobId, JobStatus, NewJob, Position, TaskStatus};
use parkhang_core::policy::job_action::JobAction;

/// A store and its inbox, which are the same.
#[derive(Debug)]
pub struct Both {
    pub store: Store,
    pub inbox: Arc<dyn Inbox>,
}

/// Requests of messages, each for a volume of collection W1.
fn requests(messages: &[(&str, &str)]) -> Vec<VolumeRequest> {
    let request = |(message, i_id): &(&str, &str)| VolumeRequest {
        message: (*message).to_owned(),
        volume: VolumeId::new("W1", *i_id).unwrap(),
        document: None,
    };
    messages.iter().map(request).collect()
}

impl Both {
    async fn job(&self) -> Job {
        let new = NewJob {
            standing: true,
            ..new_job("job", &[])
        };
        self.store.create_job(&new, at(0)).await.unwrap()
    }

    async fn take(&self, job: &Job, messages: &[(&str, &str)], now: i64) -> Vec<Taken> {
        let requests = requests(messages);
        self.inbox.take_in(job.id, &requests, at(now)).await.unwrap()
    }

    async fn open(&self, job: &Job) -> Vec<OpenRequests> {
        self.inbox.open_requests(job.id, None, 10).await.unwrap()
    }

    async fn only_task(&self, job: &Job) -> Task {
        let mut tasks = self.store.tasks(job.id).await.unwrap();
        assert_eq!(tasks.len(), 1);
        tasks.remove(0)
    }

    /// Runs the first stage, which reads a version.
    async fn detect(&self, job: &Job, task: &Task, version: &str) -> Task {
        let running = applied(&self.store, lease(task, job, "w")).await;
        let done = Change {
            metrics: Some(json!({ "version": version })),
            ..change(&running, Event::Succeeded)
        };
        applied(&self.store, done).await
    }

    async fn settle(&self, job: &Job, open: &OpenRequests, again: bool) -> u64 {
        let requests = open.clone();
        let settled = [Settled { requests, again }];
        self.inbox.settle(job.id, &settled, at(50)).await.unwrap()
    }
}

/// Runs every case, each on a fresh store from `make`; panics at the first breach.
pub async fn suite(make: impl AsyncFn() -> Both) {
    a_message_is_taken_once(make().await).await;
    only_a_standing_job_takes_requests(make().await).await;
    a_task_knows_where_its_document_is(make().await).await;
    what_failed_for_good_is_done_again_once_a_message(make().await).await;
    a_request_for_what_has_begun_stays_open(make().await).await;
    another_version_sends_a_volume_back(make().await).await;
    an_answer_about_a_task_that_moved_closes_nothing(make().await).await;
    a_job_that_has_ended_is_opened_again(make().await).await;
    messages_are_forgotten_when_no_queue_has_them(make().await).await;
    names_that_a_database_cannot_hold_harm_nobody(make().await).await;
}

/// Rows: U17, U29.
async fn a_message_is_taken_once(both: Both) {
    let job = both.job().await;
    let first = both
        .take(&job, &[("m1", "I1"), ("m2", "I2"), ("m3", "I1")], 1)
        .await;
    assert_eq!(first, [Taken::Added, Taken::Added, Taken::Known]);
    let again = both
        .take(&job, &[("m3", "I1"), ("m4", "I3"), ("m4", "I3")], 2)
        .await;
    assert_eq!(again, [Taken::Repeated, Taken::Added, Taken::Repeated]);
    let tasks = both.store.tasks(job.id).await.unwrap();
    let names: Vec<&str> = tasks.iter().map(|task| task.volume.i_id()).collect();
    assert_eq!(names, ["I1", "I2", "I3"]);
    assert_eq!(tasks[0].max_attempts, 2, "as the job has it");
    assert_eq!(both.open(&job).await, [], "none of them has begun");
    // The same names in another collection, and in another job, are other volumes.
    let benchmark = VolumeRequest {
        message: "m5".to_owned(),
        volume: VolumeId::new("ocr_benchmark:W1", "I1-1").unwrap(),
        document: None,
    };
    let taken = both.inbox.take_in(job.id, &[benchmark], at(3)).await.unwrap();
    assert_eq!(taken, [Taken::Added]);
}

/// Rows: 151.
async fn a_task_knows_where_its_document_is(both: Both) {
    let job = both.job().await;
    let volume: VolumeId = "HKEX-11805134@3-12".parse().unwrap();
    let take = async |message: &str, key: Option<&str>| {
        let request = VolumeRequest {
            message: message.to_owned(),
            volume: volume.clone(),
            document: key.map(|key| DocumentKey::new(key).unwrap()),
        };
        both.inbox.take_in(job.id, &[request], at(1)).await.unwrap()
    };
    let place = async || {
        let task = both.only_task(&job).await;
        task.document.map(String::from)
    };
    assert_eq!(take("m1", Some("hkex/1.pdf")).await, [Taken::Added]);
    assert_eq!(place().await.as_deref(), Some("hkex/1.pdf"));
    // The document has moved; who names no place says nothing of it.
    assert_eq!(take("m2", Some("moved/1.pdf")).await, [Taken::Known]);
    assert_eq!(take("m3", None).await, [Taken::Known]);
    assert_eq!(place().await.as_deref(), Some("moved/1.pdf"));
    // A message that comes again says nothing new.
    assert_eq!(take("m1", Some("hkex/1.pdf")).await, [Taken::Repeated]);
    assert_eq!(place().await.as_deref(), Some("moved/1.pdf"));
    let task = both.only_task(&job).await;
    let leased = applied(&both.store, lease(&task, &job, "w")).await;
    assert_eq!(leased.document, task.document, "it stays with the task");

    let other = NewJob {
        volumes: vec![volume.clone()],
        ..new_job("other", &[])
    };
    let other = both.store.create_job(&other, at(2)).await.unwrap();
    let tasks = both.store.tasks(other.id).await.unwrap();
    assert_eq!(tasks[0].document, task.document, "the place is the volume's");
}

async fn only_a_standing_job_takes_requests(both: Both) {
    let requests = requests(&[("m1", "I1")]);
    let (plain, _) = job_with(&both.store, &[]).await;
    let refused = both.inbox.take_in(plain.id, &requests, at(1)).await;
    assert!(matches!(refused, Err(StateError::NotStanding(key)) if key == plain.key));
    let refused = both.inbox.take_in(JobId(4711), &requests, at(1)).await;
    assert!(matches!(refused, Err(StateError::NoSuchJob(_))));
    assert_eq!(both.inbox.open_requests(JobId(4711), None, 9).await.unwrap(), []);
    let new = NewJob {
        standing: true,
        ..new_job("other", &[])
    };
    let job = both.store.create_job(&new, at(0)).await.unwrap();
    both.store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    assert_eq!(
        both.take(&job, &[("m1", "I1")], 1).await,
        [Taken::Added],
        "a pause takes too"
    );
    both.store.act_on_job(job.id, JobAction::Close).await.unwrap();
    let refused = both.inbox.take_in(job.id, &requests, at(2)).await;
    assert!(matches!(refused, Err(StateError::NotStanding(_))), "{refused:?}");
}

/// Rows: U26, U35.
async fn what_failed_for_good_is_done_again_once_a_message(both: Both) {
    let job = both.job().await;
    both.take(&job, &[("m1", "I1")], 1).await;
    let task = both.only_task(&job).await;
    run_stage(&both.store, &job, &task, failure(ErrorCategory::Input)).await;
    let failed = both.only_task(&job).await;
    assert_eq!(both.take(&job, &[("m1", "I1")], 2).await, [Taken::Repeated]);
    assert_eq!(both.only_task(&job).await, failed);
    let asked_twice = both.take(&job, &[("m2", "I1"), ("m3", "I1")], 3).await;
    assert_eq!(asked_twice, [Taken::Retried, Taken::Known]);
    let again = both.only_task(&job).await;
    assert_eq!(
        (&again.position, again.status, again.generation.0),
        (&Position::Pending, TaskStatus::Pending, 1)
    );
    assert_eq!(again.max_attempts, 3, "as many tries as at first");
    run_stage(&both.store, &job, &again, failure(ErrorCategory::Input)).await;
    let failed = both.only_task(&job).await;
    assert_eq!(both.take(&job, &[("m2", "I1")], 4).await, [Taken::Repeated]);
    assert_eq!(both.only_task(&job).await, failed);
}

/// Rows: U27.
async fn a_request_for_what_has_begun_stays_open(both: Both) {
    let job = both.job().await;
    both.take(&job, &[("m1", "I1")], 1).await;
    let task = both.only_task(&job).await;
    let running = applied(&both.store, lease(&task, &job, "w")).await;
    let taken = both.take(&job, &[("m2", "I1"), ("m3", "I1")], 900).await;
    assert_eq!(taken, [Taken::Known, Taken::Known]);
    assert_eq!(
        both.only_task(&job).await,
        running,
        "whoever works on it goes on, however long ago it began"
    );
    let open = both.open(&job).await;
    assert_eq!(
        open,
        [OpenRequests {
            task: running.clone(),
            read: None,
            until: at(900),
        }]
    );
    let behind = both.inbox.open_requests(job.id, Some(running.id), 10);
    assert_eq!(behind.await.unwrap(), []);
    assert_eq!(both.inbox.open_requests(job.id, None, 0).await.unwrap(), []);
    assert_eq!(both.settle(&job, &open[0], false).await, 0);
    assert_eq!(both.open(&job).await, []);
    assert_eq!(both.only_task(&job).await, running);
}

/// Rows: U29, U36.
async fn another_version_sends_a_volume_back(both: Both) {
    let job = both.job().await;
    both.take(&job, &[("m1", "I1")], 1).await;
    let task = both.only_task(&job).await;
    let detected = both.detect(&job, &task, "v1").await;
    run_stage(&both.store, &job, &detected, Event::Succeeded).await;
    both.take(&job, &[("m2", "I1")], 2).await;
    let open = both.open(&job).await;
    assert_eq!(open[0].read.as_deref(), Some("v1"));
    assert_eq!(both.settle(&job, &open[0], true).await, 1);
    assert_eq!(both.open(&job).await, []);
    let again = both.only_task(&job).await;
    assert_eq!(
        (&again.position, again.generation.0, again.done_at),
        (&Position::Pending, 1, None)
    );
    both.detect(&job, &again, "v2").await;
    both.take(&job, &[("m3", "I1")], 3).await;
    assert_eq!(
        both.open(&job).await[0].read.as_deref(),
        Some("v2"),
        "what was read last"
    );
}

async fn an_answer_about_a_task_that_moved_closes_nothing(both: Both) {
    let job = both.job().await;
    both.take(&job, &[("m1", "I1")], 1).await;
    let task = both.only_task(&job).await;
    let detected = both.detect(&job, &task, "v1").await;
    both.take(&job, &[("m2", "I1")], 2).await;
    let open = both.open(&job).await;
    let reading = applied(&both.store, lease(&detected, &job, "w")).await;
    assert_eq!(both.settle(&job, &open[0], true).await, 0);
    assert_eq!(both.only_task(&job).await, reading);
    let open = both.open(&job).await;
    // A request that came after the look stays open as well.
    both.take(&job, &[("m3", "I1")], 9).await;
    both.settle(&job, &open[0], false).await;
    assert_eq!(both.open(&job).await[0].until, at(9));
    let open = both.open(&job).await;
    assert_eq!(both.settle(&job, &open[0], true).await, 1);
    fenced(&both.store, change(&reading, Event::Succeeded)).await;
}

async fn a_job_that_has_ended_is_opened_again(both: Both) {
    let job = both.job().await;
    both.take(&job, &[("m1", "I1")], 1).await;
    let task = both.only_task(&job).await;
    let detected = both.detect(&job, &task, "v1").await;
    both.take(&job, &[("m2", "I1")], 2).await;
    run_stage(&both.store, &job, &detected, Event::Succeeded).await;
    both.store.act_on_job(job.id, JobAction::Close).await.unwrap();
    assert_eq!(both.store.finish_jobs(at(9)).await.unwrap().len(), 1);
    let open = both.open(&job).await;
    assert_eq!(both.settle(&job, &open[0], true).await, 1);
    let opened = both.store.job_by_id(job.id).await.unwrap().unwrap();
    assert_eq!(
        (opened.status, opened.finished_at, opened.standing),
        (JobStatus::Running, None, false)
    );
    both.store.act_on_job(job.id, JobAction::Cancel).await.unwrap();
    let settled = Settled {
        requests: open[0].clone(),
        again: true,
    };
    let refused = both.inbox.settle(job.id, &[settled], at(10)).await;
    assert!(matches!(refused, Err(StateError::Forbidden(_))), "{refused:?}");
}

async fn messages_are_forgotten_when_no_queue_has_them(both: Both) {
    const DAY: i64 = 24 * 60 * 60;
    let job = both.job().await;
    both.take(&job, &[("m1", "I1")], 0).await;
    let task = both.only_task(&job).await;
    both.detect(&job, &task, "v1").await;
    both.take(&job, &[("m2", "I1")], 0).await;
    let taken = both.take(&job, &[("m1", "I1"), ("m2", "I1")], 15 * DAY).await;
    assert_eq!(taken, [Taken::Repeated, Taken::Repeated]);
    let taken = both.take(&job, &[("m1", "I1"), ("m2", "I1")], 15 * DAY + 1).await;
    assert_eq!(taken, [Taken::Known, Taken::Repeated], "an open request is kept");
}

/// Rows: U24.
async fn names_that_a_database_cannot_hold_harm_nobody(both: Both) {
    let job = both.job().await;
    let odd = "m\0\u{1f642}";
    assert_eq!(both.take(&job, &[(odd, "I1")], 1).await, [Taken::Added]);
    assert_eq!(both.take(&job, &[(odd, "I1")], 2).await, [Taken::Repeated]);
    let refused = both
        .inbox
        .take_in(JobId(4711), &requests(&[("m2", "I2")]), at(3))
        .await;
    assert!(refused.is_err());
    for n in 0..20 {
        let message = format!("n{n}");
        let taken = both.take(&job, &[(&message, &format!("J{n}"))], 4).await;
        assert_eq!(
            taken,
            [Taken::Added],
            "a refusal leaves no connection behind that refuses the next"
        );
    }
}
