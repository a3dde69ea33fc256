//! Promises about dead-letter queues.

use super::cases::message;
use super::*;
use crate::{Attribute, Counts, REASON, ReceiptStatus, Redrive, SOURCE};

pub(super) async fn moves_after_too_many_receives(site: &Site, kind: QueueKind) {
    let spec = site.spec("moves", kind, 2);
    let queue = site.server.create(&spec).await.unwrap();
    queue.send(message(kind, "poison")).await.unwrap();
    for receives in 1..=2 {
        let delivery = single(take(&*queue).await);
        assert_eq!(delivery.receives, receives);
        queue.release(&delivery.receipt).await.unwrap();
    }
    assert!(take(&*queue).await.is_empty(), "a third receive moves it");
    let letters = queue.dead_letters().await.unwrap();
    let dead = single(take(&*letters).await);
    assert_eq!(dead.body, "poison");
    assert_eq!(dead.attributes.get(REASON), None);
    let source = (!site.deviates(Deviation::ForgetsSource)).then(|| queue.name().to_owned());
    assert_eq!(dead.moved_from, source);
    assert_eq!(dead.fifo.is_some(), kind == QueueKind::Fifo);
    assert_eq!(queue.counts().await.unwrap(), Counts::default());
}

/// Rows: U18.
pub(super) async fn puts_aside_and_takes_back(site: &Site, kind: QueueKind) {
    let queue = site.queue("letters", kind).await;
    let letters = queue.dead_letters().await.unwrap();
    let owner = Attribute::Text("bec".to_owned());
    for body in ["not JSON", "neither"] {
        let message = message(kind, body).with_attribute("owner", owner.clone());
        queue.send(message).await.unwrap();
    }
    let taken = take(&*queue).await;
    assert_eq!(taken.len(), 2);
    for delivery in &taken {
        let status = queue
            .dead_letter(delivery, "no such field: \u{1}task_id")
            .await
            .unwrap();
        assert_eq!(status, ReceiptStatus::Honoured);
    }
    assert_eq!(queue.counts().await.unwrap(), Counts::default());
    let dead = take(&*letters).await;
    assert_eq!(dead.len(), 2);
    for letter in &dead {
        let text = |name: &str| letter.attributes.get(name).and_then(Attribute::as_text);
        assert_eq!(text(REASON), Some("no such field: \u{fffd}task_id"));
        assert_eq!(text(SOURCE), Some(queue.name()));
        assert_eq!(text("owner"), Some("bec"));
        letters.release(&letter.receipt).await.unwrap();
    }
    let redrive = letters.redrive(&*queue).await.unwrap();
    if site.deviates(Deviation::NoMoveTask) {
        assert_eq!(redrive, Redrive::Moved { messages: 2 });
        let back = take(&*queue).await;
        assert_eq!(back.len(), 2);
        for delivery in &back {
            assert!(["not JSON", "neither"].contains(&delivery.body.as_str()));
            assert_eq!(delivery.receives, 1);
            assert_eq!(delivery.attributes.keys().collect::<Vec<_>>(), ["owner"]);
            assert_eq!(delivery.fifo.is_some(), kind == QueueKind::Fifo);
        }
        assert_eq!(letters.counts().await.unwrap(), Counts::default());
    } else {
        assert!(matches!(redrive, Redrive::Started { .. }), "{redrive:?}");
        let mut back = 0;
        while back < 2 {
            let found = queue
                .receive(Receive::one(HOLD).up_to(10).waiting(20 * SECOND))
                .await;
            let found = found.unwrap().len();
            assert!(found > 0, "the server moves {} more", 2 - back);
            back += found;
        }
    }
}
