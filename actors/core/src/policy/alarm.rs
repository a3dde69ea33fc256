//! Alarms about a queue: which stand, by what was seen of the queue and which stood before.
//!
//! The counts of SQS are approximate, and a number may be at its bound for hours. So an alarm is raised at once and called off late:
//! at a lower level than that at which it was raised, and only once its cause has been away for [`CALM`].

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::{Alarm, AlarmKind, Hardware, NodeRecord, NodeState, QueueRecord};

/// Time for which the cause of an alarm must be away until it is called off: longer than the counts of SQS take to settle.
pub const CALM: TimeDelta = TimeDelta::minutes(2);
/// Share of a quota in per cent from which on there is an alarm.
const NEAR: u64 = 80;
/// Share of a quota in per cent below which an alarm is called off.
const FAR: u64 = 70;
/// Fewest ended runs, and fewest lost nodes, that say anything.
const EVIDENCE: u64 = 3;

/// Bounds beyond which there is an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Age of the oldest message that waits.
    pub max_age: TimeDelta,
    /// Most messages that may be in flight.
    pub in_flight: u64,
    /// Number of messages from the head of the queue among which SQS looks for a free group; `None` if the queue has no groups.
    pub scanned: Option<u64>,
    /// Time for which the queue keeps messages.
    pub retention: TimeDelta,
}

/// Facts about a queue and those who work on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sight {
    /// True if the queue does not exist.
    pub is_missing: bool,
    pub visible: u64,
    pub in_flight: u64,
    pub dead_letters: u64,
    /// Time at which the oldest message that waits was published.
    pub oldest: Option<DateTime<Utc>>,
    pub work: Work,
}

/// Work at a stage in the last minutes, and the nodes that did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Runs that succeeded.
    pub done: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Nodes that are there.
    pub nodes: u64,
    /// Nodes that were lost, which did not say that they leave.
    pub lost: u64,
}

/// Time before now in which runs must have ended, and nodes been lost, to be counted.
pub const LATELY: TimeDelta = TimeDelta::minutes(10);

impl Work {
    /// Work by the numbers of runs that ended lately, and by the records of the nodes with the hardware that the stage runs on.
    pub fn of(done: u64, failed: u64, hardware: Hardware, nodes: &[NodeRecord], now: DateTime<Utc>) -> Self {
        let fit = || {
            nodes
                .iter()
                .filter(|node| node.roles.iter().any(|role| role == hardware.as_str()))
        };
        let was_lost = |node: &&NodeRecord| node.state == NodeState::Lost && now - node.last_seen <= LATELY;
        Self {
            done,
            failed,
            nodes: fit().filter(|node| node.state.is_there()).count() as u64,
            lost: fit().filter(was_lost).count() as u64,
        }
    }
}

/// Level of a number in view of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// It raises the alarm.
    Over,
    /// It keeps one that stands.
    Between,
    Under,
}

/// Time since which messages wait in a queue without a break, by its looks: for one whose messages others send, at times that nobody here
/// knows. `before` is the look before this one.
pub fn waiting_since(
    visible: u64,
    before: Option<&QueueRecord>,
    now: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    let since = before.and_then(|look| look.oldest);
    (visible > 0).then_some(since.unwrap_or(now))
}

/// Alarms that stand now, in the order of their kinds, where these stood `before`.
pub fn standing(bounds: &Bounds, sight: &Sight, before: &[Alarm], now: DateTime<Utc>) -> Vec<Alarm> {
    let standing = AlarmKind::ALL.into_iter().filter_map(|kind| {
        let stood = before.iter().find(|alarm| alarm.kind == kind);
        stands(kind, stood, level(kind, bounds, sight, now), now)
    });
    standing.collect()
}

fn stands(kind: AlarmKind, stood: Option<&Alarm>, level: Level, now: DateTime<Utc>) -> Option<Alarm> {
    match (stood, level) {
        (_, Level::Over) => Some(Alarm {
            kind,
            since: stood.map_or(now, |alarm| alarm.since),
            held_at: now,
        }),
        (Some(alarm), Level::Between) => Some(Alarm {
            held_at: now,
            ..*alarm
        }),
        (Some(alarm), Level::Under) if now - alarm.held_at < calm(kind) => Some(*alarm),
        (_, Level::Between | Level::Under) => None,
    }
}

/// Time for which the cause of an alarm must be away until it is called off. That a queue is there is no matter of counts.
const fn calm(kind: AlarmKind) -> TimeDelta {
    match kind {
        AlarmKind::Missing => TimeDelta::zero(),
        _ => CALM,
    }
}

fn level(kind: AlarmKind, bounds: &Bounds, sight: &Sight, now: DateTime<Utc>) -> Level {
    let age = sight.oldest.map_or(TimeDelta::zero(), |oldest| now - oldest);
    let Work {
        done,
        failed,
        nodes,
        lost,
    } = sight.work;
    match kind {
        AlarmKind::Age => of(age > bounds.max_age, false),
        AlarmKind::DeadLetters => of(sight.dead_letters > 0, false),
        AlarmKind::Failures => of(failed >= EVIDENCE && failed >= done, failed * 2 > done),
        AlarmKind::Crashes => of(lost >= EVIDENCE && lost >= nodes, lost * 2 > nodes),
        AlarmKind::InFlight => share(sight.in_flight, bounds.in_flight),
        AlarmKind::Backlog => bounds
            .scanned
            .map_or(Level::Under, |scanned| share(sight.visible, scanned)),
        AlarmKind::Retention => share(seconds(age), seconds(bounds.retention)),
        AlarmKind::Missing => of(sight.is_missing, false),
    }
}

const fn of(is_over: bool, is_kept: bool) -> Level {
    match (is_over, is_kept) {
        (true, _) => Level::Over,
        (false, true) => Level::Between,
        (false, false) => Level::Under,
    }
}

const fn share(number: u64, quota: u64) -> Level {
    let hundredfold = number.saturating_mul(100);
    of(
        hundredfold >= quota.saturating_mul(NEAR),
        hundredfold >= quota.saturating_mul(FAR),
    )
}

fn seconds(time: TimeDelta) -> u64 {
    u64::try_from(time.num_seconds()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
