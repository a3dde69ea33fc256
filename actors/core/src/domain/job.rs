//! Jobs and their status.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{JobConfig, JobId, JobKey, Pipeline, VolumeId};

/// Status of a job. The legal steps between them are those of [`crate::policy::job_action`], and the end of its last task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// Written, but not complete or not started yet.
    Created,
    /// Open: its tasks are handed out.
    Running,
    /// Open: stages that run go on to their end, and none is begun.
    Paused,
    /// Finished, with every task done.
    Completed,
    /// Finished, with at least one task that failed for good.
    Failed,
    /// Ended by an operator.
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

    /// Name in the database.
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

    /// True if nothing more is begun for a job in this status. Its `finished_at` is set once its last lease has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Run of a pipeline over volumes.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: JobId,
    pub key: JobKey,
    /// Name of the operation, `ocr` for the default pipeline.
    pub operation: String,
    pub pipeline: Pipeline,
    pub config: JobConfig,
    pub status: JobStatus,
    /// True if the job goes on when its tasks are over, as more may come, until it is closed. An ended job does not stand.
    pub standing: bool,
    pub created_at: DateTime<Utc>,
    /// Time at which the end of its last task was noticed; for a cancelled job, the end of its last lease.
    pub finished_at: Option<DateTime<Utc>>,
}

/// Job that is to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Name of the job; `None` names it `J{id}`.
    pub key: Option<JobKey>,
    pub operation: String,
    pub pipeline: Pipeline,
    pub config: JobConfig,
    /// Volumes, which become one task each, in this order; a repeated volume is one task.
    pub volumes: Vec<VolumeId>,
    /// True if the job is to stand, and may begin without volumes.
    pub standing: bool,
}
