//! Changes of tasks, and their effect on a row and its history. Both stores apply them with these functions, so that they cannot
//! differ in it.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::JobTaskCount;
use parkhang_core::domain::{
    Adjustment, ErrorCategory, Fence, Generation, Job, JobStatus, Position, StageError, StageRun,
    StageRunStatus, Task, TaskId, TaskStatus, VolumeResults,
};
use parkhang_core::policy::job_action::{self, Forbidden, JobAction};
use parkhang_core::policy::rerun::Rerun;
use parkhang_core::policy::transition::{self, Event};

/// State of the task that a change expects; if the row differs, the change is fenced off and nothing is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Lease that the writer holds.
    Lease(Fence),
    /// Unleased state that the writer read.
    Idle {
        task: TaskId,
        position: Position,
        status: TaskStatus,
        attempts: i32,
        generation: Generation,
    },
}

impl Expected {
    /// Expectation of a writer that read `task` just now.
    pub fn of(task: &Task) -> Self {
        match task.fence() {
            Some(fence) => Self::Lease(fence),
            None => Self::Idle {
                task: task.id,
                position: task.position.clone(),
                status: task.status,
                attempts: task.attempts,
                generation: task.generation,
            },
        }
    }

    /// Task whose row is compared.
    pub fn task(&self) -> TaskId {
        match self {
            Self::Lease(fence) => fence.task,
            Self::Idle { task, .. } => *task,
        }
    }
}

/// Change of one task, written with everything that must become visible with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub expected: Expected,
    pub event: Event,
    /// Metrics for the `stage_runs` row that the event ends.
    pub metrics: Option<Value>,
    /// Fingerprint for the same row.
    pub fingerprint: Option<String>,
    /// Results of the volume, written in the transaction that records the success of `reduce`.
    pub results: Option<VolumeResults>,
}

impl Change {
    /// A change that carries nothing but its event.
    pub fn new(expected: Expected, event: Event) -> Self {
        Self {
            expected,
            event,
            metrics: None,
            fingerprint: None,
            results: None,
        }
    }
}

/// Outcome of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The change was written; the task is as it is afterwards.
    Applied(Task),
    /// The row was not in the expected state; it is returned in its present one, if there is one at all.
    Fenced(Option<Task>),
    /// The transition table has no row for the event in the state found; the text says why.
    Illegal(String),
    /// The database does not take what the change would write; the text says why. Nothing of it is written.
    Refused(String),
}

impl Outcome {
    /// Task after the change, if it was applied.
    pub fn applied(self) -> Option<Task> {
        match self {
            Self::Applied(task) => Some(task),
            Self::Fenced(_) | Self::Illegal(_) | Self::Refused(_) => None,
        }
    }
}

/// Change in the place of one that would end a lease and that the database refuses: the stage has failed, for that reason. A worker would
/// report the same again and again. `None` for a change that begins a lease.
pub(super) fn instead_of(change: &Change, reason: &str) -> Option<Change> {
    let Expected::Lease(fence) = &change.expected else {
        return None;
    };
    let message = format!("the database refuses what the stage reports: {reason}");
    let error = StageError {
        // Another node may report something else.
        retryable: true,
        ..StageError::new(fence.stage.as_str(), ErrorCategory::Unknown, message)
    };
    let not_before = None;
    Some(Change::new(
        change.expected.clone(),
        Event::Failed { error, not_before },
    ))
}

/// Outcome of `change` on the row `task` of `job`, and the history row that an applied change begins or ends.
pub fn apply(task: &Task, job: &Job, change: &Change, now: DateTime<Utc>) -> (Outcome, Option<StageRun>) {
    if !is_expected(task, &change.expected) {
        return (Outcome::Fenced(Some(task.clone())), None);
    }
    // The job may have been paused or cancelled since the task was chosen, and then nothing more of it
    // begins.
    if matches!(change.event, Event::Leased { .. }) && job.status != JobStatus::Running {
        let reason = format!("job {} is {}", job.key, job.status.as_str());
        return (Outcome::Illegal(reason), None);
    }
    match transition::next(task, &job.pipeline, job.config.retry_scope, &change.event, now) {
        Ok(after) => {
            let run = stage_run(task, &after, change, now);
            (Outcome::Applied(after), run)
        }
        Err(illegal) => (Outcome::Illegal(illegal.to_string()), None),
    }
}

/// Changes that the rerun makes to `tasks`, all of the job; and the tasks that it leaves alone.
pub(super) fn rerun_changes(job: &Job, rerun: &Rerun, tasks: &[Task]) -> (Vec<Change>, Vec<Task>) {
    let split = rerun.split(job, tasks);
    let changes = split
        .reached
        .into_iter()
        .map(|task| Change::new(Expected::of(task), rerun.event()))
        .collect();
    (changes, split.not_reached.into_iter().cloned().collect())
}

/// Checks that a job may be adjusted so. A revision is for a job at rest, or one that has not begun: the results of a running job
/// would be of two configurations.
pub(super) fn may_adjust(
    job: &Job,
    counts: &[JobTaskCount],
    adjustment: &Adjustment,
) -> Result<(), Forbidden> {
    let has_begun = counts.iter().any(|count| count.position != Position::Pending);
    if adjustment.is_revision && (has_begun || job.status == JobStatus::Cancelled) {
        job_action::after(job.status, JobAction::Update)?;
    }
    Ok(())
}

/// Tries of a task after those of its job have been set to `max_attempts`: (`max_attempts`, `retry_budget`). No task becomes or
/// ceases to be terminal by this.
pub(super) fn retry_limits(task: &Task, max_attempts: i32) -> (i32, i32) {
    // A rerun sets `max_attempts` to the attempts so far plus the budget, so the difference is what was used
    // up before it.
    let begun = task.max_attempts.saturating_sub(task.retry_budget);
    (
        // Both limits stay above what is used up, as a lower one would make the task terminal outside of a
        // transition.
        begun.saturating_add(max_attempts).max(task.attempts + 1),
        max_attempts.max(task.stage_attempts + 1),
    )
}

fn is_expected(task: &Task, expected: &Expected) -> bool {
    match expected {
        Expected::Lease(fence) => task.fence().as_ref() == Some(fence),
        Expected::Idle {
            task: id,
            position,
            status,
            attempts,
            generation,
        } => {
            // A task cannot be leased and come back to these values: each end of a lease changes one of them.
            task.lease.is_none()
                && task.id == *id
                && task.position == *position
                && task.status == *status
                && task.attempts == *attempts
                && task.generation == *generation
        }
    }
}

fn stage_run(before: &Task, after: &Task, change: &Change, now: DateTime<Utc>) -> Option<StageRun> {
    // The fence of a run is that of its lease. The task has it after the event that begins the lease, and
    // before one that ends it.
    let (leased, status, ended_at) = match change.event {
        Event::Leased { .. } => (after, StageRunStatus::Running, None),
        Event::Succeeded => (before, StageRunStatus::Done, Some(now)),
        Event::Failed { .. } | Event::ServiceFailed { .. } | Event::Quarantined { .. } => {
            (before, StageRunStatus::Failed, Some(now))
        }
        Event::Interrupted | Event::Released | Event::Deferred { .. } | Event::Rerun { .. } => {
            (before, StageRunStatus::Interrupted, Some(now))
        }
        Event::Cancelled => (before, StageRunStatus::Cancelled, Some(now)),
    };
    Some(StageRun {
        // A task that is quarantined or sent back without a lease has no run to end.
        fence: leased.fence()?,
        status,
        worker: leased.lease.as_ref()?.worker.clone(),
        started_at: leased.started_at?,
        ended_at,
        error: match &change.event {
            Event::Failed { .. }
            | Event::ServiceFailed { .. }
            | Event::Quarantined { .. }
            | Event::Deferred { .. } => after.last_error.clone(),
            Event::Leased { .. }
            | Event::Succeeded
            | Event::Interrupted
            | Event::Released
            | Event::Cancelled
            | Event::Rerun { .. } => None,
        },
        metrics: change
            .metrics
            .clone()
            .unwrap_or_else(|| Value::Object(serde_json::Map::new())),
        fingerprint: change.fingerprint.clone(),
    })
}
