use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Attempt, Generation, JobId, Position, StageError, StageName, TaskId, VolumeId, WorkerId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    Pending,
    Running,
    Done,
    Failed,
}

impl TaskStatus {
    pub const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Done, Self::Failed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// The right to run one stage of one task until a deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub worker: WorkerId,
    pub until: DateTime<Utc>,
}

/// One volume within a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    pub job_id: JobId,
    pub volume: VolumeId,
    pub position: Position,
    pub status: TaskStatus,
    /// Failed tries so far, over all stages.
    pub attempts: i32,
    /// `attempts` at which the task is terminal when the retry scope is the task.
    pub max_attempts: i32,
    /// Failed tries that a fresh start is worth. A rerun sets `max_attempts` to `attempts` plus this.
    pub allowance: i32,
    /// Failed tries of the current stage; `allowance` of them are terminal when the retry scope is the stage.
    pub stage_attempts: i32,
    pub generation: Generation,
    /// Lost leases in a row without progress; a poison volume shows here.
    pub interruptions: i32,
    /// Tries in a row that ended because the storage was out of reach; they are not charged.
    #[serde(default)]
    pub outages: i32,
    /// Not to be run before this time: the retry backoff.
    pub not_before: Option<DateTime<Utc>>,
    /// Set exactly while `status` is running.
    pub lease: Option<Lease>,
    pub last_error: Option<StageError>,
    pub started_at: Option<DateTime<Utc>>,
    pub done_at: Option<DateTime<Utc>>,
    /// The stages to come recompute what still stands: set by a rerun, until the last stage is done.
    pub forced: bool,
}

impl Task {
    /// A task that nobody has begun, worth `max_attempts` failed tries.
    pub fn fresh(id: TaskId, job_id: JobId, volume: VolumeId, max_attempts: i32) -> Self {
        Self {
            id,
            job_id,
            volume,
            position: Position::Pending,
            status: TaskStatus::Pending,
            attempts: 0,
            max_attempts,
            allowance: max_attempts,
            stage_attempts: 0,
            generation: Generation(0),
            interruptions: 0,
            outages: 0,
            not_before: None,
            lease: None,
            last_error: None,
            started_at: None,
            done_at: None,
            forced: false,
        }
    }

    /// The number of the try that runs now or would run next.
    pub fn attempt(&self) -> Attempt {
        Attempt(self.attempts + 1)
    }

    /// The fence of the lease in force, if the task is running a stage.
    pub fn fence(&self) -> Option<Fence> {
        match (&self.position, self.status) {
            (Position::At(stage), TaskStatus::Running) => Some(Fence {
                task: self.id,
                stage: stage.clone(),
                attempt: self.attempt(),
                generation: self.generation,
            }),
            _ => None,
        }
    }
}

/// Names one lease for ever: no two leases of a task share all of these. A write that does not match changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    pub task: TaskId,
    pub stage: StageName,
    pub attempt: Attempt,
    pub generation: Generation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageRunStatus {
    Running,
    Done,
    Failed,
    Interrupted,
    /// An operator cancelled the job.
    Cancelled,
}

impl StageRunStatus {
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Interrupted,
        Self::Cancelled,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// History of one lease: a row of `stage_runs`, never updated once it has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct StageRun {
    pub fence: Fence,
    pub status: StageRunStatus,
    pub worker: WorkerId,
    pub started_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
    pub error: Option<StageError>,
    /// What the stage measured about itself: counts, durations.
    pub metrics: serde_json::Value,
    pub fingerprint: Option<String>,
}

/// What `reduce` says of a volume. Confidences are 0 to 1 and absent when the volume has no line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeResults {
    pub total_images: i32,
    pub total_lines: i32,
    pub total_characters: i32,
    pub processing_duration_ms: f32,
    pub dewarping_applied_count: i32,
    pub nb_errors: i32,
    pub confidence_mean: Option<f32>,
    pub confidence_p10: Option<f32>,
    pub confidence_p50: Option<f32>,
    pub confidence_p90: Option<f32>,
}

/// Number of tasks of unfinished jobs at one position with one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCount {
    pub position: Position,
    pub status: TaskStatus,
    pub tasks: u64,
}
