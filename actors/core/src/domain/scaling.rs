//! Decisions of the autoscaler.

use chrono::{DateTime, Utc};

use super::Hardware;

/// Latest decision of the autoscaler for the workers of one kind of hardware, with the facts it was made on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalingRecord {
    pub hardware: Hardware,
    pub decided_at: DateTime<Utc>,
    /// Number of workers that there are to be.
    pub desired: u32,
    /// Largest number that was allowed.
    pub cap: u32,
    /// Reason, in a word or two.
    pub reason: String,
    /// Number of workers that there were.
    pub running: u32,
    /// Number of tasks that waited for stages of this hardware.
    pub waiting: u64,
    /// Number of tasks in such stages.
    pub in_work: u64,
    /// Time since which the first of the waiting tasks had waited.
    pub oldest: Option<DateTime<Utc>>,
    /// Time of the last change of the number, by which the next leader keeps the cooldown too.
    pub changed_at: Option<DateTime<Utc>>,
}
