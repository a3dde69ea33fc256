//! Requests to SQS, were the fleet to take its work from queues. The decisions of the orchestrator stand for the order of the queues,
//! so that the runs are those of the simulation; from their times follows what publisher, nodes and dead-letter consumer ask of the
//! queues. A test compares the counts with the requests of the real ones.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::cluster::Address;
use crate::agenda::Millis;
use crate::prices::{QueueRequests, billed};
use crate::settings::{Polling, millis};
use parkhang_core::domain::{Fence, StageName};
use parkhang_queue::limits::MAX_BATCH;

/// Time of a round of the publisher, two transactions and a request: what becomes ready meanwhile is sent by the next one.
const ROUND: Millis = 20;
/// Time between two looks at the queues and at their dead letters.
const LOOK: Millis = 60_000;

/// Receives of a pool.
#[derive(Debug, Default)]
struct Asking {
    /// Time since when receives follow each other without a message.
    since: Option<Millis>,
    /// Time of the last answer, and how many more messages it may have brought.
    answer: Option<(Millis, usize)>,
}

/// Message of a lease.
#[derive(Debug)]
struct Held {
    received: Millis,
    set: Millis,
}

/// Requests of a fleet.
#[derive(Debug)]
pub(crate) struct QueueMeter {
    polling: Polling,
    requests: QueueRequests,
    asking: HashMap<(usize, usize), Asking>,
    held: HashMap<Fence, Held>,
    /// Time of the last request that ended messages of a pool, deleting them or giving them back, and how many more it has room for.
    ending: HashMap<(usize, usize, bool), (Millis, usize)>,
    /// Messages of the round under way, by stage, and its end.
    round: BTreeMap<StageName, u64>,
    round_ends: Millis,
}

impl QueueMeter {
    pub(crate) fn new(polling: Polling) -> Self {
        Self {
            polling,
            requests: QueueRequests::default(),
            asking: HashMap::new(),
            held: HashMap::new(),
            ending: HashMap::new(),
            round: BTreeMap::new(),
            round_ends: Millis::MIN,
        }
    }

    /// Takes note of tasks that may begin a stage: they are published.
    pub(crate) fn ready(&mut self, stage: &StageName, tasks: u64, now: Millis) {
        if now > self.round_ends {
            self.send();
            self.round_ends = now + ROUND;
        }
        *self.round.entry(stage.clone()).or_default() += tasks;
    }

    fn send(&mut self) {
        for messages in std::mem::take(&mut self.round).into_values() {
            self.requests.messages += messages;
            let (full, rest) = (messages / MAX_BATCH as u64, messages % MAX_BATCH as u64);
            self.requests.sends += full * billed(MAX_BATCH as u64);
            self.requests.sends += if rest > 0 { billed(rest) } else { 0 };
        }
    }

    /// Takes note of a pool that opens its queue and asks it for the first time.
    pub(crate) fn joined(&mut self, address: Address, now: Millis) {
        self.requests.finds += 1;
        let asking = Asking {
            since: Some(now),
            answer: None,
        };
        self.asking.insert((address.node, address.pool), asking);
    }

    /// Takes note of a message that a pool received, one of up to `room`, with so many slots still free.
    pub(crate) fn received(
        &mut self,
        address: Address,
        fence: &Fence,
        room: usize,
        free: usize,
        now: Millis,
    ) {
        let (received, set) = (now, now);
        self.held.insert(fence.clone(), Held { received, set });
        let asking = self.asking.entry((address.node, address.pool)).or_default();
        match &mut asking.answer {
            Some((at, more)) if *at == now && *more > 0 => *more -= 1,
            answer => {
                *answer = Some((now, room.min(MAX_BATCH).saturating_sub(1)));
                let empty = waits(asking.since.unwrap_or(now), now, self.polling.pause());
                self.requests.empty_receives += empty;
                self.requests.receives += empty + 1;
            }
        }
        asking.since = (free > 0).then_some(now);
    }

    /// Takes note of a pool with a free slot, which asks unless it does so already.
    pub(crate) fn has_room(&mut self, address: Address, now: Millis) {
        let asking = self.asking.entry((address.node, address.pool)).or_default();
        asking.since.get_or_insert(now);
    }

    /// Takes note of a lease that ended in order: its message is deleted, or given back, with those of the pool that end with it.
    pub(crate) fn completed(&mut self, address: Address, fence: &Fence, goes_on: bool, now: Millis) {
        if self.held.remove(fence).is_none() {
            return;
        }
        let ending = self.ending.entry((address.node, address.pool, goes_on));
        let (at, room) = ending.or_insert((now, 0));
        if *at == now && *room > 0 {
            *room -= 1;
            return;
        }
        (*at, *room) = (now, MAX_BATCH - 1);
        if goes_on {
            self.requests.visibility_changes += 1;
        } else {
            self.requests.deletes += 1;
        }
    }

    /// Takes note of a lease that was lost with its node: the message comes back, and whoever receives it deletes it.
    pub(crate) fn lost(&mut self, fence: &Fence) {
        if self.held.remove(fence).is_some() {
            self.requests.receives += 1;
            self.requests.deletes += 1;
        }
    }

    /// Takes note of a node that asks no more. The receive that waits is waited for, and was made.
    pub(crate) fn left(&mut self, node: usize, now: Millis) {
        for (_, asking) in self.asking.extract_if(|(asks, _), _| *asks == node) {
            if let Some(since) = asking.since {
                let empty = waits(since, now, self.polling.pause()) + 1;
                self.requests.empty_receives += empty;
                self.requests.receives += empty;
            }
        }
    }

    /// Takes note of the renewal of a pool's leases, which extends their messages where it is time.
    pub(crate) fn renewed(&mut self, fences: &[Fence], now: Millis) {
        let mut extended = 0;
        for fence in fences {
            let Some(held) = self.held.get_mut(fence) else {
                continue;
            };
            let (since, set) = (elapsed(held.received, now), elapsed(held.set, now));
            if self.polling.options.extension(since, set).is_some() {
                held.set = now;
                extended += 1;
            }
        }
        self.requests.visibility_changes += u64::div_ceil(extended, MAX_BATCH as u64);
    }

    /// The requests until the end, with those of a leader that had an eye on the queues of so many stages all the time.
    pub(crate) fn end(mut self, stages: usize, now: Millis) -> QueueRequests {
        self.send();
        let nodes: Vec<usize> = self.asking.keys().map(|(node, _)| *node).collect();
        for node in nodes {
            self.left(node, now);
        }
        let (stages, looks) = (stages as u64, (now / LOOK) as u64 + 1);
        // Each queue is found once, and by its settings its dead-letter queue.
        self.requests.finds += 2 * stages;
        self.requests.looks += stages + stages * looks;
        self.requests.receives += stages * looks;
        self.requests.empty_receives += stages * looks;
        self.requests
    }
}

/// Waits of this length that were over between two times.
fn waits(since: Millis, now: Millis, wait: Duration) -> u64 {
    ((now - since) / millis(wait).max(1)).unsigned_abs()
}

fn elapsed(since: Millis, now: Millis) -> Duration {
    Duration::from_millis((now - since).unsigned_abs())
}

#[cfg(test)]
mod tests;
