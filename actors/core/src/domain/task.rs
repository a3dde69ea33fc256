//! Tasks, leases and their history.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    Attempt, DocumentKey, Generation, JobId, Position, StageError, StageName, TaskId, VolumeId, WorkerId,
};

/// Status of a task at its [`Position`]. `done` at a stage is a task that waits for the next one.
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

/// Right to run one stage of one task until a deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub worker: WorkerId,
    pub until: DateTime<Utc>,
}

/// Volume within a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    pub job_id: JobId,
    pub volume: VolumeId,
    /// PDF that the volume's pages come from; `None` where the source of scans knows the volume by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentKey>,
    pub position: Position,
    pub status: TaskStatus,
    /// Failed tries so far, over all stages.
    pub attempts: i32,
    /// Value of `attempts` at which the task is terminal if the retry scope is the task.
    pub max_attempts: i32,
    /// Number of failed tries that a fresh start allows. A rerun sets `max_attempts` to `attempts` plus this.
    // The key of records that shards keep in the artifact store.
    #[serde(rename = "allowance")]
    pub retry_budget: i32,
    /// Failed tries of the current stage; `retry_budget` of them are terminal if the retry scope is the stage.
    pub stage_attempts: i32,
    /// Failed tries that the stage itself grants, in place of the limits of the job: set by a failure of a stage that a service does,
    /// until the stage is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_tries: Option<i32>,
    pub generation: Generation,
    /// Lost leases in a row without progress, the sign of a poison volume.
    pub interruptions: i32,
    /// Tries in a row that ended because the storage was out of reach; they are not charged.
    #[serde(default)]
    pub outages: i32,
    /// Time before which the task is not run: the retry backoff.
    pub not_before: Option<DateTime<Utc>>,
    /// Lease, set exactly while `status` is running.
    pub lease: Option<Lease>,
    pub last_error: Option<StageError>,
    pub started_at: Option<DateTime<Utc>>,
    pub done_at: Option<DateTime<Utc>>,
    /// True if the stages to come recompute results that still stand: set by a rerun, until the last stage is done.
    pub forced: bool,
}

impl Task {
    /// Task that has not begun, which may fail `max_attempts` times.
    pub fn fresh(id: TaskId, job_id: JobId, volume: VolumeId, max_attempts: i32) -> Self {
        Self {
            id,
            job_id,
            volume,
            document: None,
            position: Position::Pending,
            status: TaskStatus::Pending,
            attempts: 0,
            max_attempts,
            retry_budget: max_attempts,
            stage_attempts: 0,
            stage_tries: None,
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

    /// Number of the try that runs now or would run next.
    pub fn attempt(&self) -> Attempt {
        Attempt(self.attempts + 1)
    }

    /// Fence of the lease, if the task is running a stage.
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

/// Fencing token of a lease, unique for ever: no two leases of a task share all of these. A write that does not match changes
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    pub task: TaskId,
    pub stage: StageName,
    pub attempt: Attempt,
    pub generation: Generation,
}

/// Status of a lease in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageRunStatus {
    Running,
    Done,
    Failed,
    /// The lease was lost, given back, deferred, or ended by a rerun; the try is not counted.
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
    /// Measurements of the stage about itself: counts, durations, models.
    pub metrics: serde_json::Value,
    pub fingerprint: Option<String>,
}

/// Results of a volume, written by `reduce`. Confidences are 0 to 1 and absent if the volume has no line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeResults {
    /// Pages with a row in the table of the first stage. Those that failed there have none, and are counted by `nb_errors` alone.
    pub total_images: i32,
    pub total_lines: i32,
    pub total_characters: i32,
    /// Sum of the durations of the stages, in milliseconds.
    pub processing_duration_ms: f32,
    /// Number of pages that were straightened.
    pub dewarping_applied_count: i32,
    /// Number of pages that failed.
    pub nb_errors: i32,
    pub confidence_mean: Option<f32>,
    pub confidence_p10: Option<f32>,
    pub confidence_p50: Option<f32>,
    pub confidence_p90: Option<f32>,
    /// Perplexity of the text, at least 1; absent if nobody knows the language.
    #[serde(default)]
    pub perplexity: Option<f32>,
}

/// Number of tasks of unfinished jobs at one position with one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCount {
    pub position: Position,
    pub status: TaskStatus,
    pub tasks: u64,
}

#[cfg(test)]
mod tests {
    use super::super::testing::task;
    use super::*;

    #[test]
    fn a_task_reads_and_writes_the_keys_of_records_that_lie_in_artifact_stores() {
        let task = task(1);
        let written = serde_json::to_value(&task).unwrap();
        assert_eq!(written["allowance"], task.retry_budget);
        assert_eq!(serde_json::from_value::<Task>(written).unwrap(), task);
    }
}
