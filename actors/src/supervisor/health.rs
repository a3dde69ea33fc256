use std::time::Duration;

use parkhang_core::policy::pool_health::FaultLimits;

/// Limits by which a node takes its pools for stuck or dead, and bounds on replacing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthPolicy {
    /// Time after which a pool is replaced because a stage run in it finished no page. Checked with each heartbeat.
    pub progress_window: Duration,
    /// Faults that a stage may have in a row, without a page read in between.
    pub faults: FaultLimits,
    /// Time limit for a renewed pool to answer its test.
    pub check_limit: Duration,
    /// Limit on pools that are restarted within `restart_window`; with one more the node ends.
    pub max_restarts: usize,
    /// Time for which a restart counts.
    pub restart_window: Duration,
    /// Delay before the first restart; doubled for each further one within `restart_window`, up to [`HealthPolicy::MAX_BACKOFF`].
    pub restart_backoff: Duration,
}

impl HealthPolicy {
    /// Longest delay before a restart.
    pub const MAX_BACKOFF: Duration = Duration::from_secs(30);
    /// Default of `check_limit`: long enough for a network on a processor that has other things to do.
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
