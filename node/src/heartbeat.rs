//! Rule by which a silent node counts as lost.

use std::time::Duration;

use chrono::TimeDelta;

/// Heartbeats that a node may miss before it counts as lost.
pub const MISSED_HEARTBEATS: u32 = 4;

/// Longest silence of a node that still counts as there.
pub fn timeout(heartbeat: Duration) -> TimeDelta {
    TimeDelta::from_std(heartbeat * MISSED_HEARTBEATS).unwrap_or(TimeDelta::zero())
}
