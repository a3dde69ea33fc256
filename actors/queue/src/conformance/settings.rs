//! Promises about the settings of queues that are there.

use super::cases::message;
use super::*;
use crate::limits::MAX_VISIBILITY;
use crate::{Difference, QueueError, QueueFacts, reconcile};

fn named(changed: &[Difference]) -> Vec<(&str, &str)> {
    let named = changed
        .iter()
        .map(|difference| (difference.queue.as_str(), difference.setting));
    named.collect()
}

pub(super) async fn changes_settings(site: &Site, kind: QueueKind) {
    let server = &*site.server;
    let spec = site.spec("settings", kind, 1);
    let letters = spec.dead_letters.clone().unwrap().queue;
    let bare = QueueSpec {
        visibility: SECOND,
        retention: 3600 * SECOND,
        dead_letters: None,
        ..spec.clone()
    };
    let queue = server.create(&bare).await.unwrap();
    queue.send(message(kind, "sent before")).await.unwrap();
    let missing = queue.configure(&spec.facts()).await.unwrap_err();
    assert_eq!(
        missing,
        QueueError::NotFound {
            queue: letters.clone()
        }
    );
    let too_long = QueueFacts {
        visibility: MAX_VISIBILITY + SECOND,
        ..bare.facts()
    };
    let refused = queue.configure(&too_long).await.unwrap_err();
    assert!(matches!(refused, QueueError::Limit(_)), "{refused}");
    assert_eq!(queue.facts().await.unwrap(), bare.facts());

    let changed = reconcile(server, &spec.name, &spec).await.unwrap();
    let of = |setting| (spec.name.as_str(), setting);
    let expected = [of("retention"), of("visibility"), of("dead-letter queue")];
    assert_eq!(named(&changed), expected, "{changed:?}");
    assert_eq!(queue.facts().await.unwrap(), spec.facts());
    assert_eq!(reconcile(server, queue.url(), &spec).await.unwrap(), []);
    // The message stayed, and after the one receive that is allowed now it is dead.
    let delivery = single(take(&*queue).await);
    assert_eq!(delivery.body, "sent before");
    queue.release(&delivery.receipt).await.unwrap();
    assert!(take(&*queue).await.is_empty());
    let dead = queue.dead_letters().await.unwrap();
    assert_eq!(single(take(&*dead).await).body, "sent before");

    let short = QueueFacts {
        retention: 3600 * SECOND,
        ..dead.facts().await.unwrap()
    };
    dead.configure(&short).await.unwrap();
    let changed = reconcile(server, &spec.name, &spec).await.unwrap();
    assert_eq!(named(&changed), [(letters.as_str(), "retention")], "{changed:?}");

    queue.configure(&bare.facts()).await.unwrap();
    assert_eq!(queue.facts().await.unwrap(), bare.facts());
    let detached = server.open(queue.url()).await.unwrap().dead_letters().await;
    assert!(
        matches!(detached, Err(QueueError::NoDeadLetters { .. })),
        "{detached:?}"
    );
}

/// A queue of which nothing is there is made, and its dead-letter queue is set right where only that is there.
pub(super) async fn makes_what_is_missing(site: &Site, kind: QueueKind) {
    let server = &*site.server;
    let spec = site.spec("missing-settings", kind, 3);
    let letters = QueueSpec {
        dead_letters: None,
        visibility: SECOND,
        ..QueueSpec::new(spec.dead_letters.clone().unwrap().queue)
    };
    server.create(&letters).await.unwrap();
    let changed = reconcile(server, &spec.name, &spec).await.unwrap();
    assert_eq!(named(&changed), [(letters.name.as_str(), "visibility")]);
    let made = server.open(&spec.name).await.unwrap();
    assert_eq!(made.facts().await.unwrap(), spec.facts());
}
