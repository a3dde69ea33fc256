//! What queues may do to a source, and what it makes of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

mod batches;
mod watch;

use super::*;
use crate::source::{Claim, Clock, SourceError, WorkSource};
use parkhang_core::domain::testing::{at, new_job, pool, stage};
use parkhang_core::domain::{
    ErrorCategory, Job, LeaseReport, LeaseStatus, ReportReply, StageReport, StageVerdict, Task, TaskId,
    TaskStatus,
};
use parkhang_core::policy::claim::Offer;
use parkhang_core::policy::job_action::JobAction;
use parkhang_queue::refusing::{Refused, RefusingQueue};
use parkhang_queue::{MemoryServer, NewMessage, QueueServer, QueueSpec, REASON, Receive, TaskQueue};
use parkhang_state::{Change, Expected, MemoryStore, StateStore};

/// A clock that goes with the test's, which stands still unless somebody waits.
#[derive(Debug)]
struct PausedClock {
    began: tokio::time::Instant,
    ahead: Mutex<TimeDelta>,
    /// Number of times it was asked, once for each transaction of reports.
    asked: AtomicUsize,
}

#[async_trait]
impl Clock for PausedClock {
    async fn now(&self) -> Result<DateTime<Utc>, SourceError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let elapsed = TimeDelta::from_std(self.began.elapsed()).unwrap();
        Ok(at(0) + elapsed + *self.ahead.lock().unwrap())
    }
}

struct World {
    store: Arc<MemoryStore>,
    clock: Arc<PausedClock>,
    queues: StageQueues,
    publisher: Publisher,
}

const LEASE: TimeDelta = TimeDelta::seconds(60);

impl World {
    /// Queues of two stages and a job over so many volumes.
    async fn new(volumes: usize) -> (Self, Job) {
        Self::with(QueueSpec::new, ".fifo", volumes).await
    }

    async fn with(spec: impl Fn(String) -> QueueSpec, kind: &str, volumes: usize) -> (Self, Job) {
        let server = MemoryServer::new();
        let queues = StageQueues::default();
        for name in ["detect", "read"] {
            let queue = server.create(&spec(format!("{name}{kind}"))).await.unwrap();
            queues.found(&stage(name), queue);
        }
        let store = Arc::new(MemoryStore::new());
        let clock = Arc::new(PausedClock {
            began: tokio::time::Instant::now(),
            ahead: Mutex::default(),
            asked: AtomicUsize::new(0),
        });
        let publisher = Publisher::new(
            store.clone(),
            clock.clone(),
            queues.clone(),
            TimeDelta::minutes(10),
        );
        let job = store
            .create_job(&new_job(&["detect", "read"], volumes), at(0))
            .await
            .unwrap();
        let world = Self {
            store,
            clock,
            queues,
            publisher,
        };
        world.publisher.round().await.unwrap();
        (world, job)
    }

    fn source(&self) -> QueueClaims {
        self.source_that_waits(Duration::ZERO)
    }

    fn source_that_waits(&self, wait: Duration) -> QueueClaims {
        let options = QueueOptions {
            wait,
            ..QueueOptions::default()
        };
        QueueClaims::new(
            self.store.clone(),
            self.clock.clone(),
            LEASE,
            3,
            self.queues.clone(),
            options,
        )
    }

    fn detect(&self) -> Arc<dyn TaskQueue> {
        self.queues.get(&stage("detect")).unwrap()
    }

    fn letters(&self) -> DeadLetters {
        DeadLetters::new(self.store.clone(), self.clock.clone(), self.queues.clone())
    }

    async fn task(&self, job: &Job) -> Task {
        self.store.tasks(job.id).await.unwrap().remove(0)
    }

    async fn task_of(&self, id: TaskId) -> Task {
        self.store.task(id).await.unwrap().unwrap()
    }

    /// Messages that wait and that are held, of the first stage.
    async fn counts(&self) -> (u64, u64) {
        let counts = self.detect().counts().await.unwrap();
        (counts.visible, counts.in_flight)
    }
}

fn room(free: usize) -> Vec<Offer> {
    vec![Offer {
        pool: pool("w", "detect", 4),
        free,
        in_hand: 0,
    }]
}

async fn claim(source: &QueueClaims) -> Vec<Claim> {
    source.claim(&room(4)).await.unwrap()
}

async fn complete(source: &QueueClaims, claim: &Claim, verdict: StageVerdict) -> ReportReply {
    let fence = claim.assignment.fence.clone();
    let verdict = Some(verdict);
    source.complete(LeaseReport { fence, verdict }).await.unwrap()
}

fn success() -> StageVerdict {
    StageVerdict::Succeeded(StageReport::default())
}

/// Rows: 142.
#[tokio::test(start_paused = true)]
async fn a_message_is_deleted_once_its_end_is_recorded() {
    let (world, job) = World::new(1).await;
    let source = world.source();
    let claims = claim(&source).await;
    assert_eq!(world.counts().await, (0, 1));
    assert_eq!(
        complete(&source, &claims[0], success()).await,
        ReportReply::Recorded
    );
    assert_eq!(world.counts().await, (0, 0));
    assert_eq!(world.task(&job).await.status, TaskStatus::Done);
    assert_eq!(
        world.publisher.round().await.unwrap(),
        1,
        "the next stage is published"
    );
}

/// Rows: 144, D8.
#[tokio::test(start_paused = true)]
async fn what_is_no_message_is_put_aside_at_once_with_the_reason() {
    let (world, _) = World::new(1).await;
    let junk = NewMessage::new(r#"{"task_id": "seven"}"#).in_group("junk", "junk-1");
    world.detect().send(junk).await.unwrap();
    assert_eq!(
        claim(&world.source()).await.len(),
        1,
        "it takes no neighbour down"
    );
    let letters = world.detect().dead_letters().await.unwrap();
    let letter = letters
        .receive(Receive::one(Duration::from_secs(1)))
        .await
        .unwrap()
        .remove(0);
    assert!(
        letter.attributes[REASON]
            .as_text()
            .unwrap()
            .contains("invalid type"),
        "{letter:?}"
    );
    assert_eq!(letter.receives, 1);
    // It has no task, so nothing is set aside; people read it.
    assert_eq!(world.letters().round().await.unwrap(), 0);
    assert_eq!(
        letters.counts().await.unwrap().visible + letters.counts().await.unwrap().in_flight,
        1
    );
}

/// Rows: 145.
#[tokio::test(start_paused = true)]
async fn a_message_that_comes_twice_is_worked_on_once() {
    let (world, _) = World::with(QueueSpec::new, "", 1).await;
    let first = world
        .detect()
        .receive(Receive::one(Duration::from_secs(1)))
        .await
        .unwrap()
        .remove(0);
    world
        .detect()
        .send(NewMessage::new(first.body.clone()))
        .await
        .unwrap();
    let (one, other) = (world.source(), world.source());
    assert_eq!(claim(&one).await.len(), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(claim(&other).await, [], "the lease is in force");
    complete(&one, &claim_of(&world).await, success()).await;
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(claim(&other).await, []);
    assert_eq!(
        world.counts().await,
        (0, 0),
        "a message whose task has moved on is deleted"
    );
}

/// The claim of the lease in force, as its worker knows it.
async fn claim_of(world: &World) -> Claim {
    let job = world.store.jobs().await.unwrap().remove(0);
    let task = world.task(&job).await;
    Claim {
        worker: task.lease.as_ref().unwrap().worker.clone(),
        assignment: parkhang_core::domain::Assignment::of(task, &job).unwrap(),
        lasts: LEASE,
        alone: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_released_goes_to_another_without_a_publisher() {
    let (world, _) = World::new(1).await;
    let (one, other) = (world.source(), world.source());
    let claims = claim(&one).await;
    one.release(claims[0].assignment.fence.clone()).await.unwrap();
    let again = claim(&other).await;
    assert_eq!(again.len(), 1, "its message is visible at once");
    assert_ne!(again[0].assignment.fence, claims[0].assignment.fence);
}

/// Rows: 139, C15, U33.
#[tokio::test(start_paused = true)]
async fn a_message_is_extended_while_its_lease_is_renewed_and_not_for_ever() {
    let (world, _) = World::new(1).await;
    let source = world.source();
    let fence = claim(&source).await.remove(0).assignment.fence;
    let hours = |seconds: u64| seconds / 3600;
    for second in (0..5 * 3600).step_by(50) {
        source.renew(std::slice::from_ref(&fence)).await.unwrap();
        let (visible, in_flight) = world.counts().await;
        if hours(second) < 4 {
            assert_eq!((visible, in_flight), (0, 1), "after {second} s");
        }
        tokio::time::advance(Duration::from_secs(50)).await;
    }
    assert_eq!(world.counts().await, (1, 0), "extensions end");
    assert_eq!(
        claim(&world.source()).await,
        [],
        "the lease does not: whoever receives the message waits"
    );
    assert_eq!(world.counts().await, (0, 1));
}

/// Rows: 52.
#[tokio::test(start_paused = true)]
async fn a_queue_that_is_missing_is_no_failure_of_a_claim_and_holds_up_no_other() {
    let (world, _) = World::new(1).await;
    let gone = MemoryServer::new().open("memory:read.fifo").await.unwrap();
    world.queues.found(&stage("read"), gone);
    let source = world.source();
    let offer = |worker: &str, stage: &str| Offer {
        pool: pool(worker, stage, 4),
        free: 4,
        in_hand: 0,
    };
    let offers = [offer("w", "detect"), offer("v", "read")];
    let mut claims = Vec::new();
    // One queue may answer before the other.
    while claims.is_empty() || world.queues.missing().is_empty() {
        claims.extend(source.claim(&offers).await.unwrap());
    }
    assert_eq!(claims.len(), 1);
    assert_eq!(world.queues.missing(), [stage("read")]);
    assert_eq!(world.publisher.look_for_lost().await.unwrap(), 0);
    assert_eq!(
        complete(&source, &claims[0], success()).await,
        ReportReply::Recorded
    );
    source.leave().await.unwrap();
}

/// Three refusals in a row, and more, are no reason to give up while the message is held; and one that is lost in the end ends
/// neither the lease nor the work under it.
/// Rows: U34.
#[tokio::test(start_paused = true)]
async fn an_extension_that_is_refused_is_tried_again() {
    let (world, job) = World::new(1).await;
    let queue = Arc::new(RefusingQueue::new(world.detect()));
    world.queues.found(&stage("detect"), queue.clone());
    let source = world.source();
    let fence = claim(&source).await.remove(0).assignment.fence;
    let renew = async |times: usize| {
        for _ in 0..times {
            tokio::time::advance(Duration::from_secs(50)).await;
            let statuses = source.renew(std::slice::from_ref(&fence)).await.unwrap();
            assert_eq!(statuses, [LeaseStatus::Held]);
        }
    };
    queue.refuse(Refused::Extensions, 7);
    renew(15).await;
    assert_eq!(world.counts().await, (0, 1), "held for longer than without");
    queue.refuse(Refused::Extensions, usize::MAX);
    renew(15).await;
    assert_eq!(world.counts().await, (1, 0));
    assert_eq!(claim(&world.source()).await, []);
    assert_eq!(world.task(&job).await.fence(), Some(fence.clone()));
}

#[tokio::test(start_paused = true)]
async fn the_work_of_a_node_that_died_goes_on_by_its_message_alone() {
    let (world, job) = World::new(1).await;
    let fence = claim(&world.source()).await.remove(0).assignment.fence;
    // Neither an orchestrator nor another claim ends the lease before the message is back.
    tokio::time::advance(Duration::from_secs(601)).await;
    let again = claim(&world.source()).await.remove(0).assignment.fence;
    assert_ne!(again, fence);
    assert_eq!(world.task(&job).await.interruptions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_paused_job_leaves_its_queue_and_comes_back_with_its_resumption() {
    let (world, job) = World::new(2).await;
    world.store.act_on_job(job.id, JobAction::Pause).await.unwrap();
    assert_eq!(claim(&world.source()).await, []);
    assert_eq!(world.counts().await, (0, 0));
    assert_eq!(world.publisher.round().await.unwrap(), 0);
    world.store.act_on_job(job.id, JobAction::Resume).await.unwrap();
    assert_eq!(
        world.publisher.round().await.unwrap(),
        2,
        "under ids of their own"
    );
    assert_eq!(world.counts().await, (2, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_queue_lost_is_published_again_after_a_while() {
    let (world, _) = World::new(3).await;
    world.detect().purge().await.unwrap();
    let mut repeated = Vec::new();
    for _ in 0..14 {
        tokio::time::advance(Duration::from_secs(61)).await;
        repeated.push(world.publisher.look_for_lost().await.unwrap());
        world.publisher.round().await.unwrap();
    }
    assert_eq!(repeated.iter().sum::<u64>(), 3, "{repeated:?}");
    assert_eq!(world.counts().await, (3, 0));
}

/// Rows: 141.
#[tokio::test(start_paused = true)]
async fn a_message_that_was_received_too_often_sets_its_task_aside() {
    let (world, job) = World::new(2).await;
    // Whatever takes messages and dies before it can say anything.
    for _ in 0..6 {
        world
            .detect()
            .receive(Receive::one(Duration::from_secs(1)).up_to(1))
            .await
            .unwrap();
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    assert_eq!(world.letters().round().await.unwrap(), 1);
    let task = world.task(&job).await;
    let error = task.last_error.clone().unwrap();
    assert_eq!(
        (task.status, error.category),
        (TaskStatus::Failed, ErrorCategory::Poison)
    );
    assert!(error.message.contains("received too often"), "{}", error.message);
    assert_eq!(world.letters().round().await.unwrap(), 0);
    let letters = world
        .detect()
        .dead_letters()
        .await
        .unwrap()
        .counts()
        .await
        .unwrap();
    assert_eq!(
        (letters.visible, letters.in_flight),
        (0, 0),
        "what is dead is in one place"
    );
}

#[tokio::test(start_paused = true)]
async fn a_letter_whose_task_has_moved_on_is_deleted() {
    let (world, job) = World::new(1).await;
    for _ in 0..6 {
        world
            .detect()
            .receive(Receive::one(Duration::from_secs(1)))
            .await
            .unwrap();
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    let task = world.task(&job).await;
    let leased = parkhang_core::policy::transition::Event::Leased {
        stage: stage("detect"),
        worker: parkhang_core::domain::testing::worker("w"),
        until: at(600),
    };
    let change = Change::new(Expected::of(&task), leased);
    world.store.commit(&[change], at(13)).await.unwrap();
    assert_eq!(world.letters().round().await.unwrap(), 0);
    let letters = world.detect().dead_letters().await.unwrap();
    let counts = letters.counts().await.unwrap();
    assert_eq!(
        counts.visible + counts.in_flight,
        1,
        "its lease is in force, and may yet end either way"
    );
}
