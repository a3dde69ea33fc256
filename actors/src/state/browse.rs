//! What operators ask about many tasks: pages of a list, failures by cause, and what was done by whom. Nothing is decided by it.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::domain::{
    ErrorCategory, JobStatus, Pipeline, Position, StageName, Task, TaskId, TaskStatus, VolumeId,
};
use crate::policy::transition::Phase;

/// A page of a job's tasks, in the order of their ids.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPage {
    pub tasks: Vec<Task>,
    /// To be given as [`TaskQuery::after`] for the next page, if there is one.
    pub next: Option<TaskId>,
}

impl TaskPage {
    /// Of tasks in order, one more than the limit if there are so many.
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

/// Which tasks of a job to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskQuery {
    pub phase: Option<ListedPhase>,
    pub stage: Option<AtStage>,
    /// Only tasks behind this one.
    pub after: Option<TaskId>,
    /// At most so many.
    pub limit: u32,
}

/// Only tasks that have to do with a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtStage {
    /// That wait for it, are in it, or failed at it.
    Next(StageName),
    /// That came to it last: those that are in it or failed at it, and those that have done it and wait for the one after it.
    Last(StageName),
}

impl AtStage {
    pub(super) const fn name(&self) -> &StageName {
        match self {
            Self::Next(stage) | Self::Last(stage) => stage,
        }
    }

    /// Where tasks with which the stage has to do wait, besides those that have begun with it.
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

/// How far tasks are, in the words of operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListedPhase {
    /// To be begun or gone on with.
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
    /// Of a job that was not cancelled.
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
    /// The phases of tasks by themselves that are this one in a job of the status.
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

/// A finished volume of a job, and how long its stages took together.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowVolume {
    pub volume: String,
    pub seconds: f64,
    pub pages: u64,
}

/// A finished volume with pages that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoiltVolume {
    pub task: TaskId,
    pub volume: VolumeId,
    pub failed_pages: u64,
}

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorGroup {
    pub stage: String,
    pub category: ErrorCategory,
    /// What they have in common; see [`Cause`](crate::policy::rerun::Cause).
    pub cause: String,
    /// A message of the group; in those of the others, numbers and quoted names differ.
    pub message: String,
    pub tasks: u64,
    /// How many of them have failed for good.
    pub terminal: u64,
    /// Some of the volumes.
    pub volumes: Vec<String>,
    /// When a failure was last written down that belongs to it.
    pub last: Option<DateTime<Utc>>,
}

/// A command that changed something, or tried to.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    pub at: DateTime<Utc>,
    /// When it was carried out or refused; none while it is under way, and where nobody knows how it ended.
    pub done_at: Option<DateTime<Utc>>,
    /// Who gave it, as far as that is known.
    pub who: String,
    /// Through which door it came.
    pub via: String,
    pub command: String,
    pub arguments: Value,
    /// Why it was refused, if it was.
    pub refusal: Option<String>,
}

/// Pages of finished volumes that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedPages {
    pub pages: u64,
    pub tasks: u64,
    /// Some of the volumes.
    pub volumes: Vec<String>,
}

/// How fast a stage has been lately.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    pub stage: StageName,
    pub runs_a_second: f64,
    pub pages_a_second: f64,
}
