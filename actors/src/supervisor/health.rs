use std::time::Duration;

/// When a node takes its pools for stuck or dead, and how often it replaces them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthPolicy {
    /// A pool is replaced when work in its hands finished no item for so long. Looked at with each heartbeat.
    pub progress_window: Duration,
    /// Pools replaced within `restart_window` before the node gives up.
    pub max_restarts: usize,
    pub restart_window: Duration,
    /// Before the first restart; doubled for each further one within `restart_window`, up to [`HealthPolicy::MAX_BACKOFF`].
    pub restart_backoff: Duration,
}

impl HealthPolicy {
    pub const MAX_BACKOFF: Duration = Duration::from_secs(30);
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            progress_window: Duration::from_secs(120),
            max_restarts: 10,
            restart_window: Duration::from_secs(60),
            restart_backoff: Duration::from_millis(200),
        }
    }
}
