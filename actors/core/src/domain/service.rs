//! Services that do stages for tasks: what they have in hand, and how they are doing.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Fence, Task};

/// Job that a service has taken for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceJob {
    pub fence: Fence,
    /// Id that the service gave the job.
    pub job: String,
    pub submitted_at: DateTime<Utc>,
}

/// Lease of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceLease {
    pub task: Task,
    /// Job of the service for it; `None` until its answer to the submit is recorded.
    pub job: Option<String>,
}

/// Health of a service, as the leading orchestrator found it last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRecord {
    pub name: String,
    /// Failures in a row.
    pub failures: u32,
    /// Time before which the service is given nothing; `None` if it does its work.
    pub paused_until: Option<DateTime<Utc>>,
    /// Last failure.
    pub error: Option<String>,
    pub told_at: DateTime<Utc>,
}
