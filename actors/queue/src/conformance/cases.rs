//! Promises of every queue.

use bytes::Bytes;
use chrono::Utc;
use tokio::time::Instant;

use super::*;
use crate::limits::{MAX_BYTES, MAX_DELAY, MAX_VISIBILITY};
use crate::{Attribute, Counts, Extended, LimitError, NewMessage, QueueError, Receipt, ReceiptStatus};

/// A message for a queue of either kind, in a group of its own.
pub(super) fn message(kind: QueueKind, body: &str) -> NewMessage {
    let message = NewMessage::new(body);
    match kind {
        QueueKind::Standard => message,
        QueueKind::Fifo => message.in_group(format!("group of {body}").replace(' ', "-"), Uuid::new_v4()),
    }
}

pub(super) async fn carries_messages_whole(site: &Site, kind: QueueKind) {
    let queue = site.queue("carries", kind).await;
    assert_eq!(queue.kind(), kind);
    let texts = [
        "x".to_owned(),
        r#"{"task_id": 7, "bdrc_w_id": "W22084"}"#.to_owned(),
        "བཀྲ་ཤིས་བདེ་ལེགས།\n\t\"<&>\"\r\n😀".to_owned(),
        "y".repeat(MAX_BYTES - 1000),
    ];
    let message = |(place, text): (usize, &String)| {
        let message = NewMessage::new(text.clone())
            .with_attribute("text", Attribute::Text("ཨ <&> \"".to_owned()))
            .with_attribute("number", Attribute::Number("-4.25".to_owned()))
            .with_attribute("bytes", Attribute::Binary(Bytes::from_static(&[0, 255, 128])));
        match kind {
            QueueKind::Standard => message,
            QueueKind::Fifo => message.in_group(format!("group:{place}"), format!("{place}-0-g2")),
        }
    };
    let messages: Vec<NewMessage> = texts.iter().enumerate().map(message).collect();
    let before = Utc::now();
    let sent = queue.send_all(&messages).await;
    let sent: Vec<_> = sent.into_iter().map(Result::unwrap).collect();
    let mut found = Vec::new();
    while found.len() < messages.len() {
        let taken = take(&*queue).await;
        assert!(!taken.is_empty(), "{} of {}", found.len(), messages.len());
        found.extend(taken);
    }
    for (message, sent) in messages.iter().zip(&sent) {
        let delivery = found.iter().find(|delivery| delivery.id == sent.id).unwrap();
        assert!(delivery.body == message.body);
        assert_eq!(delivery.attributes, message.attributes);
        assert_eq!(delivery.fifo, message.fifo);
        assert_eq!(delivery.sequence, sent.sequence);
        assert_eq!(delivery.receives, 1);
        assert_eq!(delivery.moved_from, None);
        let age = (delivery.sent.unwrap() - before).num_seconds();
        assert!((-60..=60).contains(&age), "{age}");
    }
    let sequences: Vec<_> = sent.iter().map(|sent| sent.sequence.clone()).collect();
    assert!(
        sequences
            .iter()
            .all(|sequence| sequence.is_some() == (kind == QueueKind::Fifo))
    );
}

pub(super) async fn deletes_for_good(site: &Site, kind: QueueKind) {
    let queue = site.queue("deletes", kind).await;
    let messages: Vec<NewMessage> = (0..25).map(|place| message(kind, &format!("m{place}"))).collect();
    for sent in queue.send_all(&messages).await {
        sent.unwrap();
    }
    let mut receipts = Vec::new();
    let short = 2 * SECOND + site.slack;
    while receipts.len() < 25 {
        let taken = queue.receive(Receive::one(short + HOLD).up_to(10)).await.unwrap();
        assert!(!taken.is_empty() && taken.len() <= 10);
        receipts.extend(taken.into_iter().map(|delivery| delivery.receipt));
    }
    // One entry of many that the server refuses is told from the others.
    let forged = Receipt {
        handle: "0".to_owned(),
        received: Instant::now(),
    };
    receipts.insert(13, forged);
    let kept = receipts.pop().unwrap();
    let deleted = queue.delete_all(&receipts).await;
    for (place, deleted) in deleted.into_iter().enumerate() {
        let expected = if place == 13 {
            ReceiptStatus::Stale
        } else {
            ReceiptStatus::Honoured
        };
        assert_eq!(deleted.unwrap(), expected, "{place}");
    }
    assert_eq!(queue.release(&kept).await.unwrap(), ReceiptStatus::Honoured);
    let last = single(take(&*queue).await);
    assert_eq!(last.receives, 2);
    assert_eq!(
        queue.delete(&last.receipt).await.unwrap(),
        ReceiptStatus::Honoured
    );
    assert_eq!(queue.counts().await.unwrap(), Counts::default());
    assert!(queue.delete_all(&[]).await.is_empty() && queue.send_all(&[]).await.is_empty());
}

pub(super) async fn holds_for_the_visibility(site: &Site, kind: QueueKind) {
    let queue = site.queue("holds", kind).await;
    queue.send(message(kind, "held")).await.unwrap();
    let visibility = 2 * SECOND + site.slack;
    let first = single(queue.receive(Receive::one(visibility)).await.unwrap());
    assert!(take(&*queue).await.is_empty());
    // It comes back by itself, and wakes who waits for it.
    let again = queue
        .receive(Receive::one(HOLD).waiting(10 * SECOND))
        .await
        .unwrap();
    let held = first.receipt.received.elapsed();
    assert!(
        held >= visibility - site.slack,
        "back after {held:?} of {visibility:?}"
    );
    let second = single(again);
    assert_eq!((second.id, second.receives), (first.id, 2));
    assert_ne!(second.receipt.handle, first.receipt.handle);
}

pub(super) async fn extends_and_releases(site: &Site, kind: QueueKind) {
    let queue = site.queue("extends", kind).await;
    queue.send(message(kind, "long")).await.unwrap();
    let visibility = 2 * SECOND + site.slack;
    let delivery = single(queue.receive(Receive::one(visibility)).await.unwrap());
    let extended = queue.extend(&delivery.receipt, HOLD).await.unwrap();
    assert_eq!(extended, Extended::For(HOLD));
    pass(visibility + SECOND).await;
    assert!(take(&*queue).await.is_empty(), "extended");
    // An extension counts from now on, and may make the time shorter.
    let shorter = queue.extend(&delivery.receipt, visibility).await.unwrap();
    assert_eq!(shorter, Extended::For(visibility));
    pass(visibility + SECOND).await;
    let again = single(take(&*queue).await);
    assert_eq!(
        queue.release(&again.receipt).await.unwrap(),
        ReceiptStatus::Honoured
    );
    let third = single(take(&*queue).await);
    assert_eq!(third.receives, 3);
}

pub(super) async fn caps_extensions(site: &Site, kind: QueueKind) {
    let queue = site.queue("caps", kind).await;
    queue.send(message(kind, "for ever")).await.unwrap();
    let delivery = single(take(&*queue).await);
    let error = queue
        .extend(&delivery.receipt, MAX_VISIBILITY + SECOND)
        .await
        .unwrap_err();
    assert!(
        matches!(error, QueueError::Limit(LimitError::Time { .. })),
        "{error}"
    );
    // The whole of it cannot be had once the message is held.
    let extended = queue.extend(&delivery.receipt, MAX_VISIBILITY).await.unwrap();
    let Extended::For(granted) = extended else {
        panic!("{extended:?}");
    };
    assert!(
        granted < MAX_VISIBILITY && granted > MAX_VISIBILITY - 180 * SECOND,
        "{granted:?}"
    );
    // Half a day later nothing is left of it. The server is not asked, so that the receipt may be made older than it is.
    if let Some(long_ago) = delivery.receipt.received.checked_sub(MAX_VISIBILITY) {
        let old = Receipt {
            received: long_ago,
            ..delivery.receipt.clone()
        };
        assert_eq!(queue.extend(&old, SECOND).await.unwrap(), Extended::AtCap);
        assert_eq!(
            queue.release(&old).await.unwrap(),
            ReceiptStatus::Honoured,
            "it can be given back"
        );
    }
}

pub(super) async fn tells_stale_receipts(site: &Site, kind: QueueKind) {
    let queue = site.queue("stale", kind).await;
    queue.send(message(kind, "stale")).await.unwrap();
    let visibility = SECOND + site.slack;
    let first = single(queue.receive(Receive::one(visibility)).await.unwrap());
    pass(visibility + SECOND).await;
    // Its time is over, and nobody else has it yet.
    let expired = queue.extend(&first.receipt, visibility).await.unwrap();
    if site.deviates(Deviation::HonoursExpiredReceipts) {
        assert_eq!(expired, Extended::For(visibility));
        pass(visibility + SECOND).await;
    } else {
        assert_eq!(expired, Extended::Stale);
    }
    let second = single(take(&*queue).await);
    let replaced = queue.extend(&first.receipt, HOLD).await.unwrap();
    let deleted = queue.delete(&first.receipt).await.unwrap();
    let current = queue.extend(&second.receipt, HOLD).await.unwrap();
    if site.deviates(Deviation::HonoursReplacedReceipts) && kind == QueueKind::Standard {
        assert_eq!(replaced, Extended::For(HOLD));
        assert_eq!(deleted, ReceiptStatus::Honoured);
        assert_eq!(
            current,
            Extended::Stale,
            "the message is deleted under its holder"
        );
        return;
    }
    assert_eq!(replaced, Extended::Stale);
    // A standard queue may say yes to the deletion, but this holder keeps the message.
    if kind == QueueKind::Fifo {
        assert_eq!(deleted, ReceiptStatus::Stale);
    }
    assert_eq!(current, Extended::For(HOLD));
    assert_eq!(
        queue.release(&second.receipt).await.unwrap(),
        ReceiptStatus::Honoured
    );
    assert_eq!(single(take(&*queue).await).receives, 3);
}

pub(super) async fn waits_for_messages(site: &Site, kind: QueueKind) {
    let queue = site.queue("waits", kind).await;
    let began = Instant::now();
    let request = Receive::one(HOLD).up_to(10);
    assert!(
        queue
            .receive(request.waiting(2 * SECOND))
            .await
            .unwrap()
            .is_empty()
    );
    let waited = began.elapsed();
    assert!(waited >= 2 * SECOND - site.slack / 2, "{waited:?}");
    let send = async {
        pass(SECOND).await;
        queue.send(message(kind, "at last")).await.unwrap();
        Instant::now()
    };
    let (received, sent) = tokio::join!(queue.receive(request.waiting(20 * SECOND)), send);
    assert_eq!(bodies(&received.unwrap()), ["at last"]);
    let late = sent.elapsed();
    assert!(late <= SECOND + site.slack, "woken after {late:?}");
}

pub(super) async fn counts_and_purges(site: &Site, kind: QueueKind) {
    let queue = site.queue("counts", kind).await;
    let mut messages: Vec<NewMessage> = ["a", "b", "c", "d"].map(|body| message(kind, body)).to_vec();
    if kind == QueueKind::Standard {
        messages.push(message(kind, "later").delayed(MAX_DELAY));
    }
    for sent in queue.send_all(&messages).await {
        sent.unwrap();
    }
    single(queue.receive(Receive::one(HOLD)).await.unwrap());
    let expected = Counts {
        visible: 3,
        in_flight: 1,
        delayed: u64::from(kind == QueueKind::Standard),
    };
    assert_eq!(queue.counts().await.unwrap(), expected);
    queue.purge().await.unwrap();
    assert_eq!(queue.counts().await.unwrap(), Counts::default());
    assert!(take(&*queue).await.is_empty());
    queue.send(message(kind, "after the purge")).await.unwrap();
    assert_eq!(single(take(&*queue).await).body, "after the purge");
    let again = queue.purge().await;
    if site.deviates(Deviation::PurgesAtOnce) {
        again.unwrap();
    } else {
        assert!(matches!(again, Err(QueueError::PurgedLately { .. })), "{again:?}");
    }
}

pub(super) async fn delays(site: &Site) {
    let queue = site.queue("delays", QueueKind::Standard).await;
    let delay = 2 * SECOND + site.slack;
    let began = Instant::now();
    queue.send(NewMessage::new("later").delayed(delay)).await.unwrap();
    queue.send(NewMessage::new("now")).await.unwrap();
    assert_eq!(bodies(&take(&*queue).await), ["now"]);
    let delivery = single(
        queue
            .receive(Receive::one(HOLD).waiting(20 * SECOND))
            .await
            .unwrap(),
    );
    assert_eq!(delivery.body, "later");
    assert!(began.elapsed() >= delay - site.slack, "{:?}", began.elapsed());
}

pub(super) async fn refuses_what_no_queue_takes(site: &Site, kind: QueueKind) {
    let queue = site.queue("refuses", kind).await;
    let other = match kind {
        QueueKind::Standard => QueueKind::Fifo,
        QueueKind::Fifo => QueueKind::Standard,
    };
    let good = || message(kind, "good");
    let text = |text: &str| Attribute::Text(text.to_owned());
    let mut many = good();
    for place in 0..11 {
        many = many.with_attribute(format!("a{place}"), text("x"));
    }
    let bad = [
        message(kind, ""),
        message(kind, "a\u{0}b"),
        message(kind, &"x".repeat(MAX_BYTES + 1)),
        message(other, "of another kind"),
        good().delayed(MAX_DELAY + SECOND),
        many,
        good().with_attribute("with blanks", text("x")),
        good().with_attribute("aws.trace", text("x")),
        good().with_attribute("empty", text("")),
        good().with_attribute("number", Attribute::Number("seven".to_owned())),
    ];
    // Good ones go through beside bad ones.
    let mut messages = bad.to_vec();
    messages.insert(3, message(kind, "better"));
    let sent = queue.send_all(&messages).await;
    for (place, sent) in sent.iter().enumerate() {
        let refused = matches!(sent, Err(QueueError::Limit(_) | QueueError::HeldBack { .. }));
        assert_eq!(refused, place != 3, "{place}: {sent:?}");
    }
    assert_eq!(single(take(&*queue).await).body, "better");
    for request in [
        Receive::one(HOLD).up_to(0),
        Receive::one(HOLD).up_to(11),
        Receive::one(Duration::ZERO),
        Receive::one(MAX_VISIBILITY + SECOND),
        Receive::one(HOLD).waiting(21 * SECOND),
    ] {
        let error = queue.receive(request).await.unwrap_err();
        assert!(matches!(error, QueueError::Limit(_)), "{error}");
    }
}

pub(super) async fn makes_and_finds_queues(site: &Site, kind: QueueKind) {
    let server = &site.server;
    let spec = site.spec("makes", kind, 7);
    let queue = server.create(&spec).await.unwrap();
    assert_eq!(queue.name(), spec.name);
    let same = server.create(&spec).await.unwrap();
    assert_eq!(same.url(), queue.url());
    let facts = queue.facts().await.unwrap();
    assert_eq!(facts.visibility, spec.visibility);
    assert_eq!(facts.retention, spec.retention);
    assert_eq!(facts.dead_letters, spec.dead_letters);
    let letters = queue.dead_letters().await.unwrap();
    let error = letters.dead_letters().await.unwrap_err();
    assert!(matches!(error, QueueError::NoDeadLetters { .. }), "{error}");

    let mut other = spec.clone();
    other.visibility = 5 * SECOND;
    let error = server.create(&other).await.unwrap_err();
    assert!(matches!(error, QueueError::Exists { .. }), "{error}");
    let mut mixed = spec.clone();
    mixed.name = match kind {
        QueueKind::Standard => format!("{}.fifo", spec.name),
        QueueKind::Fifo => spec.name.replace(".fifo", ""),
    };
    let error = server.create(&mixed).await.unwrap_err();
    assert!(
        matches!(error, QueueError::Limit(LimitError::DeadLetterKind { .. })),
        "{error}"
    );

    let stem = spec.name.strip_suffix(".fifo").unwrap_or(&spec.name);
    let names = server.list(stem).await.unwrap();
    let own = names.iter().filter(|name| QueueKind::of(name) == kind);
    let mut expected = [queue.name(), letters.name()];
    expected.sort_unstable();
    assert_eq!(own.collect::<Vec<_>>(), expected, "{names:?}");
    for address in [queue.name(), queue.url()] {
        let opened = server.open(address).await.unwrap();
        assert_eq!((opened.name(), opened.url()), (queue.name(), queue.url()));
        opened.send(message(kind, address)).await.unwrap();
    }
    assert_eq!(take(&*queue).await.len(), 2);

    let missing = format!("{stem}-missing");
    let error = server.open(&missing).await.unwrap_err();
    assert!(matches!(error, QueueError::NotFound { .. }), "{error}");
    // Behind a URL it is not looked for until it is used.
    let missing = server.open(&queue.url().replace(stem, &missing)).await.unwrap();
    let error = missing.receive(Receive::one(HOLD)).await.unwrap_err();
    assert!(matches!(error, QueueError::NotFound { .. }), "{error}");
    assert!(matches!(
        missing.send(message(kind, "x")).await,
        Err(QueueError::NotFound { .. })
    ));
}
