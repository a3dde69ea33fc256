//! Promises about groups, and about consumers side by side.

use std::collections::HashMap;
use std::sync::Mutex;

use super::cases::message;
use super::*;
use crate::limits::DEDUPLICATION_WINDOW;
use crate::{NewMessage, QueueError, ReceiptStatus};

async fn send(queue: &dyn TaskQueue, messages: &[(&str, &str)]) {
    let messages: Vec<NewMessage> = messages
        .iter()
        .map(|(group, body)| NewMessage::new(*body).in_group(*group, Uuid::new_v4()))
        .collect();
    for sent in queue.send_all(&messages).await {
        sent.unwrap();
    }
}

pub(super) async fn holds_a_group(site: &Site) {
    let queue = site.queue("groups", QueueKind::Fifo).await;
    send(
        &*queue,
        &[("A", "a1"), ("A", "a2"), ("B", "b1"), ("A", "a3"), ("B", "b2")],
    )
    .await;
    let one = || queue.receive(Receive::one(HOLD));
    let a1 = single(one().await.unwrap());
    assert_eq!(a1.body, "a1");
    let b1 = single(one().await.unwrap());
    assert_eq!(b1.body, "b1");
    assert!(take(&*queue).await.is_empty(), "both groups are held");
    assert_eq!(queue.delete(&a1.receipt).await.unwrap(), ReceiptStatus::Honoured);
    // One receive may have several of a group, in order.
    assert_eq!(bodies(&take(&*queue).await), ["a2", "a3"]);
    assert_eq!(queue.release(&b1.receipt).await.unwrap(), ReceiptStatus::Honoured);
    assert_eq!(
        bodies(&take(&*queue).await),
        ["b1", "b2"],
        "what was given back comes first"
    );
}

pub(super) async fn keeps_the_order_through_expiry(site: &Site) {
    let queue = site.queue("expires", QueueKind::Fifo).await;
    send(&*queue, &[("A", "a1"), ("A", "a2"), ("A", "a3")]).await;
    let visibility = SECOND + site.slack;
    for _ in 0..2 {
        let lost = single(queue.receive(Receive::one(visibility)).await.unwrap());
        assert_eq!(lost.body, "a1");
        pass(visibility + SECOND).await;
    }
    for body in ["a1", "a2", "a3"] {
        let delivery = single(queue.receive(Receive::one(HOLD)).await.unwrap());
        assert_eq!(delivery.body, body);
        queue.delete(&delivery.receipt).await.unwrap();
    }
}

pub(super) async fn drops_what_is_sent_again(site: &Site) {
    let queue = site.queue("dedup", QueueKind::Fifo).await;
    let sent = |body: &'static str, group: &'static str| {
        let message = NewMessage::new(body).in_group(group, "42-ocr-0");
        queue.send(message)
    };
    let first = sent("one", "A").await.unwrap();
    assert_eq!(sent("again", "A").await.unwrap().id, first.id);
    let delivery = single(take(&*queue).await);
    assert_eq!(delivery.body, "one");
    queue.delete(&delivery.receipt).await.unwrap();
    // The window does not end with the message, and is that of the queue and not of the group.
    sent("third", "A").await.unwrap();
    sent("fourth", "B").await.unwrap();
    assert!(take(&*queue).await.is_empty());
    // Another generation of the task is another id.
    let next = NewMessage::new("next").in_group("A", "42-ocr-0-g1");
    queue.send(next).await.unwrap();
    assert_eq!(single(take(&*queue).await).body, "next");
    // Five minutes are waited for on paused time only.
    if site.slack.is_zero() {
        pass(DEDUPLICATION_WINDOW).await;
        sent("after the window", "C").await.unwrap();
        assert_eq!(bodies(&take(&*queue).await), ["next", "after the window"]);
    }
}

pub(super) async fn holds_back_behind_a_failure(site: &Site) {
    let queue = site.queue("heldback", QueueKind::Fifo).await;
    let message = |group: &str, body: &str| NewMessage::new(body).in_group(group, Uuid::new_v4());
    let messages = [
        message("A", "a1"),
        message("B", "b1"),
        message("A", ""),
        message("A", "a3"),
        message("B", "b2"),
        message("A", "a4"),
    ];
    let sent = queue.send_all(&messages).await;
    let held = |place: usize| matches!(&sent[place], Err(QueueError::HeldBack { group, .. }) if group == "A");
    assert!(held(3) && held(5), "{sent:?}");
    assert!(matches!(sent[2], Err(QueueError::Limit(_))));
    assert!([0, 1, 4].iter().all(|place| sent[*place].is_ok()), "{sent:?}");
    let mut received = take(&*queue).await;
    received.sort_by(|a, b| a.body.cmp(&b.body));
    assert_eq!(bodies(&received), ["a1", "b1", "b2"]);
}

/// Many messages for four consumers, each of them worked on once and those of a group in order.
pub(super) async fn shares_among_consumers(site: &Site, kind: QueueKind) {
    const GROUPS: usize = 17;
    const MESSAGES: usize = 170;
    let queue = site.queue("consumers", kind).await;
    let messages: Vec<NewMessage> = (0..MESSAGES)
        .map(|place| {
            let group = place % GROUPS;
            let body = format!("{group}:{place}");
            match kind {
                QueueKind::Standard => message(kind, &body),
                QueueKind::Fifo => NewMessage::new(&body).in_group(format!("g{group}"), &body),
            }
        })
        .collect();
    for sent in queue.send_all(&messages).await {
        sent.unwrap();
    }
    let done: Mutex<HashMap<usize, Vec<usize>>> = Mutex::default();
    let consumer = || async {
        loop {
            let request = Receive::one(HOLD).up_to(3).waiting(SECOND);
            let deliveries = queue.receive(request).await.unwrap();
            if deliveries.is_empty() {
                break;
            }
            for delivery in &deliveries {
                let (group, place) = delivery.body.split_once(':').unwrap();
                let (group, place) = (group.parse().unwrap(), place.parse().unwrap());
                done.lock().unwrap().entry(group).or_default().push(place);
            }
            let receipts: Vec<_> = deliveries.into_iter().map(|delivery| delivery.receipt).collect();
            for deleted in queue.delete_all(&receipts).await {
                assert_eq!(deleted.unwrap(), ReceiptStatus::Honoured);
            }
        }
    };
    tokio::join!(consumer(), consumer(), consumer(), consumer());
    for group in 0..GROUPS {
        let expected: Vec<usize> = (group..MESSAGES).step_by(GROUPS).collect();
        let mut found = done.lock().unwrap().remove(&group).unwrap_or_default();
        if kind == QueueKind::Standard {
            found.sort_unstable();
        }
        if site.deviates(Deviation::RacesReceives) {
            found.dedup();
        }
        assert_eq!(found, expected, "group {group}");
    }
}
