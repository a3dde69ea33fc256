//! What the archive's messages may do to an intake, and what becomes of them.

mod defects;
mod messages;
mod pages;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use parkhang_core::domain::testing::{at, new_job, stage, worker};
use parkhang_core::domain::{ErrorCategory, Job, NewJob, StageError, Task, TaskStatus};
use parkhang_core::policy::transition::{Event, runnable_stage};
use parkhang_queue::{
    Attribute, DeadLetters, Delivery, MemoryServer, NewMessage, QueueServer, QueueSpec, REASON, Receipt,
    Receive, TaskQueue,
};
use parkhang_state::{Change, Expected, Inbox, MemoryStore, StateStore};
use serde_json::{Value, json};

use super::*;

/// Entries of a file of `tests/golden/queue`, whose README says where they come from.
fn golden(file: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/queue");
    let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The archive's queue of a job and a standing job of ours beside it.
struct World {
    store: Arc<MemoryStore>,
    queue: Arc<dyn TaskQueue>,
    intake: Intake,
    job: Job,
}

impl World {
    async fn new() -> Self {
        let server = MemoryServer::new();
        let spec = QueueSpec {
            visibility: Duration::from_secs(450),
            retention: Duration::from_secs(864_000),
            dead_letters: Some(DeadLetters {
                queue: "bec_press_dlq".to_owned(),
                max_receives: 3,
            }),
            ..QueueSpec::new("bec_press_tasks")
        };
        let queue = server.create(&spec).await.unwrap();
        Self::over(queue).await
    }

    async fn over(queue: Arc<dyn TaskQueue>) -> Self {
        let store = Arc::new(MemoryStore::new());
        let new = NewJob {
            key: Some("press".parse().unwrap()),
            standing: true,
            ..new_job(&["detect", "read"], 0)
        };
        let job = store.create_job(&new, at(0)).await.unwrap();
        let intake = Intake::new(&store, job.key.clone(), queue.clone(), Duration::ZERO);
        Self {
            store,
            queue,
            intake,
            job,
        }
    }

    /// Sends what `bec queue enqueue` sends for a volume.
    async fn enqueue(&self, w_id: &str, i_id: &str) {
        let body = format!("{{\"w_id\": \"{w_id}\", \"i_id\": \"{i_id}\"}}");
        let message = NewMessage::new(body)
            .with_attribute("w_id", Attribute::Text(w_id.to_owned()))
            .with_attribute("i_id", Attribute::Text(i_id.to_owned()));
        self.queue.send(message).await.unwrap();
    }

    async fn send(&self, body: &str) {
        self.queue.send(NewMessage::new(body)).await.unwrap();
    }

    /// Takes all that can be received.
    async fn take_all(&self) -> usize {
        let mut taken = 0;
        loop {
            match self.intake.round().await.unwrap() {
                0 => return taken,
                some => taken += some,
            }
        }
    }

    async fn tasks(&self) -> Vec<Task> {
        self.store.tasks(self.job.id).await.unwrap()
    }

    async fn task(&self) -> Task {
        let mut tasks = self.tasks().await;
        assert_eq!(tasks.len(), 1);
        tasks.remove(0)
    }

    async fn commit(&self, task: &Task, event: Event) -> Task {
        self.commit_with(task, event, None).await.unwrap()
    }

    async fn commit_with(&self, task: &Task, event: Event, metrics: Option<Value>) -> Option<Task> {
        let change = Change {
            metrics,
            ..Change::new(Expected::of(task), event)
        };
        let outcome = self.store.commit(&[change], at(1)).await.unwrap().remove(0);
        outcome.applied()
    }

    /// Leases the next stage of the task, for as long as it takes.
    async fn lease(&self, task: &Task) -> Task {
        let scope = self.job.config.retry_scope;
        let leased = Event::Leased {
            stage: runnable_stage(task, &self.job.pipeline, scope).unwrap().clone(),
            worker: worker("w"),
            until: at(1_000_000),
        };
        self.commit(task, leased).await
    }

    /// Has both stages of the task done, of a version of its volume.
    async fn finish(&self, task: &Task, version: &str) -> Task {
        let running = self.lease(task).await;
        let read = Some(json!({ "version": version }));
        let detected = self.commit_with(&running, Event::Succeeded, read).await.unwrap();
        let running = self.lease(&detected).await;
        self.commit(&running, Event::Succeeded).await
    }

    async fn fail(&self, task: &Task, category: ErrorCategory) -> Task {
        let running = self.lease(task).await;
        let error = StageError::new("detect", category, "went wrong");
        let failed = Event::Failed {
            error,
            not_before: None,
        };
        self.commit(&running, failed).await
    }

    /// Messages that wait, that are held, and that are dead.
    async fn counts(&self) -> (u64, u64, u64) {
        let counts = self.queue.counts().await.unwrap();
        let dead = self.queue.dead_letters().await.unwrap().counts().await.unwrap();
        (counts.visible, counts.in_flight, dead.visible + dead.in_flight)
    }

    /// Reasons of the dead letters, sorted.
    async fn reasons(&self) -> Vec<String> {
        let letters = self.queue.dead_letters().await.unwrap();
        let mut reasons = Vec::new();
        loop {
            let request = Receive::one(Duration::from_secs(600)).up_to(10);
            let received = letters.receive(request).await.unwrap();
            if received.is_empty() {
                reasons.sort();
                return reasons;
            }
            reasons.extend(received.iter().map(reason));
        }
    }
}

fn reason(letter: &Delivery) -> String {
    let reason = letter.attributes.get(REASON).and_then(Attribute::as_text);
    reason.unwrap_or_default().to_owned()
}

/// Messages that wait for the archive's workers are worked on by ours, and a volume that is enqueued twice is done once.
#[tokio::test(start_paused = true)]
async fn what_the_archive_enqueues_becomes_tasks_of_the_standing_job() {
    let world = World::new().await;
    for _ in 0..2 {
        for n in 0..12 {
            world.enqueue("W22084", &format!("I{n}")).await;
        }
        world.take_all().await;
        assert_eq!(world.counts().await, (0, 0, 0));
        assert_eq!(world.tasks().await.len(), 12);
    }
    for task in world.tasks().await {
        world.finish(&task, "v1").await;
    }
    world.enqueue("W22084", "I0").await;
    assert_eq!(world.take_all().await, 1);
    let tasks = world.tasks().await;
    assert_eq!(tasks.len(), 12);
    assert!(tasks.iter().all(|task| task.status == TaskStatus::Done));
    assert_eq!(world.store.finish_jobs(at(9)).await.unwrap(), [], "it stands");
}

/// Rows: U15, U22.
#[tokio::test(start_paused = true)]
async fn a_malformed_message_goes_to_the_dead_letters_and_holds_up_no_neighbour() {
    let world = World::new().await;
    world.enqueue("W1", "I1").await;
    for body in [
        "no JSON",
        "[\"W1\", \"I1\"]",
        "{\"w_id\": \"W1\"}",
        "{\"w_id\": \"W1\", \"i_id\": \"I1\", \"source\": \"elsewhere\"}",
        "{\"w_id\": \"W1\", \"i_id\": \"I1\", \"source\": \"ocr_benchmark\"}",
        "{\"w_id\": \"W 1\", \"i_id\": \"I1\"}",
        "{\"w_id\": \"W1\", \"i_id\": {}}",
    ] {
        world.send(body).await;
    }
    world.enqueue("W1", "I2").await;
    world.take_all().await;
    assert_eq!(world.tasks().await.len(), 2);
    assert_eq!(world.counts().await, (0, 0, 7));
    let reasons = world.reasons().await;
    for (reason, words) in reasons.iter().zip([
        "i_id of the body is no text",
        "the message has no i_id, neither",
        "the message has no w_id, neither",
        "the message has no w_id, neither",
        "the message names no volume: \"W 1\" is not a valid W id",
        "the message names no volume: a volume of ocr_benchmark needs a version",
        "the message names no volume: there is no source elsewhere; there are bdrc and ocr_benchmark",
    ]) {
        assert!(reason.starts_with(words), "{reason}");
    }
    tokio::time::advance(Duration::from_secs(1000)).await;
    assert_eq!(world.intake.take_dead_letters().await.unwrap(), 0);
    assert_eq!(
        world.reasons().await.len(),
        7,
        "what has a reason is for people to read"
    );
}

/// A queue that was made without a dead-letter queue, or to which none was attached.
#[tokio::test(start_paused = true)]
async fn without_a_dead_letter_queue_malformed_messages_are_left_alone() {
    let spec = QueueSpec {
        dead_letters: None,
        ..QueueSpec::new("bare")
    };
    let world = World::over(MemoryServer::new().create(&spec).await.unwrap()).await;
    world.send("no JSON").await;
    world.enqueue("W1", "I1").await;
    world.take_all().await;
    assert_eq!(world.tasks().await.len(), 1);
    assert_eq!(world.intake.take_dead_letters().await.unwrap(), 0);
    tokio::time::advance(Duration::from_secs(3500)).await;
    assert_eq!(world.take_all().await, 0, "it does not come round and round");
    let counts = world.queue.counts().await.unwrap();
    assert_eq!((counts.visible, counts.in_flight), (0, 1), "and is not lost");
}

#[tokio::test(start_paused = true)]
async fn messages_wait_for_a_job_that_stands() {
    let world = World::new().await;
    world.enqueue("W1", "I1").await;
    let intake = |job: &str| {
        let job = job.parse().unwrap();
        Intake::new(&world.store, job, world.queue.clone(), Duration::ZERO)
    };
    let refused = intake("other").round().await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no job other");
    let plain = NewJob {
        key: Some("plain".parse().unwrap()),
        ..new_job(&["detect"], 1)
    };
    world.store.create_job(&plain, at(0)).await.unwrap();
    let refused = intake("plain").round().await.unwrap_err().to_string();
    assert!(
        refused.contains("is not a standing job, or was closed"),
        "{refused}"
    );
    assert_eq!(world.counts().await, (1, 0, 0), "nothing was received");
    assert_eq!(world.take_all().await, 1);
}
