//! Rule by which a silent node counts as lost.

use std::time::Duration;

use chrono::TimeDelta;

/// Heartbeats that a node may miss before it counts as lost.
pub const MISSED_HEARTBEATS: u32 = 4;

/// Longest silence of a node that still counts as there.
pub fn timeout(heartbeat: Duration) -> TimeDelta {
    // A heartbeat too long for the type means that no node is ever lost, and not that all are.
    TimeDelta::from_std(heartbeat.saturating_mul(MISSED_HEARTBEATS)).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_beyond_all_bounds_loses_no_node() {
        assert_eq!(timeout(Duration::from_secs(5)), TimeDelta::seconds(20));
        assert_eq!(timeout(Duration::from_secs(u64::MAX / 5)), TimeDelta::MAX);
        assert_eq!(timeout(Duration::MAX), TimeDelta::MAX);
    }
}
