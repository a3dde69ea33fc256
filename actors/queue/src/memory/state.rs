//! The rules of a queue, without waiting and without a clock: time is an argument.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::messages::{Messages, Stored, Visibility};
use crate::limits::{
    DEDUPLICATION_WINDOW, FIFO_SCANNED, MAX_IN_FLIGHT, MAX_IN_FLIGHT_FIFO, PURGE_INTERVAL, whole_seconds,
};
use crate::{Counts, NewMessage, QueueKind, QueueSpec, ReceiptStatus, Sent};

/// Delivery of a message, with the numbers that name it.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) receipt: u64,
    pub(super) sequence: u64,
    pub(super) stored: Stored,
}

/// What a receive brings about.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) handed: Vec<Handed>,
    /// Messages that were received too often, for the dead-letter queue.
    pub(super) dead: Vec<Stored>,
    /// True if nothing was looked for, as too many messages are in flight.
    pub(super) is_over_limit: bool,
}

/// One queue.
#[derive(Debug)]
pub(super) struct State {
    pub(super) spec: QueueSpec,
    messages: Messages,
    /// Message of each receipt that is worth something.
    receipts: HashMap<u64, u64>,
    /// Receipts by which messages were deleted, which may be used again.
    spent: HashSet<u64>,
    /// Ids by which a second send is known, with the end of that time; the oldest first.
    known: HashMap<String, Sent>,
    forgetting: VecDeque<(Instant, String)>,
    sends: u64,
    deliveries: u64,
    purged: Option<Instant>,
}

/// No messages for a queue of this kind.
fn no_messages(kind: QueueKind) -> Messages {
    Messages::new(match kind {
        QueueKind::Fifo => FIFO_SCANNED,
        QueueKind::Standard => usize::MAX,
    })
}

impl State {
    pub(super) fn new(spec: QueueSpec) -> Self {
        Self {
            messages: no_messages(spec.kind()),
            spec,
            receipts: HashMap::new(),
            spent: HashSet::new(),
            known: HashMap::new(),
            forgetting: VecDeque::new(),
            sends: 0,
            deliveries: 0,
            purged: None,
        }
    }

    fn kind(&self) -> QueueKind {
        self.spec.kind()
    }

    /// Does what time has brought about: messages become visible or too old, and deduplication ids are forgotten.
    fn pass_time(&mut self, now: Instant) {
        self.messages.surface(now);
        while let Some((since, number)) = self.messages.oldest()
            && since + self.spec.retention <= now
        {
            self.remove(number);
        }
        while let Some((_, id)) = self.forgetting.pop_front_if(|(end, _)| *end <= now) {
            self.known.remove(&id);
        }
    }

    fn remove(&mut self, number: u64) -> Option<Stored> {
        let stored = self.messages.remove(number)?;
        if let Some(receipt) = stored.receipt {
            self.receipts.remove(&receipt);
        }
        Some(stored)
    }

    /// Takes a message, unless it is the second one under its deduplication id.
    pub(super) fn send(&mut self, message: &NewMessage, id: String, now: Instant) -> Sent {
        self.pass_time(now);
        let deduplication = message.fifo.as_ref().map(|key| key.deduplication.clone());
        if let Some(first) = deduplication.as_ref().and_then(|id| self.known.get(id)) {
            return first.clone();
        }
        self.sends += 1;
        let sent = Sent {
            id: id.clone(),
            sequence: deduplication.as_ref().map(|_| sequence_text(self.sends)),
        };
        let stored = Stored {
            id,
            message: message.clone(),
            sent: now,
            receives: 0,
            moved_from: None,
            kept_since: now,
            visibility: match message.delay {
                Duration::ZERO => Visibility::Visible,
                delay => Visibility::Delayed(now + whole_seconds(delay)),
            },
            receipt: None,
        };
        self.messages.push(self.sends, stored);
        if let Some(id) = deduplication {
            self.forgetting
                .push_back((now + DEDUPLICATION_WINDOW, id.clone()));
            self.known.insert(id, sent.clone());
        }
        sent
    }

    /// Takes a message that another queue has given up.
    pub(super) fn take_dead(&mut self, mut dead: Stored, from: &str, now: Instant) {
        dead.moved_from = Some(from.to_owned());
        dead.visibility = Visibility::Visible;
        dead.receipt = None;
        if self.kind() == QueueKind::Fifo {
            // In standard queues the retention counts from the first send on, wherever that was.
            dead.kept_since = now;
        }
        self.sends += 1;
        self.messages.push(self.sends, dead);
    }

    /// Hands out up to `max` messages, which are invisible for `visibility`.
    pub(super) fn receive(&mut self, max: usize, visibility: Duration, now: Instant) -> Received {
        self.pass_time(now);
        let mut received = Received::default();
        let room = self.in_flight_limit().saturating_sub(self.messages.held());
        if room == 0 {
            received.is_over_limit = true;
            return received;
        }
        let most = self
            .spec
            .dead_letters
            .as_ref()
            .map(|letters| letters.max_receives);
        let (mut chosen, mut dead) = (Vec::new(), Vec::new());
        for number in self.messages.receivable() {
            if chosen.len() == room.min(max) {
                break;
            }
            let receives = self.messages.get(number).map_or(0, |stored| stored.receives);
            if most.is_some_and(|most| receives >= most) {
                dead.push(number);
            } else {
                chosen.push(number);
            }
        }
        received.dead = dead
            .into_iter()
            .filter_map(|number| self.remove(number))
            .collect();
        let until = held_until(visibility, now);
        let handed = chosen
            .into_iter()
            .filter_map(|number| self.hand_out(number, until));
        received.handed = handed.collect();
        received
    }

    fn hand_out(&mut self, number: u64, until: Visibility) -> Option<Handed> {
        self.deliveries += 1;
        let receipt = self.deliveries;
        self.messages.update(number, |stored| {
            if let Some(old) = stored.receipt.replace(receipt) {
                self.receipts.remove(&old);
            }
            stored.receives += 1;
            stored.visibility = until;
        });
        self.receipts.insert(receipt, number);
        Some(Handed {
            receipt,
            sequence: number,
            stored: self.messages.get(number)?.clone(),
        })
    }

    fn in_flight_limit(&self) -> usize {
        match self.kind() {
            QueueKind::Standard => MAX_IN_FLIGHT,
            QueueKind::Fifo => MAX_IN_FLIGHT_FIFO,
        }
    }

    /// The message that a receipt is good for. Once its time is over it is good for nothing in a FIFO queue; in a standard one it
    /// still deletes, until the message is received again.
    fn find(&self, receipt: u64, is_deletion: bool) -> Option<u64> {
        let sequence = *self.receipts.get(&receipt)?;
        let stored = self.messages.get(sequence)?;
        let outlives = is_deletion && self.kind() == QueueKind::Standard;
        (outlives || stored.visibility != Visibility::Visible).then_some(sequence)
    }

    /// Sets the visibility of a delivery anew.
    pub(super) fn extend(&mut self, receipt: u64, visibility: Duration, now: Instant) -> ReceiptStatus {
        self.pass_time(now);
        let Some(number) = self.find(receipt, false) else {
            return ReceiptStatus::Stale;
        };
        let until = held_until(visibility, now);
        self.messages.update(number, |stored| stored.visibility = until);
        ReceiptStatus::Honoured
    }

    /// Deletes a message. A standard queue of AWS takes a receipt that it once gave out without a word, and does nothing.
    pub(super) fn delete(&mut self, receipt: u64, now: Instant) -> ReceiptStatus {
        self.pass_time(now);
        let was_given_out = (1..=self.deliveries).contains(&receipt);
        match self.find(receipt, true) {
            Some(number) => {
                self.remove(number);
                self.spent.insert(receipt);
                ReceiptStatus::Honoured
            }
            None if self.spent.contains(&receipt) => ReceiptStatus::Honoured,
            None if self.kind() == QueueKind::Standard && was_given_out => ReceiptStatus::Honoured,
            None => ReceiptStatus::Stale,
        }
    }

    /// Deletes every message, unless that was done in the last minute.
    pub(super) fn purge(&mut self, now: Instant) -> bool {
        let is_free = self.purged.is_none_or(|last| now >= last + PURGE_INTERVAL);
        if is_free {
            self.messages = no_messages(self.kind());
            self.receipts.clear();
            self.purged = Some(now);
        }
        is_free
    }

    pub(super) fn counts(&mut self, now: Instant) -> Counts {
        self.pass_time(now);
        let (held, delayed) = (self.messages.held(), self.messages.delayed());
        Counts {
            visible: (self.messages.len() - held - delayed) as u64,
            in_flight: held as u64,
            delayed: delayed as u64,
        }
    }

    /// The next time at which a message may become receivable by itself.
    pub(super) fn next_change(&self) -> Option<Instant> {
        self.messages.next_visible()
    }
}

/// Visibility of a message that is received or extended.
fn held_until(visibility: Duration, now: Instant) -> Visibility {
    match visibility {
        Duration::ZERO => Visibility::Visible,
        visibility => Visibility::Held(now + whole_seconds(visibility)),
    }
}

/// Number of a message as a text that sorts like it.
pub(super) fn sequence_text(number: u64) -> String {
    format!("{number:020}")
}
