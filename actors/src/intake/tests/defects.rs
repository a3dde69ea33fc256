//! Ways in which the archive's runtime loses volumes, or has them read twice, that there are not here. Rows with a U are its defects by
//! the numbers of the record of it; docs/acceptance.toml has them.

use parkhang_core::policy::job_action::JobAction;
use parkhang_queue::refusing::{Refused, RefusingQueue};

use super::*;

impl World {
    /// The world over a queue of which so many requests fail.
    async fn failing(receives: usize, deletions: usize) -> Self {
        let queue = RefusingQueue::new(Self::new().await.queue);
        queue.refuse(Refused::Receives, receives);
        queue.refuse(Refused::Deletions, deletions);
        Self::over(Arc::new(queue)).await
    }
}

/// A receive that is refused ends nothing: the next one has the messages.
/// Rows: U22.
#[tokio::test(start_paused = true)]
async fn a_refused_receive_is_tried_again() {
    let world = World::failing(2, 0).await;
    world.enqueue("W1", "I1").await;
    for _ in 0..2 {
        let error = world.intake.round().await.unwrap_err().to_string();
        assert!(error.contains("ThrottlingException"), "{error}");
    }
    assert_eq!(world.take_all().await, 1);
    assert_eq!((world.tasks().await.len(), world.counts().await), (1, (0, 0, 0)));
}

/// A message that is not deleted comes again while its volume is worked on, when it is done, and when it has failed for good: each
/// time it is known, and changes nothing.
/// Rows: U29, U30.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_changes_nothing() {
    let world = World::failing(0, 3).await;
    let come_again = async || {
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(world.intake.round().await.unwrap(), 1);
    };
    world.enqueue("W1", "I1").await;
    world.intake.round().await.unwrap();
    let task = world.task().await;
    let running = world.lease(&task).await;
    come_again().await;
    assert_eq!(world.task().await, running);
    let error = StageError::new("detect", ErrorCategory::Input, "no page can be read");
    let failed = Event::Failed {
        error,
        not_before: None,
    };
    let failed = world.commit(&running, failed).await;
    come_again().await;
    assert_eq!(world.task().await, failed, "nobody has asked for it again");
    tokio::time::advance(Duration::from_secs(61)).await;
    // Received too often by now, through no fault of its own.
    assert_eq!(world.intake.round().await.unwrap(), 0);
    assert_eq!(world.counts().await, (0, 0, 1));
    assert_eq!(world.intake.take_dead_letters().await.unwrap(), 1);
    assert_eq!((world.task().await, world.counts().await), (failed, (0, 0, 0)));
}

/// A message that was received by processes that were stopped, or died, before they could take it: one of a shutdown comes back
/// after a minute, and three of them are no try of the volume.
/// Rows: U21, U35.
#[tokio::test(start_paused = true)]
async fn receives_are_no_tries_and_those_of_a_shutdown_come_back() {
    let world = World::new().await;
    world.enqueue("W1", "I1").await;
    for _ in 0..3 {
        // Stopped between the receive and the commit.
        let held = world
            .queue
            .receive(Receive::one(Duration::from_secs(60)))
            .await
            .unwrap();
        assert_eq!(held.len(), 1);
        assert_eq!(world.intake.round().await.unwrap(), 0);
        tokio::time::advance(Duration::from_secs(61)).await;
    }
    assert_eq!(world.intake.round().await.unwrap(), 0);
    assert_eq!(world.counts().await, (0, 0, 1), "the server has given it up");
    assert_eq!(world.intake.take_dead_letters().await.unwrap(), 1);
    assert_eq!(world.counts().await, (0, 0, 0));
    let task = world.task().await;
    assert_eq!((task.attempts, task.status), (0, TaskStatus::Pending));
}

/// A job that is closed between the look at it and the commit: what was received is given back at once.
/// Rows: U21.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_is_given_back_at_once() {
    let world = World::new().await;
    world.enqueue("W1", "I1").await;
    let intake = Intake::new(
        &world.store,
        world.job.key.clone(),
        world.queue.clone(),
        Duration::from_secs(20),
    );
    world.queue.purge().await.unwrap();
    let waiting = tokio::spawn(async move { intake.round().await });
    tokio::task::yield_now().await;
    let close = world.store.act_on_job(world.job.id, JobAction::Close);
    close.await.unwrap();
    world.enqueue("W1", "I1").await;
    let refused = waiting.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("takes no volumes"), "{refused}");
    assert_eq!((world.tasks().await.len(), world.counts().await), (0, (1, 0, 0)));
}

/// A volume whose try fails within the first minute, whose message comes back before five are over: there it is deleted and the volume
/// forgotten, here the database tries it again.
/// Rows: U26.
#[tokio::test(start_paused = true)]
async fn a_volume_that_failed_early_is_tried_again_whatever_its_message_does() {
    let world = World::failing(0, 1).await;
    world.enqueue("W1", "I1").await;
    world.intake.round().await.unwrap();
    let task = world.task().await;
    let failed = world.fail(&task, ErrorCategory::Network).await;
    tokio::time::advance(Duration::from_secs(240)).await;
    assert_eq!(world.take_all().await, 1, "it comes again after four minutes");
    assert_eq!(
        (world.task().await, world.counts().await),
        (failed.clone(), (0, 0, 0))
    );
    let scope = world.job.config.retry_scope;
    let next = runnable_stage(&failed, &world.job.pipeline, scope);
    assert_eq!(next, Some(&stage("detect")));
}

/// A duplicate, however late, takes nothing from whoever works; and a first owner who comes late overwrites nothing.
/// Rows: U27, U28.
#[tokio::test(start_paused = true)]
async fn duplicates_take_nothing_away_and_late_owners_write_nothing() {
    let world = World::new().await;
    world.enqueue("W1", "I1").await;
    world.take_all().await;
    let task = world.task().await;
    let first = world.lease(&task).await;
    for age in [60, 310, 3600] {
        tokio::time::advance(Duration::from_secs(age)).await;
        world.enqueue("W1", "I1").await;
        world.take_all().await;
        assert_eq!(world.task().await, first);
    }
    // Its lease ends, and another worker finishes the volume.
    let released = world.commit(&first, Event::Interrupted).await;
    let done = world.finish(&released, "v1").await;
    let error = StageError::new(
        "detect",
        ErrorCategory::Network,
        "late failure of the first owner",
    );
    let late = Event::Failed {
        error,
        not_before: None,
    };
    assert_eq!(world.commit_with(&first, late, None).await, None);
    assert_eq!(world.task().await, done);
}

/// Volumes of the benchmark that share the ids of one of the archive are others, whatever is done of it.
/// Rows: U17.
#[tokio::test(start_paused = true)]
async fn a_volume_of_the_benchmark_is_none_of_the_archives() {
    let world = World::new().await;
    world.enqueue("W1", "I1").await;
    world.take_all().await;
    let task = world.task().await;
    world.finish(&task, "v1").await;
    for version in ["1", "2"] {
        let body = json!({ "w_id": "W1", "i_id": "I1", "source": "ocr_benchmark", "i_version": version });
        world.send(&body.to_string()).await;
    }
    world.take_all().await;
    let names: Vec<String> = world
        .tasks()
        .await
        .iter()
        .map(|task| task.volume.to_string())
        .collect();
    assert_eq!(names, ["W1-I1", "ocr_benchmark:W1-I1-1", "ocr_benchmark:W1-I1-2"]);
}
