//! Tasks whose work goes through queues.

use super::*;
use crate::domain::{Publication, QueuePurpose, QueueRecord};

fn message(publication: Publication) -> Message {
    Message {
        queue: "ocr-read.fifo".to_owned(),
        publication,
        look: None,
        has_publisher: true,
    }
}

fn sent(at_second: i64) -> Message {
    message(Publication::Sent {
        at: at(at_second),
        in_front: 3,
    })
}

fn unsent(due: Option<i64>, has_room: bool) -> Message {
    message(Publication::Unsent {
        due: due.map(at),
        has_room,
    })
}

fn seen(looked_at: i64, visible: u64, in_flight: u64) -> Option<QueueRecord> {
    Some(QueueRecord {
        purpose: QueuePurpose::Stage(stage("read")),
        queue: "ocr-read.fifo".to_owned(),
        looked_at: at(looked_at),
        visible,
        in_flight,
        delayed: 0,
        dead_letters: Some(0),
        oldest: None,
        alarms: Vec::new(),
    })
}

/// Reason at second 100, where one worker has two slots.
fn reason(task: &Task, message: &Message, held: &[Held]) -> Reason {
    let cluster = ClusterFacts {
        now: at(100),
        ..cluster(&[pool("a", "read", 2)], held)
    };
    of_task(task, &job(), &cluster, Some(message))
}

#[test]
fn a_message_that_waits_tells_for_how_long_and_behind_how_many() {
    let waits = |free| Reason::InQueue {
        stage: stage("read"),
        queue: "ocr-read.fifo".to_owned(),
        since: at(60),
        in_front: 3,
        free,
    };
    assert_eq!(reason(&fresh(), &sent(60), &[]), waits(2));
    let busy = [held("a", 2, "read", 2)];
    assert_eq!(reason(&fresh(), &sent(60), &busy), waits(0));
    // The counts of a look say nothing about a message that was sent just before.
    let early = Message {
        look: seen(100, 0, 0),
        ..sent(60)
    };
    assert_eq!(reason(&fresh(), &early, &[]), waits(2));
}

#[test]
fn a_look_tells_whether_a_message_is_held_or_gone() {
    let of = |look| {
        let message = Message { look, ..sent(10) };
        reason(&fresh(), &message, &[]).as_str()
    };
    assert_eq!(of(None), "in_queue");
    assert_eq!(of(seen(69, 0, 1)), "in_queue");
    assert_eq!(of(seen(70, 0, 1)), "received");
    assert_eq!(of(seen(70, 1, 1)), "in_queue");
    assert_eq!(of(seen(70, 0, 0)), "missing");
}

#[test]
fn an_unsent_message_tells_what_it_waits_for() {
    let of = |message: &Message| match reason(&fresh(), message, &[]) {
        Reason::Unpublished { until, .. } => until,
        other => panic!("{other:?}"),
    };
    assert_eq!(of(&unsent(Some(101), true)), Unsent::Due(at(101)));
    assert_eq!(of(&unsent(Some(100), true)), Unsent::NextRound);
    assert_eq!(of(&unsent(None, true)), Unsent::NextRound);
    assert_eq!(of(&unsent(None, false)), Unsent::Limits);
}

#[test]
fn reasons_that_have_to_go_first_come_first() {
    let failed = failed(true, Some(at(200)));
    assert!(matches!(
        reason(&failed, &unsent(None, true), &[]),
        Reason::BackingOff { queue: Some(queue), .. } if queue == "ocr-read.fifo"
    ));
    let unseen = Message {
        has_publisher: false,
        ..unsent(None, true)
    };
    assert_eq!(reason(&fresh(), &unseen, &[]), Reason::NoLeader);
    // What is sent needs nobody who publishes, but somebody who receives.
    let alone = Message {
        has_publisher: false,
        ..sent(60)
    };
    assert_eq!(reason(&fresh(), &alone, &[]).as_str(), "in_queue");
    let deserted = ClusterFacts {
        is_led: false,
        ..cluster(&[], &[])
    };
    let nobody = of_task(&fresh(), &job(), &deserted, Some(&alone));
    assert_eq!(nobody, no_pool("read", &[]));
    let suspect = Task {
        interruptions: 2,
        ..fresh()
    };
    let beside = [held("a", 2, "read", 1)];
    assert_eq!(reason(&suspect, &sent(60), &beside).as_str(), "suspect");
}
