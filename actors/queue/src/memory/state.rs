//! The rules of a queue, without waiting and without a clock: time is an argument.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{
    DEDUPLICATION_WINDOW, FIFO_SCANNED, MAX_IN_FLIGHT, MAX_IN_FLIGHT_FIFO, PURGE_INTERVAL, whole_seconds,
};
use crate::{Counts, NewMessage, QueueKind, QueueSpec, ReceiptStatus, Sent};

/// Message in a queue.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) id: String,
    pub(super) message: NewMessage,
    pub(super) sent: Instant,
    pub(super) receives: u32,
    /// Name of the queue from which it was moved here.
    pub(super) moved_from: Option<String>,
    /// Time from which it counts against the retention.
    kept_since: Instant,
    visible_at: Instant,
    /// Number of its last delivery, if that is still worth anything.
    receipt: Option<u64>,
}

impl Stored {
    fn group(&self) -> Option<&str> {
        self.message.fifo.as_ref().map(|key| key.group.as_str())
    }

    fn is_in_flight(&self, now: Instant) -> bool {
        self.receives > 0 && self.visible_at > now && self.receipt.is_some()
    }
}

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
    /// By the number of the send; the order of FIFO queues.
    messages: BTreeMap<u64, Stored>,
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
    /// No message has been kept for longer than since then.
    oldest: Option<Instant>,
}

impl State {
    pub(super) fn new(spec: QueueSpec) -> Self {
        Self {
            spec,
            messages: BTreeMap::new(),
            receipts: HashMap::new(),
            spent: HashSet::new(),
            known: HashMap::new(),
            forgetting: VecDeque::new(),
            sends: 0,
            deliveries: 0,
            purged: None,
            oldest: None,
        }
    }

    fn kind(&self) -> QueueKind {
        self.spec.kind()
    }

    /// Forgets what time has ended: messages past the retention and deduplication ids past their window.
    fn tidy(&mut self, now: Instant) {
        let retention = self.spec.retention;
        // The whole queue is looked through only when something can be found.
        if self.oldest.is_some_and(|oldest| oldest + retention <= now) {
            let ended = |stored: &Stored| stored.kept_since + retention <= now;
            self.messages.retain(|_, stored| !ended(stored));
            self.oldest = self.messages.values().map(|stored| stored.kept_since).min();
        }
        while let Some((_, id)) = self.forgetting.pop_front_if(|(end, _)| *end <= now) {
            self.known.remove(&id);
        }
    }

    /// Takes a message, unless it is the second one under its deduplication id.
    pub(super) fn send(&mut self, message: &NewMessage, id: String, now: Instant) -> Sent {
        self.tidy(now);
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
            visible_at: now + whole_seconds(message.delay),
            receipt: None,
        };
        self.keep(stored);
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
        dead.visible_at = now;
        dead.receipt = None;
        if self.kind() == QueueKind::Fifo {
            // In standard queues the retention counts from the first send on, wherever that was.
            dead.kept_since = now;
        }
        self.sends += 1;
        self.keep(dead);
    }

    fn keep(&mut self, stored: Stored) {
        let since = stored.kept_since;
        self.oldest = Some(self.oldest.map_or(since, |oldest| oldest.min(since)));
        self.messages.insert(self.sends, stored);
    }

    /// Groups of which a message is held.
    fn held_groups(&self, now: Instant) -> HashSet<String> {
        let held = self.messages.values().filter(|stored| stored.is_in_flight(now));
        held.filter_map(|stored| stored.group().map(str::to_owned))
            .collect()
    }

    /// Hands out up to `max` messages, which are invisible for `visibility`.
    pub(super) fn receive(&mut self, max: usize, visibility: Duration, now: Instant) -> Received {
        self.tidy(now);
        let mut received = Received::default();
        let in_flight = self.messages.values().filter(|stored| stored.is_in_flight(now));
        let mut room = self.in_flight_limit().saturating_sub(in_flight.count());
        if room == 0 {
            received.is_over_limit = true;
            return received;
        }
        room = room.min(max);
        let held = self.held_groups(now);
        let scanned = match self.kind() {
            QueueKind::Fifo => FIFO_SCANNED,
            QueueKind::Standard => usize::MAX,
        };
        let most = self
            .spec
            .dead_letters
            .as_ref()
            .map(|letters| letters.max_receives);
        let mut dead = Vec::new();
        for (sequence, stored) in self.messages.iter_mut().take(scanned) {
            if received.handed.len() == room {
                break;
            }
            if stored.visible_at > now || stored.group().is_some_and(|group| held.contains(group)) {
                continue;
            }
            if let Some(old) = stored.receipt.take() {
                self.receipts.remove(&old);
            }
            if most.is_some_and(|most| stored.receives >= most) {
                dead.push(*sequence);
                continue;
            }
            self.deliveries += 1;
            self.receipts.insert(self.deliveries, *sequence);
            stored.receipt = Some(self.deliveries);
            stored.receives += 1;
            stored.visible_at = now + whole_seconds(visibility);
            received.handed.push(Handed {
                receipt: self.deliveries,
                sequence: *sequence,
                stored: stored.clone(),
            });
        }
        let taken = dead.iter().filter_map(|sequence| self.messages.remove(sequence));
        received.dead = taken.collect();
        received
    }

    fn in_flight_limit(&self) -> usize {
        match self.kind() {
            QueueKind::Standard => MAX_IN_FLIGHT,
            QueueKind::Fifo => MAX_IN_FLIGHT_FIFO,
        }
    }

    /// The message that a receipt is good for. Once its time is over it is good for nothing in a FIFO queue; in a standard one it
    /// still deletes, until the message is received again.
    fn find(&self, receipt: u64, now: Instant, is_deletion: bool) -> Option<u64> {
        let sequence = *self.receipts.get(&receipt)?;
        let stored = self.messages.get(&sequence)?;
        let outlives = is_deletion && self.kind() == QueueKind::Standard;
        (outlives || stored.visible_at > now).then_some(sequence)
    }

    /// Sets the visibility of a delivery anew.
    pub(super) fn extend(&mut self, receipt: u64, visibility: Duration, now: Instant) -> ReceiptStatus {
        self.tidy(now);
        let found = self.find(receipt, now, false);
        let Some(stored) = found.and_then(|sequence| self.messages.get_mut(&sequence)) else {
            return ReceiptStatus::Stale;
        };
        stored.visible_at = now + whole_seconds(visibility);
        ReceiptStatus::Honoured
    }

    /// Deletes a message. A standard queue of AWS takes a receipt that it once gave out without a word, and does nothing.
    pub(super) fn delete(&mut self, receipt: u64, now: Instant) -> ReceiptStatus {
        self.tidy(now);
        let was_given_out = (1..=self.deliveries).contains(&receipt);
        match self.find(receipt, now, true) {
            Some(sequence) => {
                self.messages.remove(&sequence);
                self.receipts.remove(&receipt);
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
            self.messages.clear();
            self.receipts.clear();
            self.purged = Some(now);
        }
        is_free
    }

    pub(super) fn counts(&mut self, now: Instant) -> Counts {
        self.tidy(now);
        let mut counts = Counts::default();
        for stored in self.messages.values() {
            if stored.is_in_flight(now) {
                counts.in_flight += 1;
            } else if stored.visible_at > now {
                counts.delayed += 1;
            } else {
                counts.visible += 1;
            }
        }
        counts
    }

    /// The next time at which a message may become receivable by itself.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        let times = self.messages.values().map(|stored| stored.visible_at);
        times.filter(|at| *at > now).min()
    }
}

/// Number of a message as a text that sorts like it.
pub(super) fn sequence_text(number: u64) -> String {
    format!("{number:020}")
}
