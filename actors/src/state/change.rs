//! What a change does to a task and its history, given the row as it is: shared by all stores, so that they cannot
//! differ in it.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{Change, Expected, JobTaskCount, Outcome};
use crate::domain::{Adjustment, Job, JobStatus, Position, StageRun, StageRunStatus, Task};
use crate::policy::job_action::{self, Forbidden, JobAction};
use crate::policy::rerun::Rerun;
use crate::policy::transition::{self, Event};

/// The outcome of `change` on the row `task` of `job`, and the history row that an applied change begins or ends.
pub(crate) fn apply(
    task: &Task,
    job: &Job,
    change: &Change,
    now: DateTime<Utc>,
) -> (Outcome, Option<StageRun>) {
    if !is_expected(task, &change.expected) {
        return (Outcome::Fenced(Some(task.clone())), None);
    }
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

/// The rerun as changes to `tasks`, all of the job; and the tasks that it leaves alone.
pub(super) fn rerun_changes(job: &Job, rerun: &Rerun, tasks: &[Task]) -> (Vec<Change>, Vec<Task>) {
    let split = rerun.split(job, tasks);
    let changes = split.reached.into_iter();
    let changes = changes.map(|task| Change::new(Expected::of(task), rerun.event()));
    (
        changes.collect(),
        split.not_reached.into_iter().cloned().collect(),
    )
}

/// Whether a job may be adjusted so. A revision is for a job at rest, or one that has not begun: what is being made would be of two
/// configurations.
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

/// The tries of a task after its job's have been set to `max_attempts`: (`max_attempts`, `allowance`). No task becomes or
/// ceases to be terminal by this.
pub(super) fn tries(task: &Task, max_attempts: i32) -> (i32, i32) {
    let begun = task.max_attempts.saturating_sub(task.allowance);
    (
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
    let (leased, status, ended_at) = match change.event {
        Event::Leased { .. } => (after, StageRunStatus::Running, None),
        Event::Succeeded => (before, StageRunStatus::Done, Some(now)),
        Event::Failed { .. } | Event::Quarantined { .. } => (before, StageRunStatus::Failed, Some(now)),
        Event::Interrupted | Event::Released | Event::Deferred { .. } | Event::Rerun { .. } => {
            (before, StageRunStatus::Interrupted, Some(now))
        }
        Event::Cancelled => (before, StageRunStatus::Cancelled, Some(now)),
    };
    Some(StageRun {
        fence: leased.fence()?,
        status,
        worker: leased.lease.as_ref()?.worker.clone(),
        started_at: leased.started_at?,
        ended_at,
        error: match &change.event {
            Event::Failed { .. } | Event::Quarantined { .. } | Event::Deferred { .. } => {
                after.last_error.clone()
            }
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
