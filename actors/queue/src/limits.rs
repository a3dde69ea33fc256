//! Quotas of SQS. `checks` holds against them what is about to be sent.

use std::time::Duration;

/// Most entries of one request, and most messages of one receive.
pub const MAX_BATCH: usize = 10;
/// Longest wait of a receive for a message.
pub const MAX_WAIT: Duration = Duration::from_secs(20);
/// Longest time for which a delivery can be held, extensions included.
pub const MAX_VISIBILITY: Duration = Duration::from_secs(12 * 60 * 60);
/// Longest delay of a message in a standard queue.
pub const MAX_DELAY: Duration = Duration::from_secs(15 * 60);
/// Largest message, and largest sum of a batch, in bytes of body and attributes. AWS has taken four times as much since August
/// 2025; other servers may not, and a task needs a fraction.
pub const MAX_BYTES: usize = 256 * 1024;
/// Shortest time for which messages can be kept.
pub const MIN_RETENTION: Duration = Duration::from_secs(60);
/// Longest time for which messages can be kept; what nobody deleted by then is gone.
pub const MAX_RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Most messages of a standard queue that are in flight, about.
pub const MAX_IN_FLIGHT: usize = 120_000;
/// Most messages of a FIFO queue that are in flight, unless the account was given more.
pub const MAX_IN_FLIGHT_FIFO: usize = 20_000;
/// Number of messages from the head of a FIFO queue among which SQS looks for a free group: with a longer backlog of few groups,
/// free ones behind it are not found.
pub const FIFO_SCANNED: usize = 120_000;
/// Requests of one kind that a FIFO queue takes in a second, unless it was made for high throughput; a batch is one.
pub const FIFO_REQUESTS_PER_SECOND: u32 = 300;
/// Time for which a FIFO queue knows a deduplication id, from the first send on and also after its message was deleted.
pub const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(5 * 60);
/// Time after a purge in which a queue refuses another one.
pub const PURGE_INTERVAL: Duration = Duration::from_secs(60);
/// Most attributes of a message.
pub const MAX_ATTRIBUTES: usize = 10;
/// Longest name of a queue, with its `.fifo`.
pub const MAX_NAME: usize = 80;
/// Longest group or deduplication id.
pub const MAX_ID: usize = 128;
/// Longest name of an attribute of a message.
pub const MAX_ATTRIBUTE_NAME: usize = 256;
/// Receives after which a message goes to the dead-letter queue, unless a queue is made with another number.
pub const MAX_RECEIVES: u32 = 5;
/// Largest number of such receives.
pub const MOST_RECEIVES: u32 = 1000;

/// Request that no server would take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    #[error("a message of {bytes} bytes is over the limit of {MAX_BYTES}")]
    TooLong { bytes: usize },
    #[error("a message has no body")]
    Empty,
    #[error("{what} contains the character {found:?}, which no queue takes")]
    Character { what: &'static str, found: char },
    #[error("a message for a FIFO queue has no group")]
    Ungrouped,
    #[error("a message for a standard queue has a group")]
    Grouped,
    #[error("a message for a FIFO queue cannot be delayed by itself")]
    DelayedInOrder,
    #[error("the {what} {value:?} is not one of 1 to {MAX_ID} letters, digits and punctuation marks")]
    Id { what: &'static str, value: String },
    #[error("a message has {count} attributes, more than {MAX_ATTRIBUTES}")]
    Attributes { count: usize },
    #[error("the attribute {name:?} of a message {reason}")]
    Attribute { name: String, reason: &'static str },
    #[error("a receive for {max} messages is not one for 1 to {MAX_BATCH}")]
    Batch { max: usize },
    #[error("the {what} of {value:?} is not from {least:?} to {most:?}")]
    Time {
        what: &'static str,
        value: Duration,
        least: Duration,
        most: Duration,
    },
    #[error(
        "{name:?} is not a queue's name: 1 to {MAX_NAME} letters, digits, - and _, with .fifo at the end if it is FIFO"
    )]
    Name { name: String },
    #[error("a queue and its dead-letter queue must both be FIFO or both not: {name} and {dead_letters}")]
    DeadLetterKind { name: String, dead_letters: String },
    #[error("{max_receives} receives before the dead-letter queue are not 1 to {MOST_RECEIVES}")]
    MaxReceives { max_receives: u32 },
}

/// Time in the whole seconds of the protocol, rounded up: nothing is held or kept for less than was asked.
pub(crate) fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

/// Whether the protocol can carry a character: those of XML 1.0.
pub(crate) fn is_carried(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}
