//! Table of legal task transitions, the only one: `docs/transitions.md` shows it, and a test compares the two.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::{
    ErrorCategory, Generation, Lease, Pipeline, Position, RetryScope, StageError, StageName, Task,
    TaskStatus, WorkerId,
};

/// Event of a task. Nothing else changes a task's position or status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// The task is handed to a worker to run `stage`.
    Leased {
        stage: StageName,
        worker: WorkerId,
        until: DateTime<Utc>,
    },
    /// The stage that runs has written its artifacts.
    Succeeded,
    /// The stage that runs has failed; the try is charged. `not_before` holds the backoff of the retry policy.
    Failed {
        error: StageError,
        not_before: Option<DateTime<Utc>>,
    },
    /// The service that does the stage has failed or has no end; the try is charged to the stage alone, which grants so many.
    ServiceFailed {
        error: StageError,
        not_before: Option<DateTime<Utc>>,
        tries: i32,
    },
    /// The lease was lost (worker killed, node gone); the try is not charged, but a row of such losses is suspicious.
    Interrupted,
    /// The worker gave its lease back (drain, spot notice, no room after all); nothing is charged.
    Released,
    /// The storage is out of reach, whichever volume asks; nothing is charged. `not_before` is the time of the next try.
    Deferred {
        error: StageError,
        not_before: Option<DateTime<Utc>>,
    },
    /// The job was cancelled while the stage ran; nothing is charged.
    Cancelled,
    /// The volume kept killing its workers: failed for good.
    Quarantined { error: StageError },
    /// An operator wants `stage` and everything after it done again, and with `force` recomputed where it still stands.
    Rerun { stage: StageName, force: bool },
}

impl Event {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Leased { .. } => "leased",
            Self::Succeeded => "succeeded",
            Self::Failed { .. } => "failed",
            Self::ServiceFailed { .. } => "service_failed",
            Self::Interrupted => "interrupted",
            Self::Released => "released",
            Self::Deferred { .. } => "deferred",
            Self::Cancelled => "cancelled",
            Self::Quarantined { .. } => "quarantined",
            Self::Rerun { .. } => "rerun",
        }
    }
}

/// Meaning of a task's position, status and counters taken together; the left column of the transition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No stage has begun.
    Fresh,
    /// A worker holds the lease.
    Running,
    /// A stage is done and another follows.
    StageDone,
    /// A try was interrupted or put off; the stage waits for another worker.
    Waiting,
    /// The stage failed and may be tried again.
    FailedRetryable,
    /// The stage failed for good.
    FailedTerminal,
    /// All stages are done.
    Finished,
}

impl Phase {
    pub const ALL: [Self; 7] = [
        Self::Fresh,
        Self::Running,
        Self::StageDone,
        Self::Waiting,
        Self::FailedRetryable,
        Self::FailedTerminal,
        Self::Finished,
    ];

    /// Phase of `task`.
    ///
    /// # Errors
    ///
    /// [`Illegal::NoSuchState`] for a position and status that no event leads to.
    pub fn of(task: &Task, scope: RetryScope) -> Result<Self, Illegal> {
        match (&task.position, task.status) {
            (Position::Pending, TaskStatus::Pending) => Ok(Self::Fresh),
            (Position::At(_), TaskStatus::Running) => Ok(Self::Running),
            (Position::At(_), TaskStatus::Done) => Ok(Self::StageDone),
            (Position::At(_), TaskStatus::Pending) => Ok(Self::Waiting),
            (Position::At(_), TaskStatus::Failed) if is_terminal(task, scope) => Ok(Self::FailedTerminal),
            (Position::At(_), TaskStatus::Failed) => Ok(Self::FailedRetryable),
            (Position::Done, TaskStatus::Done) => Ok(Self::Finished),
            (Position::Pending, TaskStatus::Running | TaskStatus::Done | TaskStatus::Failed)
            | (Position::Done, TaskStatus::Pending | TaskStatus::Running | TaskStatus::Failed) => {
                Err(Illegal::NoSuchState {
                    position: task.position.clone(),
                    status: task.status,
                })
            }
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "(pending, pending)",
            Self::Running => "(stage, running)",
            Self::StageDone => "(stage, done)",
            Self::Waiting => "(stage, pending)",
            Self::FailedRetryable => "(stage, failed), tries left",
            Self::FailedTerminal => "(stage, failed), terminal",
            Self::Finished => "(done, done)",
        })
    }
}

/// Reason for which an event cannot happen to a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    #[error("a task cannot be at ({position}, {})", .status.as_str())]
    NoSuchState { position: Position, status: TaskStatus },
    #[error("a task at {phase} cannot be {event}")]
    NoSuchEdge { phase: Phase, event: &'static str },
    #[error("stage {requested} cannot be leased: {}", .runnable.as_ref().map_or_else(
        || "no stage of the pipeline is next".to_owned(), |stage| format!("{stage} is next")))]
    NotNext {
        requested: StageName,
        runnable: Option<StageName>,
    },
    #[error(
        "stage {stage} cannot be run again: the task has not come that far, or its pipeline lacks the stage"
    )]
    NotReached { stage: StageName },
}

/// True if `task` has failed and will not be retried under `scope`.
pub fn is_terminal(task: &Task, scope: RetryScope) -> bool {
    let used_up = match (task.stage_tries, scope) {
        (Some(tries), _) => task.stage_attempts >= tries,
        (None, RetryScope::Task) => task.attempts >= task.max_attempts,
        (None, RetryScope::Stage) => task.stage_attempts >= task.retry_budget,
    };
    let hopeless = task.last_error.as_ref().is_some_and(|error| !error.retryable);
    task.status == TaskStatus::Failed && (used_up || hopeless)
}

/// True if nothing is left to do for `task`: all stages are done, or it has failed for good.
pub fn is_finished(task: &Task, scope: RetryScope) -> bool {
    task.position == Position::Done || is_terminal(task, scope)
}

/// Stage that `task` can be leased for; `None` while it runs and when it is finished. `not_before` is not looked at.
pub fn runnable_stage<'a>(task: &Task, pipeline: &'a Pipeline, scope: RetryScope) -> Option<&'a StageName> {
    match Phase::of(task, scope).ok()? {
        Phase::Fresh | Phase::StageDone => pipeline.after(&task.position),
        Phase::Waiting | Phase::FailedRetryable => pipeline
            .stages()
            .iter()
            .find(|stage| task.position.as_str() == stage.as_str()),
        Phase::Running | Phase::FailedTerminal | Phase::Finished => None,
    }
}

/// Task after `event`. No two leases that this hands out share a [`crate::domain::Fence`]: a charged failure raises the
/// attempt, a success moves to another stage, and every event that would repeat a stage and attempt raises the generation.
///
/// # Errors
///
/// [`Illegal`] if the table has no row for the task's phase and the event.
pub fn next(
    task: &Task,
    pipeline: &Pipeline,
    scope: RetryScope,
    event: &Event,
    now: DateTime<Utc>,
) -> Result<Task, Illegal> {
    let phase = Phase::of(task, scope)?;
    match (phase, event) {
        (
            Phase::Fresh | Phase::StageDone | Phase::Waiting | Phase::FailedRetryable,
            Event::Leased { stage, worker, until },
        ) => {
            let runnable = runnable_stage(task, pipeline, scope);
            if runnable != Some(stage) {
                return Err(Illegal::NotNext {
                    requested: stage.clone(),
                    runnable: runnable.cloned(),
                });
            }
            let lease = Lease {
                worker: worker.clone(),
                until: *until,
            };
            Ok(leased(task, stage, lease, now))
        }
        (Phase::Running, Event::Succeeded) => Ok(succeeded(task, pipeline, now)),
        (Phase::Running, Event::Failed { error, not_before }) => {
            let counted = Task {
                stage_tries: None,
                ..task.clone()
            };
            Ok(failed(&counted, scope, error, *not_before))
        }
        (
            Phase::Running,
            Event::ServiceFailed {
                error,
                not_before,
                tries,
            },
        ) => {
            let granted = Task {
                stage_tries: Some(*tries),
                // Grows with the attempts, so that the tries of the other stages are what they were.
                max_attempts: task.max_attempts.saturating_add(1),
                ..task.clone()
            };
            Ok(failed(&granted, scope, error, *not_before))
        }
        (Phase::Running, Event::Interrupted) => Ok(Task {
            interruptions: task.interruptions + 1,
            ..released(task)
        }),
        (Phase::Running, Event::Released | Event::Cancelled) => Ok(released(task)),
        (Phase::Running, Event::Deferred { error, not_before }) => Ok(Task {
            outages: task.outages.saturating_add(1),
            not_before: *not_before,
            last_error: Some(error.clone()),
            ..released(task)
        }),
        (Phase::Running | Phase::Waiting, Event::Quarantined { error }) => Ok(quarantined(task, error)),
        (
            Phase::Fresh
            | Phase::Running
            | Phase::StageDone
            | Phase::Waiting
            | Phase::FailedRetryable
            | Phase::FailedTerminal
            | Phase::Finished,
            Event::Rerun { stage, force },
        ) => rerun(task, pipeline, phase, stage, *force),
        (Phase::Running | Phase::FailedTerminal | Phase::Finished, Event::Leased { .. })
        | (
            Phase::Fresh
            | Phase::StageDone
            | Phase::Waiting
            | Phase::FailedRetryable
            | Phase::FailedTerminal
            | Phase::Finished,
            Event::Succeeded
            | Event::Failed { .. }
            | Event::ServiceFailed { .. }
            | Event::Interrupted
            | Event::Released
            | Event::Deferred { .. }
            | Event::Cancelled,
        )
        | (
            Phase::Fresh
            | Phase::StageDone
            | Phase::FailedRetryable
            | Phase::FailedTerminal
            | Phase::Finished,
            Event::Quarantined { .. },
        ) => Err(Illegal::NoSuchEdge {
            phase,
            event: event.name(),
        }),
    }
}

fn leased(task: &Task, stage: &StageName, lease: Lease, now: DateTime<Utc>) -> Task {
    Task {
        position: Position::At(stage.clone()),
        status: TaskStatus::Running,
        lease: Some(lease),
        not_before: None,
        started_at: Some(now),
        ..task.clone()
    }
}

fn succeeded(task: &Task, pipeline: &Pipeline, now: DateTime<Utc>) -> Task {
    let is_last = pipeline.after(&task.position).is_none();
    Task {
        position: if is_last {
            Position::Done
        } else {
            task.position.clone()
        },
        status: TaskStatus::Done,
        stage_attempts: 0,
        stage_tries: None,
        interruptions: 0,
        outages: 0,
        lease: None,
        last_error: None,
        done_at: is_last.then_some(now),
        forced: task.forced && !is_last,
        ..task.clone()
    }
}

fn failed(task: &Task, scope: RetryScope, error: &StageError, not_before: Option<DateTime<Utc>>) -> Task {
    let after = Task {
        status: TaskStatus::Failed,
        attempts: task.attempts + 1,
        stage_attempts: task.stage_attempts + 1,
        // A worker that reports a failure has survived it, which ends the row of losses.
        interruptions: 0,
        outages: 0,
        lease: None,
        last_error: Some(error.clone()),
        ..task.clone()
    };
    Task {
        not_before: if is_terminal(&after, scope) {
            None
        } else {
            not_before
        },
        ..after
    }
}

fn released(task: &Task) -> Task {
    Task {
        status: TaskStatus::Pending,
        generation: after(task.generation),
        lease: None,
        ..task.clone()
    }
}

/// Task set aside as poison. The interruptions are kept: they are the evidence. The generation grows because the attempt does
/// not, and a reader of an earlier failure must not take this one for it.
fn quarantined(task: &Task, error: &StageError) -> Task {
    Task {
        status: TaskStatus::Failed,
        generation: after(task.generation),
        lease: None,
        not_before: None,
        last_error: Some(StageError {
            category: ErrorCategory::Poison,
            retryable: false,
            ..error.clone()
        }),
        ..task.clone()
    }
}

/// Task sent back to a stage. Attempts never shrink, as artifacts and messages carry them; the limit grows instead.
fn rerun(
    task: &Task,
    pipeline: &Pipeline,
    phase: Phase,
    stage: &StageName,
    force: bool,
) -> Result<Task, Illegal> {
    let not_reached = || Illegal::NotReached { stage: stage.clone() };
    let index_of = |name: &str| pipeline.stages().iter().position(|s| s.as_str() == name);
    let requested = index_of(stage.as_str()).ok_or_else(not_reached)?;
    let reached = match phase {
        // A task that has not begun can be sent to its first stage alone, where it gets its tries anew.
        Phase::Fresh => Some(0),
        Phase::Finished => Some(pipeline.stages().len()),
        Phase::StageDone => index_of(task.position.as_str()).map(|index| index + 1),
        Phase::Running | Phase::Waiting | Phase::FailedRetryable | Phase::FailedTerminal => {
            index_of(task.position.as_str())
        }
    };
    if reached.is_none_or(|reached| requested > reached) {
        return Err(not_reached());
    }
    let position = pipeline.before(stage).ok_or_else(not_reached)?;
    Ok(Task {
        status: if position == Position::Pending {
            TaskStatus::Pending
        } else {
            TaskStatus::Done
        },
        position,
        max_attempts: task.attempts.saturating_add(task.retry_budget),
        stage_attempts: 0,
        stage_tries: None,
        generation: after(task.generation),
        interruptions: 0,
        outages: 0,
        not_before: None,
        lease: None,
        last_error: None,
        done_at: None,
        forced: force,
        ..task.clone()
    })
}

fn after(generation: Generation) -> Generation {
    Generation(generation.0 + 1)
}

#[cfg(test)]
mod tests;
