use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{JobConfig, JobId, JobKey, Pipeline, VolumeId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    Created,
    Running,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl JobStatus {
    pub const ALL: [Self; 6] = [
        Self::Created,
        Self::Running,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether a job in this status has a `finished_at`.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// One run of a pipeline over volumes.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: JobId,
    pub key: JobKey,
    /// Name of the operation, `ocr` for the default pipeline.
    pub operation: String,
    pub pipeline: Pipeline,
    pub config: JobConfig,
    pub status: JobStatus,
    pub created_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
}

/// What `create_job` writes.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// `None` names the job `J{id}`.
    pub key: Option<JobKey>,
    pub operation: String,
    pub pipeline: Pipeline,
    pub config: JobConfig,
    /// Tries that each task may fail before it is terminal.
    pub max_attempts: i32,
    /// One task each, in this order; a repeated volume is one task.
    pub volumes: Vec<VolumeId>,
}
