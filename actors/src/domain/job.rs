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

    /// Whether nothing more is begun for a job in this status. Its `finished_at` is set once its last lease has ended.
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
    /// When its last task ended; of a cancelled job, when the last lease was taken back.
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
    /// One task each, in this order; a repeated volume is one task.
    pub volumes: Vec<VolumeId>,
}
