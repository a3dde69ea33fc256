use chrono::{DateTime, Utc};

use super::Hardware;

/// What the autoscaler decided last for the workers of one kind of hardware, and what it saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalingRecord {
    pub hardware: Hardware,
    pub decided_at: DateTime<Utc>,
    /// How many workers there are to be.
    pub desired: u32,
    /// The most that were allowed.
    pub cap: u32,
    /// Why, in a word or two.
    pub reason: String,
    /// Workers that were there.
    pub running: u32,
    /// Tasks that waited for stages of this hardware, and those in work.
    pub waiting: u64,
    pub in_work: u64,
    /// Since when the first of them had waited.
    pub oldest: Option<DateTime<Utc>>,
    /// When the number was changed last; whoever leads next keeps the cooldown, too.
    pub changed_at: Option<DateTime<Utc>>,
}
