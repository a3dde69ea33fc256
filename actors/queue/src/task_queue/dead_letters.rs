//! Messages on their way into a dead-letter queue and out of it.

use std::time::Duration;

use crate::limits::{MAX_ATTRIBUTES, MAX_BATCH, is_carried};
use crate::{Attribute, Delivery, NewMessage, QueueError, Receive, TaskQueue};

/// Name of the attribute that says why a message was put aside. One that the server moved after too many receives has none.
pub const REASON: &str = "DeadLetterReason";
/// Name of the attribute that names the queue from which it was put aside.
pub const SOURCE: &str = "DeadLetterSource";

/// Longest reason in bytes; it must fit beside a body that leaves little room.
const MAX_REASON: usize = 1024;
/// Time for which a message is held while it is moved.
const MOVING: Duration = Duration::from_secs(60);

/// The message that is sent to a dead-letter queue for one that was received from `source`.
pub(crate) fn letter(delivery: &Delivery, source: &str, reason: &str) -> NewMessage {
    let mut letter = moved(delivery, "dead");
    letter
        .attributes
        .insert(REASON.to_owned(), Attribute::Text(carried(reason)));
    letter
        .attributes
        .insert(SOURCE.to_owned(), Attribute::Text(source.to_owned()));
    // A message has room for ten. Ours are needed to find out what happened; of a foreign sender's, the last ones go.
    while letter.attributes.len() > MAX_ATTRIBUTES {
        let last = letter
            .attributes
            .keys()
            .rfind(|name| ![REASON, SOURCE].contains(&name.as_str()));
        let Some(last) = last.cloned() else { break };
        letter.attributes.remove(&last);
    }
    letter
}

/// The message without what [`letter`] added to it.
fn unlettered(delivery: &Delivery) -> NewMessage {
    let mut message = moved(delivery, "redrive");
    message
        .attributes
        .retain(|name, _| ![REASON, SOURCE].contains(&name.as_str()));
    message
}

/// The same message for another queue. Its deduplication id is made of its id, which a crash between sending and deleting does not
/// change, and not of the old one, under which a second round within five minutes would be dropped.
fn moved(delivery: &Delivery, why: &str) -> NewMessage {
    let mut message = NewMessage::new(delivery.body.clone());
    message.attributes = delivery.attributes.clone();
    if let Some(key) = &delivery.fifo {
        message = message.in_group(key.group.clone(), format!("{why}-{}", delivery.id));
    }
    message.is_letter = true;
    message
}

/// A reason as a message can carry it: neither empty, nor too long, nor with characters that no queue takes.
fn carried(reason: &str) -> String {
    let mut text: String = reason
        .chars()
        .map(|c| if is_carried(c) { c } else { '\u{fffd}' })
        .collect();
    while text.len() > MAX_REASON {
        text.pop();
    }
    if text.is_empty() {
        text.push_str("no reason given");
    }
    text
}

/// Moves the messages of one queue to another, each sent before it is deleted, and gives their number.
pub(crate) async fn move_all<Q: TaskQueue + ?Sized>(from: &Q, to: &dyn TaskQueue) -> Result<u64, QueueError> {
    let waiting = from.counts().await?.visible.max(MAX_BATCH as u64);
    let mut moved = 0;
    while moved < waiting {
        let deliveries = from.receive(Receive::one(MOVING).up_to(MAX_BATCH)).await?;
        if deliveries.is_empty() {
            break;
        }
        let messages: Vec<NewMessage> = deliveries.iter().map(unlettered).collect();
        let sent = to.send_all(&messages).await;
        let mut failed = None;
        let mut done = Vec::new();
        let mut kept = Vec::new();
        for (delivery, sent) in deliveries.iter().zip(sent) {
            match sent {
                Ok(_) => done.push(delivery.receipt.clone()),
                Err(error) => {
                    kept.push(delivery.receipt.clone());
                    failed.get_or_insert(error);
                }
            }
        }
        for deleted in from.delete_all(&done).await {
            // A stale receipt: it took too long, and will be moved once more.
            deleted?;
        }
        moved += done.len() as u64;
        if let Some(error) = failed {
            let _ = from.release_all(&kept).await;
            return Err(error);
        }
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_carried_whatever_it_contains() {
        assert_eq!(carried("not JSON\u{0}: ü"), "not JSON\u{fffd}: ü");
        assert_eq!(carried(""), "no reason given");
        assert_eq!(carried(&"བོད".repeat(1000)).len(), MAX_REASON - MAX_REASON % 3);
    }
}
