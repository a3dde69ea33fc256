//! Random histories of one queue and its dead-letter queue.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::model::Model;
use super::*;

/// Something that happens.
#[derive(Debug, Clone)]
pub enum Deed {
    /// New messages in these groups.
    Send {
        groups: Vec<usize>,
        delay: u32,
    },
    /// A message under the deduplication id of an earlier one.
    SendAgain {
        which: usize,
        group: usize,
    },
    Receive {
        max: usize,
        wait: u32,
        visibility: u32,
    },
    /// Receipts are used whether or not they are good: by consumers in time, late ones, and ones that are frozen for long.
    Delete {
        which: Vec<usize>,
    },
    Extend {
        which: usize,
        visibility: u32,
    },
    Release {
        which: usize,
    },
    DeadLetter {
        which: usize,
    },
    /// A consumer that forgets what it holds.
    Die {
        which: usize,
    },
    Count,
    Wait {
        millis: u64,
    },
}

/// Size of histories.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub deeds: usize,
    /// Longest time between two deeds.
    pub longest_wait: Duration,
    /// Longest visibility and delay in seconds.
    pub longest_hold: u32,
}

/// Histories of a queue of either kind.
pub fn deeds(pace: Pace) -> impl Strategy<Value = Vec<Deed>> {
    let group = || 0..3usize;
    let which = || 0..8usize;
    let hold = || 1..=pace.longest_hold;
    let longest = u64::try_from(pace.longest_wait.as_millis()).unwrap_or(u64::MAX);
    let wait = prop_oneof![6 => 0..4000u64, 1 => 0..longest.max(1)];
    let deed = prop_oneof![
        4 => (prop::collection::vec(group(), 1..4), prop_oneof![3 => Just(0), 1 => hold()])
            .prop_map(|(groups, delay)| Deed::Send { groups, delay }),
        2 => (which(), group()).prop_map(|(which, group)| Deed::SendAgain { which, group }),
        8 => (1..=10usize, 0..=1u32, hold()).prop_map(|(max, wait, visibility)| Deed::Receive { max, wait, visibility }),
        4 => prop::collection::vec(which(), 1..4).prop_map(|which| Deed::Delete { which }),
        3 => (which(), hold()).prop_map(|(which, visibility)| Deed::Extend { which, visibility }),
        2 => which().prop_map(|which| Deed::Release { which }),
        1 => which().prop_map(|which| Deed::DeadLetter { which }),
        1 => which().prop_map(|which| Deed::Die { which }),
        1 => Just(Deed::Count),
        4 => wait.prop_map(move |millis| Deed::Wait { millis: millis.min(longest) }),
    ];
    prop::collection::vec(deed, 1..pace.deeds)
}

/// One history, on a queue of its own.
///
/// # Panics
///
/// When the queue breaks a promise.
pub async fn history(site: &Site, number: usize, kind: QueueKind, deeds: &[Deed]) {
    let mut model = Model::new(site, number, kind).await;
    let all = async {
        for (place, deed) in deeds.iter().enumerate() {
            model.told(format!("{place} of {}: {deed:?}", deeds.len()));
            model.act(deed).await;
        }
        model.finish().await;
    };
    // Others may run beside it, which have nothing to tell.
    if let Err(panic) = AssertUnwindSafe(all).catch_unwind().await {
        eprintln!("{}", model.story());
        resume_unwind(panic);
    }
}

/// So many histories side by side, for servers whose time is real.
///
/// # Panics
///
/// When the queue breaks a promise.
pub async fn sampled_histories(site: &Site, histories: usize, pace: Pace) {
    let mut runner = TestRunner::default();
    let mut running = Vec::new();
    for number in 0..histories {
        let deeds = deeds(pace).new_tree(&mut runner).unwrap().current();
        let kind = site.kinds[number % site.kinds.len()];
        running.push(async move { history(site, number, kind, &deeds).await });
    }
    join_all(running).await;
}
