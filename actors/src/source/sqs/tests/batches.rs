//! Messages, and reports, that come together.

use futures::future::join_all;

use super::*;
use parkhang_core::domain::testing::worker;
use parkhang_core::domain::{Fence, JobKey, NewJob, StageError, VolumeId};
use parkhang_core::policy::transition::Event;

impl World {
    /// Puts a queue that counts requests before that of the first stage.
    fn counted(&self) -> Arc<RefusingQueue> {
        let queue = Arc::new(RefusingQueue::new(self.detect().clone()));
        self.queues.found(&stage("detect"), queue.clone());
        queue
    }

    /// Leases a task of the first stage for somebody else, `until` so many seconds.
    async fn lease(&self, task: &Task, until: i64) -> Task {
        let leased = Event::Leased {
            stage: stage("detect"),
            worker: worker("other"),
            until: at(until),
        };
        let change = Change::new(Expected::of(task), leased);
        let outcome = self.store.commit(&[change], at(0)).await.unwrap().remove(0);
        outcome.applied().unwrap()
    }
}

/// Fences of claims.
fn fences(claims: &[Claim]) -> Vec<Fence> {
    claims
        .iter()
        .map(|claim| claim.assignment.fence.clone())
        .collect()
}

/// Rows: 56, 142.
#[tokio::test(start_paused = true)]
async fn as_many_messages_are_taken_at_once_as_there_are_slots_and_deleted_together() {
    let (world, _) = World::new(40).await;
    let queue = world.counted();
    let source = world.source();
    let few = source.claim(&room(3)).await.unwrap();
    assert_eq!((few.len(), queue.made(Refused::Receives)), (3, 1));
    assert_eq!(world.counts().await, (37, 3), "no more messages than slots");
    let many = source.claim(&room(25)).await.unwrap();
    assert_eq!((many.len(), queue.made(Refused::Receives)), (25, 1 + 3));
    assert_eq!(world.counts().await, (12, 28));

    let claims: Vec<Claim> = few.into_iter().chain(many).collect();
    let replies = join_all(claims.iter().map(|claim| complete(&source, claim, success()))).await;
    assert!(
        replies.iter().all(|reply| *reply == ReportReply::Recorded),
        "{replies:?}"
    );
    assert_eq!(world.counts().await, (12, 0));
    let deletions = queue.made(Refused::Deletions);
    assert!(deletions <= 2, "{deletions} requests for 28 messages");
}

#[tokio::test(start_paused = true)]
async fn one_receive_waits_where_little_is_to_be_had() {
    let (world, _) = World::new(3).await;
    let queue = world.counted();
    let source = world.source_that_waits(Duration::from_secs(20));
    let claims = source.claim(&room(25)).await.unwrap();
    assert_eq!((claims.len(), queue.made(Refused::Receives)), (3, 1));
    let began = tokio::time::Instant::now();
    while began.elapsed() < Duration::from_secs(100) {
        assert_eq!(source.claim(&room(22)).await.unwrap(), []);
    }
    // One after the other, each for twenty seconds.
    let receives = queue.made(Refused::Receives) - 1;
    assert!((5..=6).contains(&receives), "{receives} receives in 100 s");
}

/// Rows: 144, 145.
#[tokio::test(start_paused = true)]
async fn a_batch_of_all_kinds_of_messages_leaves_none_out() {
    let (world, job) = World::with(QueueSpec::new, "", 5).await;
    let paused = NewJob {
        key: Some(JobKey::new("paused").unwrap()),
        volumes: vec![VolumeId::new("W2", "I1").unwrap()],
        ..new_job(&["detect", "read"], 0)
    };
    let paused = world.store.create_job(&paused, at(0)).await.unwrap();
    world.publisher.round().await.unwrap();
    world.store.act_on_job(paused.id, JobAction::Pause).await.unwrap();
    let tasks = world.store.tasks(job.id).await.unwrap();
    // Of five published tasks the first waits, the second is leased and the third's lease is over, the fourth is done.
    world.lease(&tasks[1], 600).await;
    world.lease(&tasks[2], 1).await;
    let done = world.lease(&tasks[3], 600).await;
    let succeeded = Change::new(Expected::of(&done), Event::Succeeded);
    world.store.commit(&[succeeded], at(0)).await.unwrap();
    let detect = world.detect();
    detect.send(NewMessage::new("{}")).await.unwrap();
    let twice = TaskMessage {
        task_id: tasks[0].id.0,
        job_id: job.id.0,
        volume_id: 1,
        bdrc_w_id: "W1".to_owned(),
        bdrc_i_id: "I1".to_owned(),
        attempt: 1,
        job_key: job.key.to_string(),
        generation: 0,
        version: 1,
    };
    let unknown = TaskMessage {
        task_id: 4711,
        ..twice.clone()
    };
    for message in [twice, unknown] {
        let body = serde_json::to_string(&message).unwrap();
        detect.send(NewMessage::new(body)).await.unwrap();
    }
    assert_eq!(world.counts().await, (9, 0));

    tokio::time::advance(Duration::from_secs(2)).await;
    let source = world.source();
    let claims = source.claim(&room(10)).await.unwrap();
    let mut taken: Vec<TaskId> = claims.iter().map(|claim| claim.assignment.fence.task).collect();
    taken.sort_unstable();
    assert_eq!(taken, [tasks[0].id, tasks[2].id, tasks[4].id]);
    assert_eq!(
        world.task_of(tasks[2].id).await.interruptions,
        1,
        "the lease that was over"
    );
    // Held are those of the three leases, the second one of the first task, and that of the lease of somebody else.
    assert_eq!(world.counts().await, (0, 5));
    let letters = detect.dead_letters().await.unwrap();
    assert_eq!(letters.counts().await.unwrap().visible, 1);
    assert_eq!(
        world.publisher.round().await.unwrap(),
        1,
        "of the task that is done"
    );
    world
        .store
        .act_on_job(paused.id, JobAction::Resume)
        .await
        .unwrap();
    assert_eq!(
        world.publisher.round().await.unwrap(),
        1,
        "of the job that was paused"
    );

    for claim in &claims {
        assert_eq!(complete(&source, claim, success()).await, ReportReply::Recorded);
    }
    assert_eq!(world.counts().await, (1, 2));
    // The time of both is over; the message whose task is done goes, the other one stands for the lease that is lost now.
    tokio::time::advance(Duration::from_secs(600)).await;
    let later = source.claim(&room(10)).await.unwrap();
    let mut taken: Vec<TaskId> = later.iter().map(|claim| claim.assignment.fence.task).collect();
    taken.sort_unstable();
    let of_paused = world.store.tasks(paused.id).await.unwrap().remove(0);
    assert_eq!(taken, [tasks[1].id, of_paused.id]);
    assert_eq!(world.counts().await, (0, 2));
}

#[tokio::test(start_paused = true)]
async fn reports_that_come_together_are_answered_each_by_itself() {
    let (world, job) = World::new(10).await;
    let source = world.source();
    let claims = source.claim(&room(10)).await.unwrap();
    let fences = fences(&claims);
    let report = |place: usize, verdict: StageVerdict| LeaseReport {
        fence: fences[place].clone(),
        verdict: Some(verdict),
    };
    let mut reports: Vec<LeaseReport> = (0..10).map(|place| report(place, success())).collect();
    let error = StageError::new("detect", ErrorCategory::Input, "broken");
    reports[3] = report(3, StageVerdict::Failed(error));
    reports[5].fence.generation.0 += 1;
    reports[7] = report(7, StageVerdict::Interrupted);
    let asked = world.clock.asked.load(Ordering::Relaxed);
    let replies = join_all(reports.into_iter().map(|report| source.complete(report))).await;
    let transactions = world.clock.asked.load(Ordering::Relaxed) - asked;
    assert!(transactions <= 2, "{transactions} transactions for ten reports");
    for (place, reply) in replies.into_iter().enumerate() {
        let expected = if place == 5 {
            ReportReply::Fenced
        } else {
            ReportReply::Recorded
        };
        assert_eq!(reply.unwrap(), expected, "of report {place}");
    }
    let tasks = world.store.tasks(job.id).await.unwrap();
    for (place, fence) in fences.iter().enumerate() {
        let task = tasks.iter().find(|task| task.id == fence.task).unwrap();
        let expected = match place {
            3 => TaskStatus::Failed,
            5 => TaskStatus::Running,
            7 => TaskStatus::Pending,
            _ => TaskStatus::Done,
        };
        assert_eq!(task.status, expected, "of report {place}");
    }
    // That of the stale report is held for whoever has the lease, that of the interrupted one is back.
    assert_eq!(world.counts().await, (1, 1));
}
