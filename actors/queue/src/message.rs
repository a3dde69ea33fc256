use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::limits::{MAX_VISIBILITY, whole_seconds};

/// Time before the cap on visibility at which extensions end: the server's clock began with its answer, before ours did.
const CAP_MARGIN: Duration = Duration::from_secs(60);

/// Place of a message in a FIFO queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FifoKey {
    /// Group whose messages come one after the other.
    pub group: String,
    /// Id under which a second send is dropped, of whichever group, within
    /// [`DEDUPLICATION_WINDOW`](super::limits::DEDUPLICATION_WINDOW).
    pub deduplication: String,
}

/// Attribute of a message, beside its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    Text(String),
    /// A number in decimal digits.
    Number(String),
    Binary(Bytes),
}

impl Attribute {
    /// Text of the attribute, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Binary(_) => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.value_bytes() == 0
    }

    /// Name of its type in the protocol.
    pub(crate) const fn data_type(&self) -> &'static str {
        match self {
            Self::Text(_) => "String",
            Self::Number(_) => "Number",
            Self::Binary(_) => "Binary",
        }
    }

    fn value_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Number(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }
}

/// Message that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    pub body: String,
    pub attributes: BTreeMap<String, Attribute>,
    /// Place in a FIFO queue; absent in a standard one.
    pub fifo: Option<FifoKey>,
    /// Time before it can be received, in a standard queue only; in whole seconds, rounded up.
    pub delay: Duration,
    /// True for a message of a queue that goes to another one: a foreign sender may have made it longer than ours may be.
    pub(crate) is_letter: bool,
}

impl NewMessage {
    pub fn new(body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            attributes: BTreeMap::new(),
            fifo: None,
            delay: Duration::ZERO,
            is_letter: false,
        }
    }

    /// The same message for a FIFO queue.
    pub fn in_group(mut self, group: impl Into<String>, deduplication: impl Into<String>) -> Self {
        self.fifo = Some(FifoKey {
            group: group.into(),
            deduplication: deduplication.into(),
        });
        self
    }

    pub fn with_attribute(mut self, name: impl Into<String>, attribute: Attribute) -> Self {
        self.attributes.insert(name.into(), attribute);
        self
    }

    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Length as SQS counts it: the body, and names, types and values of the attributes.
    pub fn bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let of_attribute = |(name, attribute): (&String, &Attribute)| {
            name.len() + attribute.data_type().len() + attribute.value_bytes()
        };
        self.body.len() + attributes.map(of_attribute).sum::<usize>()
    }
}

/// Message that the queue has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Id of the message; that of the first one for a second send under the same deduplication id.
    pub id: String,
    /// Number in a FIFO queue, by which its messages can be sorted as texts.
    pub sequence: Option<String>,
}

/// Request for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receive {
    /// Most messages to take.
    pub max: usize,
    /// Time to wait for the first one.
    pub wait: Duration,
    /// Time for which nobody else gets what is received: the length of the lease. In whole seconds, rounded up.
    pub visibility: Duration,
}

impl Receive {
    /// Request for one message, for a consumer that asks once it has a free slot; it does not wait.
    pub const fn one(visibility: Duration) -> Self {
        Self {
            max: 1,
            wait: Duration::ZERO,
            visibility,
        }
    }

    pub const fn up_to(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    pub const fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

/// Right to a message that was received, until its time is over or the message is received again.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Text by which the server knows the delivery.
    pub handle: String,
    /// Arrival of the delivery, from which the cap on its visibility counts.
    pub received: Instant,
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // AWS's are hundreds of characters long.
        let shown = self
            .handle
            .char_indices()
            .nth(12)
            .map_or(self.handle.as_str(), |(end, _)| &self.handle[..end]);
        f.debug_tuple("Receipt").field(&shown).finish()
    }
}

/// Message that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Id that the server gave the message.
    pub id: String,
    pub receipt: Receipt,
    pub body: String,
    pub attributes: BTreeMap<String, Attribute>,
    /// Place in a FIFO queue.
    pub fifo: Option<FifoKey>,
    /// Number in a FIFO queue, by which its messages can be sorted as texts.
    pub sequence: Option<String>,
    /// Number of deliveries of the message with this one; approximate on AWS.
    pub receives: u32,
    /// Time at which it was sent, by the server's clock. The age of the oldest message of a queue is no number of SQS itself, only of
    /// CloudWatch; in a FIFO queue nothing of this group is older than this.
    pub sent: Option<DateTime<Utc>>,
    /// Name of the queue from which the server moved it here, after too many receives.
    pub moved_from: Option<String>,
}

/// Change of the time for which a delivery is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    pub receipt: Receipt,
    /// Time for which nobody else gets the message, from now on. In whole seconds, rounded up; zero gives the message back.
    pub visibility: Duration,
}

impl Extension {
    /// The visibility that the cap leaves at `now`; `None` if that is nothing.
    pub(crate) fn capped(&self, now: Instant) -> Option<Duration> {
        let visibility = whole_seconds(self.visibility);
        if visibility.is_zero() {
            return Some(visibility);
        }
        let held = now.saturating_duration_since(self.receipt.received);
        let left = MAX_VISIBILITY.saturating_sub(held + CAP_MARGIN);
        let granted = visibility.min(Duration::from_secs(left.as_secs()));
        (!granted.is_zero()).then_some(granted)
    }
}
