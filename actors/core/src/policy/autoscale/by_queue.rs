//! Load of a stage by the counts of its queue alone, for a fleet that nobody leads.
//!
//! The counts are approximate, and a queue may say for a moment that it is empty while work goes on. They tell neither which worker does
//! nothing nor how long a message has waited. So a fleet falls only once all queues of its hardware have been empty for a while, when
//! nobody is at work; and the age is that of the backlog, the time for which messages have waited without a break.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Decision, Fleet, Load, Reason};

/// Time for which a queue must have been seen empty until that is believed: longer than the counts of SQS take to settle.
pub const SETTLING: TimeDelta = TimeDelta::minutes(2);

/// History of a queue, as far as a decision needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueHistory {
    busy_at: DateTime<Utc>,
    waiting_since: Option<DateTime<Utc>>,
}

impl QueueHistory {
    /// History of a queue that nobody has looked at. Until it has been seen empty for long enough it counts as busy.
    pub const fn new(now: DateTime<Utc>) -> Self {
        Self {
            busy_at: now,
            waiting_since: None,
        }
    }

    /// History after a look that found so many messages waiting and held.
    #[must_use]
    pub fn after(self, waiting: u64, held: u64, now: DateTime<Utc>) -> Self {
        Self {
            busy_at: if waiting + held > 0 { now } else { self.busy_at },
            waiting_since: (waiting > 0).then(|| self.waiting_since.unwrap_or(now)),
        }
    }

    /// History after a look that the queue did not answer: it may be busy.
    #[must_use]
    pub const fn unanswered(self, now: DateTime<Utc>) -> Self {
        Self { busy_at: now, ..self }
    }

    /// Latest time at which the queue was not seen empty.
    pub const fn busy_at(self) -> DateTime<Utc> {
        self.busy_at
    }

    /// Load of the stage, where the latest look found so many messages waiting and held. A worker holds one for each slot in use.
    pub const fn load(self, waiting: u64, held: u64) -> Load {
        Load {
            waiting,
            running: held,
            oldest: self.waiting_since,
        }
    }
}

/// The decision, where it is not a fall on counts that have not settled. `busy_at` is the latest time at which a queue of the workers was
/// not seen empty.
pub fn settled(decision: Decision, fleet: &Fleet, busy_at: DateTime<Utc>, now: DateTime<Utc>) -> Decision {
    match decision.reason {
        Reason::Empty | Reason::Idle if now - busy_at < SETTLING => Decision {
            desired: fleet.desired,
            reason: Reason::Cooldown,
        },
        _ => decision,
    }
}

#[cfg(test)]
mod tests;
