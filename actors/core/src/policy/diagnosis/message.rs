//! Message of a task that waits, where work goes through queues.

use chrono::{DateTime, TimeDelta, Utc};

use super::Reason;
use crate::domain::{Publication, QueueRecord, StageName};

/// Time that the counts of SQS take to settle: a look sooner after a message was sent says nothing about it.
const SETTLING: TimeDelta = TimeDelta::minutes(1);

/// Facts about the message for the next lease of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Name of the queue of the stage.
    pub queue: String,
    pub publication: Publication,
    /// Latest look at the queue, if there was one.
    pub look: Option<QueueRecord>,
    /// True if an orchestrator leads: it publishes.
    pub has_publisher: bool,
}

/// Condition for a message to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// Its time comes: nobody could work on it when it was received.
    Due(DateTime<Utc>),
    /// The job has as many messages out and leases as its limits allow.
    Limits,
    /// The next round of publishing comes.
    NextRound,
}

impl Message {
    /// True if it is on its way, or somebody will send it.
    pub(super) const fn is_seen_to(&self) -> bool {
        self.has_publisher || matches!(self.publication, Publication::Sent { .. })
    }

    /// Reason why its task, which may run, does not yet.
    pub(super) fn reason(&self, stage: StageName, free: usize, now: DateTime<Utc>) -> Reason {
        let queue = self.queue.clone();
        if let Some(look) = self.look.as_ref().filter(|look| look.is_missing()) {
            return Reason::NoQueue {
                stage,
                queue,
                looked_at: look.looked_at,
            };
        }
        let (since, in_front) = match self.publication {
            Publication::Sent { at, in_front } => (at, in_front),
            Publication::Unsent { due, has_room } => {
                let until = match due.filter(|due| *due > now) {
                    Some(due) => Unsent::Due(due),
                    None if has_room => Unsent::NextRound,
                    None => Unsent::Limits,
                };
                return Reason::Unpublished { stage, queue, until };
            }
        };
        match self.look_after(since) {
            Some(look) if look.is_empty() => Reason::Missing {
                stage,
                queue,
                since,
                looked_at: look.looked_at,
            },
            Some(look) if look.visible + look.delayed == 0 => Reason::Received {
                stage,
                queue,
                since,
                looked_at: look.looked_at,
            },
            _ => Reason::InQueue {
                stage,
                queue,
                since,
                in_front,
                free,
            },
        }
    }

    /// Look at the queue whose counts have the message, which was sent then.
    fn look_after(&self, sent: DateTime<Utc>) -> Option<&QueueRecord> {
        let look = self.look.as_ref()?;
        (look.looked_at - sent >= SETTLING).then_some(look)
    }
}
