use std::time::Duration;

use super::*;
use crate::limits::{FIFO_SCANNED, MAX_IN_FLIGHT, MAX_IN_FLIGHT_FIFO, MIN_RETENTION, PURGE_INTERVAL};

const HOLD: Duration = Duration::from_secs(3600);

/// State of a queue in which so many messages are in flight, and one waits.
fn crowded(name: &str, in_flight: usize, now: Instant) -> State {
    let mut state = State::new(QueueSpec::new(name));
    for place in 0..=in_flight {
        let message = NewMessage::new("x");
        let message = match state.spec.kind() {
            QueueKind::Standard => message,
            QueueKind::Fifo => message.in_group(place.to_string(), place.to_string()),
        };
        state.send(&message, place.to_string(), now);
    }
    // More at once than a request takes, as each looks from the head of the queue on.
    assert_eq!(state.receive(in_flight, HOLD, now).handed.len(), in_flight);
    state
}

#[test]
fn no_more_is_in_flight_than_a_queue_allows() {
    let now = Instant::now();
    for (name, limit) in [("q", MAX_IN_FLIGHT), ("q.fifo", MAX_IN_FLIGHT_FIFO)] {
        let mut state = crowded(name, limit, now);
        let full = state.receive(10, HOLD, now);
        assert!(full.is_over_limit && full.handed.is_empty(), "{name}");
        assert_eq!(state.delete(1, now), ReceiptStatus::Honoured);
        assert_eq!(state.receive(10, HOLD, now).handed.len(), 1, "{name}");
    }
}

/// A group whose backlog is as long as SQS looks hides the groups behind it.
#[test]
fn a_free_group_is_found_among_the_first_messages_only() {
    let now = Instant::now();
    let mut state = State::new(QueueSpec::new("q.fifo"));
    let mut send = |group: &str, number: usize| {
        let message = NewMessage::new(group).in_group(group, number.to_string());
        state.send(&message, number.to_string(), now);
    };
    for number in 0..FIFO_SCANNED {
        send("long", number);
    }
    send("behind", FIFO_SCANNED);
    let first = state.receive(1, HOLD, now).handed.remove(0);
    assert!(state.receive(10, HOLD, now).handed.is_empty());
    assert_eq!(state.delete(first.receipt, now), ReceiptStatus::Honoured);
    let held = state.receive(1, HOLD, now).handed.remove(0);
    assert_eq!(held.stored.message.body, "long");
    assert_eq!(
        state.receive(10, HOLD, now).handed[0].stored.message.body,
        "behind"
    );
}

#[tokio::test(start_paused = true)]
async fn messages_that_nobody_wants_are_gone_after_the_retention() {
    let mut spec = QueueSpec::new("q");
    spec.retention = MIN_RETENTION;
    let queue = MemoryServer::new().create(&spec).await.unwrap();
    queue.send(NewMessage::new("x")).await.unwrap();
    tokio::time::sleep(MIN_RETENTION - Duration::from_secs(1)).await;
    assert_eq!(queue.counts().await.unwrap().visible, 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(queue.counts().await.unwrap(), Counts::default());
    assert!(queue.receive(Receive::one(HOLD)).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_purge_a_minute_and_no_more() {
    let queue = MemoryServer::new().create(&QueueSpec::new("q")).await.unwrap();
    queue.purge().await.unwrap();
    assert!(matches!(
        queue.purge().await,
        Err(QueueError::PurgedLately { .. })
    ));
    tokio::time::sleep(PURGE_INTERVAL).await;
    queue.purge().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_by_a_release_a_deletion_and_the_end_of_a_hold() {
    let queue = MemoryServer::new()
        .create(&QueueSpec::new("q.fifo"))
        .await
        .unwrap();
    for body in ["a", "b"] {
        queue
            .send(NewMessage::new(body).in_group("g", body))
            .await
            .unwrap();
    }
    let take = || queue.receive(Receive::one(Duration::from_secs(5)));
    let wait = || queue.receive(Receive::one(HOLD).waiting(Duration::from_secs(20)));
    let first = take().await.unwrap().remove(0);
    let began = Instant::now();
    let (found, _) = tokio::join!(wait(), queue.delete(&first.receipt));
    assert_eq!(found.as_ref().unwrap()[0].body, "b");
    let held = found.unwrap().remove(0);
    let (found, _) = tokio::join!(wait(), queue.release(&held.receipt));
    assert_eq!(began.elapsed(), Duration::ZERO);
    let again = found.unwrap().remove(0);
    queue
        .extend(&again.receipt, Duration::from_secs(7))
        .await
        .unwrap();
    assert_eq!(wait().await.unwrap()[0].receives, 3);
    assert_eq!(began.elapsed(), Duration::from_secs(7));
}
