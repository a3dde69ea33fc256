//! Services that do stages for tasks: what they have in hand, and how they are doing.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Fence, StageName, Task, TaskId};

/// Job that a service has taken for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceJob {
    pub fence: Fence,
    /// Id that the service gave the job.
    pub job: String,
    /// Place at which the service writes its answers itself, which is made of what it was asked.
    pub place: Option<String>,
    pub submitted_at: DateTime<Utc>,
    /// Times that the service was asked about it.
    pub polls: u32,
    pub polled_at: Option<DateTime<Utc>>,
    /// Time at which the service told of it by itself for the first time.
    pub told_at: Option<DateTime<Utc>>,
}

impl ServiceJob {
    /// Job that was submitted a moment ago.
    pub fn new(fence: Fence, job: impl Into<String>, submitted_at: DateTime<Utc>) -> Self {
        Self {
            fence,
            job: job.into(),
            place: None,
            submitted_at,
            polls: 0,
            polled_at: None,
            told_at: None,
        }
    }

    /// True for the job of the same lease that has further parts, whose ids come behind those of the other with a space in between.
    pub fn continues(&self, other: &Self) -> bool {
        let further = self.job.strip_prefix(&other.job);
        self.fence == other.fence && further.is_some_and(|further| further.starts_with(' '))
    }
}

/// Message of a service about one of its jobs, kept until the leader carries it out.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceMessage {
    pub task: TaskId,
    pub stage: StageName,
    pub job: String,
    /// Status, result and error, as the service has told them.
    pub content: Value,
}

/// Lease of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceLease {
    pub task: Task,
    /// Job of the service for it; `None` until its answer to the submit is recorded.
    pub job: Option<String>,
}

/// Service that a node asks while a stage waits, as the node finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineRecord {
    pub service: String,
    /// Requests under way.
    pub in_flight: u64,
    /// Requests that were answered in the last minute.
    pub answers_lately: u64,
    /// Requests that were answered since the node began.
    pub answers: u64,
    /// Failures since then, by category.
    pub errors: BTreeMap<String, u64>,
    /// Failures in a row.
    pub failures: u32,
    /// Time before which the service is asked nothing; `None` if it does its work.
    pub paused_until: Option<DateTime<Utc>>,
    /// Last failure, where there was one since it last did its work.
    pub error: Option<String>,
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
    /// Jobs that it has taken.
    pub submits: u64,
    /// Failures of submits and of jobs, by category.
    pub errors: BTreeMap<String, u64>,
    pub told_at: DateTime<Utc>,
}
