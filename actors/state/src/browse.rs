//! Questions of operators about many tasks and their answers: parts of a list, failures by cause, paces, and the audit log.
//! Nothing is decided by them.

use chrono::{DateTime, Utc};
use serde_json::Value;

use parkhang_core::domain::{
    ErrorCategory, JobStatus, Pipeline, Position, StageName, Task, TaskId, TaskStatus, VolumeId,
    VolumeResults,
};
use parkhang_core::policy::transition::Phase;

/// Work of a service at stages of pipelines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceWork {
    /// Leases that it holds.
    pub in_flight: u64,
    /// Begin of the oldest of them.
    pub oldest: Option<DateTime<Utc>>,
    /// Jobs that it has taken lately.
    pub taken_lately: u64,
}

/// Part of the list of a job's tasks, in the order of their ids.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskListing {
    pub tasks: Vec<Task>,
    /// Value of [`TaskQuery::after`] for the next part, if there is one.
    pub next: Option<TaskId>,
}

impl TaskListing {
    /// Part of at most `limit` tasks, given tasks in order, one more than the limit if there are so many.
    pub(super) fn of(mut tasks: Vec<Task>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = tasks.len() > limit;
        tasks.truncate(limit);
        Self {
            next: tasks.last().filter(|_| has_more).map(|task| task.id),
            tasks,
        }
    }
}

/// Selection of tasks of a job. A field that is `None` admits all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskQuery {
    /// Phase of the tasks.
    pub phase: Option<ListedPhase>,
    /// Stage of the tasks, and their relation to it.
    pub stage: Option<AtStage>,
    /// Task before the first one of the listing, which does not have it.
    pub after: Option<TaskId>,
    /// Largest number of tasks in the listing.
    pub limit: u32,
}

/// Relation of a task to a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtStage {
    /// The stage comes next: the task waits for it, is in it, or failed at it.
    Next(StageName),
    /// The stage was reached last: the task is in it or failed at it, or has done it and waits for the one after it.
    Last(StageName),
}

impl AtStage {
    /// Name of the stage.
    pub(super) const fn name(&self) -> &StageName {
        match self {
            Self::Next(stage) | Self::Last(stage) => stage,
        }
    }

    /// Place of the tasks with this relation to the stage that are not in it.
    pub(super) fn waiting(&self, pipeline: &Pipeline) -> Option<(Position, TaskStatus)> {
        match self {
            Self::Last(stage) => Some((Position::At(stage.clone()), TaskStatus::Done)),
            Self::Next(stage) => pipeline.before(stage).map(|before| match before {
                Position::Pending => (before, TaskStatus::Pending),
                Position::At(_) | Position::Done => (before, TaskStatus::Done),
            }),
        }
    }
}

/// Progress of a task, in the words of operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListedPhase {
    /// Pending: to be begun or continued.
    Waiting,
    Running,
    Done,
    /// Failed, to be tried again.
    Retrying,
    /// Failed for good.
    Failed,
    /// Would wait or be tried again, had its job not been cancelled.
    Cancelled,
}

impl From<Phase> for ListedPhase {
    /// Phase in a job that was not cancelled.
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Fresh | Phase::StageDone | Phase::Waiting => Self::Waiting,
            Phase::Running => Self::Running,
            Phase::FailedRetryable => Self::Retrying,
            Phase::FailedTerminal => Self::Failed,
            Phase::Finished => Self::Done,
        }
    }
}

impl ListedPhase {
    /// Phases of the tasks by themselves that make up this one in a job with the status.
    pub(super) fn of_tasks(self, job: JobStatus) -> &'static [Self] {
        match (self, job == JobStatus::Cancelled) {
            (Self::Cancelled, true) => &[Self::Waiting, Self::Retrying],
            (Self::Cancelled, false) | (Self::Waiting | Self::Retrying, true) => &[],
            (Self::Waiting, false) => &[Self::Waiting],
            (Self::Retrying, false) => &[Self::Retrying],
            (Self::Running, _) => &[Self::Running],
            (Self::Done, _) => &[Self::Done],
            (Self::Failed, _) => &[Self::Failed],
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Finished volume of a job, with the sum of the durations of its stages.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowVolume {
    pub volume: String,
    pub seconds: f64,
    pub pages: u64,
}

/// Finished volume of a job, with what says how well it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeQuality {
    pub volume: VolumeId,
    pub results: VolumeResults,
    /// Its worst pages, as the stage has named them that summed it up; null where none has.
    pub worst_pages: Value,
}

/// Index by which volumes are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QualityIndex {
    /// The least sure recogniser first.
    Confidence,
    /// The most surprising text first.
    Perplexity,
}

/// Number of a job's finished volumes in a class of both indexes.
#[derive(Debug, Clone, PartialEq)]
pub struct QualityClass {
    /// Confidence from which the class reaches 0.05 up; `None` for volumes without one.
    pub confidence: Option<f64>,
    /// Perplexity from which the class reaches to the square root of 2 times as much; `None` for volumes without one.
    pub perplexity: Option<f64>,
    pub volumes: u64,
}

/// Finished volume with pages that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeWithFailedPages {
    pub task: TaskId,
    pub volume: VolumeId,
    pub failed_pages: u64,
}

/// Failed tasks of one stage and cause.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorGroup {
    pub stage: String,
    pub category: ErrorCategory,
    /// Text that their errors have in common; see [`Cause`](parkhang_core::policy::rerun::Cause).
    pub cause: String,
    /// Message of one of them; in those of the others, numbers and quoted names differ.
    pub message: String,
    pub tasks: u64,
    /// Number of the tasks that have failed for good.
    pub terminal: u64,
    /// Names of some of the volumes.
    pub volumes: Vec<String>,
    /// Time of the latest failure of the group.
    pub last: Option<DateTime<Utc>>,
}

/// Largest number of bytes of an answer with the newest of what is kept, however much may be asked for. One entry may be larger.
pub(crate) const MOST_ANSWERED: i64 = 8 << 20;

/// The newest of what is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Newest<T> {
    /// The newest one first.
    pub entries: Vec<T>,
    /// Whether there are others from before the last one.
    pub has_more: bool,
}

/// Which entries of the audit log are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only those from before this time.
    pub before: Option<DateTime<Utc>>,
    pub limit: u32,
    /// Whether long arguments are wanted in full; of others the beginning is answered, as a text.
    pub full: bool,
}

/// Entry of the audit log: a command that changed something, or tried to.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// Time at which the command was given.
    pub at: DateTime<Utc>,
    /// Time at which it was carried out or refused; `None` while it is under way, and where its end is not known.
    pub done_at: Option<DateTime<Utc>>,
    /// Name of the operator, as far as it is known.
    pub who: String,
    /// Interface through which the command came.
    pub via: String,
    pub command: String,
    pub arguments: Value,
    /// Reason of a refusal, if it was refused.
    pub refusal: Option<String>,
}

/// Pages of finished volumes that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedPages {
    pub pages: u64,
    /// Tasks that have such pages.
    pub tasks: u64,
    /// Names of some of the volumes.
    pub volumes: Vec<String>,
}

/// Numbers of runs of a stage that ended lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecentRuns {
    pub done: u64,
    pub failed: u64,
}

/// Recent throughput of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    pub stage: StageName,
    pub runs_a_second: f64,
    pub pages_a_second: f64,
}
