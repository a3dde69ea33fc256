use std::time::Duration;

use parkhang_core::policy::pool_health::FaultLimits;

/// When a node takes its pools for stuck or dead, and how often it replaces them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthPolicy {
    /// A pool is replaced when work in its hands finished no item for so long. Looked at with each heartbeat.
    pub progress_window: Duration,
    /// Faults that a stage may have in a row, without a page read in between.
    pub faults: FaultLimits,
    /// For a pool that was renewed to answer what it is known to answer.
    pub check_limit: Duration,
    /// Pools replaced within `restart_window` before the node gives up.
    pub max_restarts: usize,
    pub restart_window: Duration,
    /// Before the first restart; doubled for each further one within `restart_window`, up to [`HealthPolicy::MAX_BACKOFF`].
    pub restart_backoff: Duration,
}

impl HealthPolicy {
    pub const MAX_BACKOFF: Duration = Duration::from_secs(30);
    /// Long enough for a network on a processor that has other things to do.
    pub const CHECK_LIMIT: Duration = Duration::from_secs(30);
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            progress_window: Duration::from_secs(120),
            faults: FaultLimits {
                stalls: 5,
                silences: 2,
                renewals: 5,
            },
            check_limit: Self::CHECK_LIMIT,
            max_restarts: 10,
            restart_window: Duration::from_secs(60),
            restart_backoff: Duration::from_millis(200),
        }
    }
}
