//! Commands about single volumes of a job.
//!
//! A task is one volume within a job. These commands show its progress and history, find the reason for which it does not run, and
//! send it back. They change a task only by the transitions that the pure tables of `policy` allow, through the fenced writes of the
//! state store, like the orchestrator itself; so nothing here may set a status, and a command that comes too late is refused instead
//! of overwriting what happened meanwhile.

mod list;
mod requeue;
mod retry;
mod show;
mod why;

use chrono::{DateTime, Utc};
use clap::ValueEnum;
use parkhang_core::domain::{Job, JobKey, JobStatus, Position, Task, TaskStatus, VolumeId};
use parkhang_core::policy::task_state::TaskState;
use parkhang_core::policy::transition::{Phase, is_terminal};
use parkhang_state::ListedPhase;
use serde::Serialize;
use utoipa::ToSchema;

use super::command::Answer;
use super::{Admin, Refusal, jobs};

pub use self::list::List;
pub use self::requeue::Requeue;
pub use self::retry::Retry;
pub use self::show::{Results, Show};
pub use self::why::Why;

/// Progress of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not started, or waiting for its next stage.
    #[value(alias = "pending")]
    Waiting,
    Running,
    Done,
    /// Failed and to be tried again.
    Retrying,
    /// Failed for good.
    Failed,
    /// The job was cancelled before it was done.
    Cancelled,
}

impl State {
    /// Returns the phases of tasks that this state covers in a job that was not cancelled; none for the state that only a cancelled job
    /// has.
    pub fn phases(self) -> Vec<Phase> {
        let is_of = |phase: &Phase| ListedPhase::from(*phase) == self.into();
        Phase::ALL.into_iter().filter(is_of).collect()
    }

    pub fn of(task: &Task, job: &Job) -> Self {
        let state = Self::of_task(task, job);
        match (state, job.status) {
            // Cancelling a job does not change tasks that wait, so their own state still says that they do.
            (Self::Waiting | Self::Retrying, JobStatus::Cancelled) => Self::Cancelled,
            _ => state,
        }
    }

    fn of_task(task: &Task, job: &Job) -> Self {
        match (&task.position, task.status) {
            (Position::Done, _) => Self::Done,
            (_, TaskStatus::Running) => Self::Running,
            (_, TaskStatus::Failed) if is_terminal(task, job.config.retry_scope) => Self::Failed,
            (_, TaskStatus::Failed) => Self::Retrying,
            (_, TaskStatus::Pending | TaskStatus::Done) => Self::Waiting,
        }
    }

    pub const fn as_str(self) -> &'static str {
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

impl From<State> for ListedPhase {
    fn from(state: State) -> Self {
        match state {
            State::Waiting => Self::Waiting,
            State::Running => Self::Running,
            State::Done => Self::Done,
            State::Retrying => Self::Retrying,
            State::Failed => Self::Failed,
            State::Cancelled => Self::Cancelled,
        }
    }
}

/// Volume of a job, in one line.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TaskLine {
    /// Identifier of the volume, W-I.
    pub volume: String,
    pub task: i64,
    pub state: State,
    /// State in words, with the stage, such as `waiting for ocr`.
    pub words: String,
    /// Stage that it waits for, runs, or failed at.
    pub stage: Option<String>,
    /// Number of failed tries.
    pub attempts: i32,
    /// Number of workers lost in a row.
    pub interruptions: i32,
    /// Worker that runs it.
    pub worker: Option<String>,
    /// Error of its last failed try.
    pub error: Option<String>,
    pub started_at: Option<DateTime<Utc>>,
    pub done_at: Option<DateTime<Utc>>,
}

impl TaskLine {
    pub fn of(task: &Task, job: &Job) -> Self {
        let state = TaskState::of(task, job);
        let stage = match (&state, &task.position) {
            (TaskState::At { stage, .. }, _) | (_, Position::At(stage)) => Some(stage.to_string()),
            (_, Position::Pending | Position::Done) => None,
        };
        Self {
            volume: task.volume.to_string(),
            task: task.id.0,
            state: State::of(task, job),
            words: state.to_string(),
            stage,
            attempts: task.attempts,
            interruptions: task.interruptions,
            worker: task.lease.as_ref().map(|lease| lease.worker.to_string()),
            error: task.last_error.as_ref().map(|error| error.message.clone()),
            started_at: task.started_at,
            done_at: task.done_at,
        }
    }
}

/// Answer to a command that changed a volume: its state afterwards.
impl Answer for TaskLine {
    fn text(&self) -> String {
        format!("{}: {}", self.volume, self.words)
    }
}

pub async fn find(admin: &Admin, job: &JobKey, volume: &VolumeId) -> Result<(Job, Task), Refusal> {
    let job = jobs::find(admin, job).await?;
    let task = admin.store.task_of(job.id, volume).await?;
    match task {
        Some(task) => Ok((job, task)),
        None => Err(Refusal::NotFound(format!(
            "job {} has no volume {volume}",
            job.key
        ))),
    }
}

#[cfg(test)]
mod tests;
