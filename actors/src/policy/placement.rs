//! What a reconciler pass decides: waiting tasks are matched with free slots, and a volume that keeps killing its workers
//! is set aside.

mod queues;
mod slots;

use chrono::{DateTime, Utc};

use self::queues::Queues;
pub use self::queues::Shares;
pub use self::slots::FreeSlots;
use crate::domain::{ErrorCategory, Job, JobId, StageError, StageName, Task, TaskId, WorkerId};
use crate::policy::transition::{Event, runnable_stage};

/// A stage pool as the router sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub worker: WorkerId,
    pub stage: StageName,
    /// Tasks that it runs at once.
    pub slots: usize,
}

/// Leases in force of one job that a worker holds at one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub worker: WorkerId,
    pub job: JobId,
    pub stage: StageName,
    pub leases: usize,
}

/// A task that a pool shall run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub task: TaskId,
    pub stage: StageName,
    pub worker: WorkerId,
}

/// The stage that the task waits for, if its backoff is over. That its job runs is not looked at.
pub fn due_stage<'a>(task: &Task, job: &'a Job, now: DateTime<Utc>) -> Option<&'a StageName> {
    let due = task.not_before.is_none_or(|due| due <= now);
    runnable_stage(task, &job.pipeline, job.config.retry_scope).filter(|_| due)
}

/// Gives waiting tasks to free slots.
///
/// A stage's free slots go to the jobs of the highest priority; among equals, to the job that holds the fewest leases at
/// that stage, as long as its limits allow; within a job, to its oldest task. Stages near the end of their pipeline are
/// served first, so that a job at its limit finishes volumes instead of piling them up half-done. Each task goes to the
/// roomiest pool of its stage.
pub fn place<'a>(
    now: DateTime<Utc>,
    tasks: impl IntoIterator<Item = (&'a Task, &'a Job)>,
    mut free: FreeSlots<'_>,
    held: &'a [Held],
) -> Vec<Placement> {
    let mut queues = Queues::default();
    for (task, job) in tasks {
        if let Some(stage) = due_stage(task, job, now) {
            queues.push(job, stage, task.id);
        }
    }
    let mut shares = Shares::of(held);
    let mut placements = Vec::new();
    for queue in queues.nearest_to_the_end_first() {
        queue.serve(&mut free, &mut shares, &mut placements);
    }
    placements
}

/// What the loss of its worker means for a task: another try, or, after too many in a row, quarantine.
pub fn lost_lease(task: &Task, max_interruptions: i32) -> Event {
    let losses = task.interruptions + 1;
    if losses < max_interruptions {
        return Event::Interrupted;
    }
    let message = format!("lost its worker {losses} times in a row at {}", task.position);
    Event::Quarantined {
        error: StageError::new(task.position.as_str(), ErrorCategory::Poison, message),
    }
}

#[cfg(test)]
mod tests;
