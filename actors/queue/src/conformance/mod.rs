//! Conformance suite of queues, which every implementation passes.
//!
//! It has two halves: cases, one a promise, and random histories, judged by a model that knows only what SQS promises. Both go by
//! tokio's clock, so that they take no time where it is paused and real time against a server. What a server does otherwise than AWS is
//! a [`Deviation`]; the suite asserts each that does not hang on chance, so that one which a new version of the server has mended is
//! found.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: it lives here because other crates' queues pass it too"
)]

mod cases;
mod chance;
mod letters;
mod model;
mod order;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use uuid::Uuid;

use crate::{DeadLetters, Delivery, QueueKind, QueueServer, QueueSpec, Receive, TaskQueue};

pub use chance::{Deed, Pace, deeds, history, sampled_histories};

/// Behaviour of a server that is not that of AWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// It knows no StartMessageMoveTask, so that messages leave a dead-letter queue by hand.
    NoMoveTask,
    /// It purges again within a minute.
    PurgesAtOnce,
    /// In a standard queue a receipt that another delivery has replaced still deletes the message and sets its visibility.
    HonoursReplacedReceipts,
    /// A receipt whose time is over is honoured until the message is received again, in a FIFO queue and for extensions too.
    HonoursExpiredReceipts,
    /// Two receives at one moment may get the same message, which a standard queue never promises to prevent. It is a race, and alone
    /// among these not asserted.
    RacesReceives,
    /// It does not say from which queue it moved a message to the dead-letter queue.
    ForgetsSource,
}

/// Server under test.
#[derive(Debug, Clone)]
pub struct Site {
    pub server: Arc<dyn QueueServer>,
    /// Kinds of queues on which it can be relied.
    pub kinds: &'static [QueueKind],
    pub deviations: &'static [Deviation],
    /// Time by which the servers' answers may be late.
    pub slack: Duration,
    /// True where answers get lost: then a message may have been received once more than is known, and a release may find that it was
    /// carried out before.
    pub loses_answers: bool,
    /// Beginning of the names of this run's queues.
    run: String,
}

impl Site {
    pub fn new(
        server: Arc<dyn QueueServer>,
        kinds: &'static [QueueKind],
        deviations: &'static [Deviation],
        slack: Duration,
    ) -> Self {
        let run = format!("run-{}", Uuid::new_v4().simple());
        Self {
            server,
            kinds,
            deviations,
            slack,
            loses_answers: false,
            run,
        }
    }

    /// The same server, of which answers get lost.
    pub fn losing_answers(self) -> Self {
        Self {
            loses_answers: true,
            ..self
        }
    }

    fn deviates(&self, deviation: Deviation) -> bool {
        self.deviations.contains(&deviation)
    }

    /// Description of a queue for one case, with a dead-letter queue after `max_receives`.
    fn spec(&self, case: &str, kind: QueueKind, max_receives: u32) -> QueueSpec {
        let ending = match kind {
            QueueKind::Standard => "",
            QueueKind::Fifo => ".fifo",
        };
        let mut spec = QueueSpec::new(format!("{}-{case}{ending}", self.run));
        spec.dead_letters = spec.dead_letters.map(|letters| DeadLetters {
            max_receives,
            ..letters
        });
        spec
    }

    async fn queue(&self, case: &str, kind: QueueKind) -> Arc<dyn TaskQueue> {
        let spec = self.spec(case, kind, 5);
        self.server.create(&spec).await.unwrap()
    }
}

type Case = for<'a> fn(&'a Site, QueueKind) -> BoxFuture<'a, ()>;

/// Cases of all kinds of queues.
const CASES: [(&str, Case); 15] = [
    ("carries", |site, kind| {
        Box::pin(cases::carries_messages_whole(site, kind))
    }),
    ("deletes", |site, kind| {
        Box::pin(cases::deletes_for_good(site, kind))
    }),
    ("holds", |site, kind| {
        Box::pin(cases::holds_for_the_visibility(site, kind))
    }),
    ("extends", |site, kind| {
        Box::pin(cases::extends_and_releases(site, kind))
    }),
    ("caps", |site, kind| Box::pin(cases::caps_extensions(site, kind))),
    ("stale", |site, kind| {
        Box::pin(cases::tells_stale_receipts(site, kind))
    }),
    ("waits", |site, kind| {
        Box::pin(cases::waits_for_messages(site, kind))
    }),
    ("counts", |site, kind| {
        Box::pin(cases::counts_and_purges(site, kind))
    }),
    ("refuses", |site, kind| {
        Box::pin(cases::refuses_what_no_queue_takes(site, kind))
    }),
    ("makes", |site, kind| {
        Box::pin(cases::makes_and_finds_queues(site, kind))
    }),
    ("settings", |site, kind| {
        Box::pin(settings::changes_settings(site, kind))
    }),
    ("missing", |site, kind| {
        Box::pin(settings::makes_what_is_missing(site, kind))
    }),
    ("consumers", |site, kind| {
        Box::pin(order::shares_among_consumers(site, kind))
    }),
    ("moves", |site, kind| {
        Box::pin(letters::moves_after_too_many_receives(site, kind))
    }),
    ("letters", |site, kind| {
        Box::pin(letters::puts_aside_and_takes_back(site, kind))
    }),
];

/// Cases of FIFO queues.
const FIFO_CASES: [(&str, Case); 4] = [
    ("groups", |site, _| Box::pin(order::holds_a_group(site))),
    ("expires", |site, _| {
        Box::pin(order::keeps_the_order_through_expiry(site))
    }),
    ("dedup", |site, _| Box::pin(order::drops_what_is_sent_again(site))),
    ("heldback", |site, _| {
        Box::pin(order::holds_back_behind_a_failure(site))
    }),
];

/// Cases of standard queues.
const STANDARD_CASES: [(&str, Case); 1] = [("delays", |site, _| Box::pin(cases::delays(site)))];

/// All cases, side by side, as most of them wait.
///
/// # Panics
///
/// When the server does not keep a promise of the trait.
pub async fn suite(site: &Site) {
    let mut running = Vec::new();
    for kind in site.kinds {
        let own: &[(&str, Case)] = match kind {
            QueueKind::Standard => &STANDARD_CASES,
            QueueKind::Fifo => &FIFO_CASES,
        };
        for (name, case) in CASES.iter().chain(own) {
            running.push(async move {
                // Shown where the test fails.
                eprintln!("{name} on {kind:?}");
                case(site, *kind).await;
                eprintln!("{name} on {kind:?} ended");
            });
        }
    }
    join_all(running).await;
}

const HOLD: Duration = Duration::from_secs(30);

/// Takes up to ten messages for half a minute.
async fn take(queue: &dyn TaskQueue) -> Vec<Delivery> {
    queue.receive(Receive::one(HOLD).up_to(10)).await.unwrap()
}

/// Takes the one message that is there.
#[track_caller]
fn single(deliveries: Vec<Delivery>) -> Delivery {
    assert_eq!(deliveries.len(), 1, "{:?}", bodies(&deliveries));
    deliveries.into_iter().next().unwrap()
}

fn bodies(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.body.as_str()).collect()
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A second, the unit of the protocol.
const SECOND: Duration = Duration::from_secs(1);
