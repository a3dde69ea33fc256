//! Placement, the decision of a reconciler pass: waiting tasks are matched with free slots, and those that may kill their nodes
//! with empty nodes.

mod isolation;
mod queues;
mod slots;

use chrono::{DateTime, Utc};

use self::isolation::Suspects;
use self::queues::Queues;
pub use self::queues::Shares;
pub use self::slots::{Conduct, FreeSlots};
use crate::domain::{Fence, Job, JobId, StageName, Task, TaskId, WorkerId};
use crate::policy::poison::is_suspect;
use crate::policy::transition::runnable_stage;

/// Leases in force of one job that a worker holds at one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub worker: WorkerId,
    pub job: JobId,
    pub stage: StageName,
    pub leases: usize,
    /// Number of them that are of [suspects](is_suspect).
    pub suspects: usize,
}

/// Task that a pool shall run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub task: TaskId,
    pub stage: StageName,
    pub worker: WorkerId,
}

/// Stage that the task waits for, if its backoff is over. The status of its job is not looked at.
pub fn due_stage<'a>(task: &Task, job: &'a Job, now: DateTime<Utc>) -> Option<&'a StageName> {
    let due = task.not_before.is_none_or(|due| due <= now);
    runnable_stage(task, &job.pipeline, job.config.retry_scope).filter(|_| due)
}

/// Fence of the lease that the task would get next, if it may be leased at `now`.
pub fn next_fence(task: &Task, job: &Job, now: DateTime<Utc>) -> Option<Fence> {
    let stage = due_stage(task, job, now)?;
    Some(Fence {
        task: task.id,
        stage: stage.clone(),
        attempt: task.attempt(),
        generation: task.generation,
    })
}

/// Places waiting tasks on free slots.
///
/// A stage's free slots go to the jobs of the highest priority; among equals, to the job that holds the fewest leases at
/// that stage, as long as its limits allow; within a job, to its oldest task. Stages near the end of their pipeline are
/// served first, so that a job at its limit finishes volumes instead of piling them up half-done. Each task goes to the
/// roomiest pool of its stage that has the models which its job names and has not refused the job; a job for which there is none leaves
/// its turn to others.
///
/// Before all of these, suspects get empty nodes, and a node that runs one gets nothing else. Where no node is empty, one is
/// given nothing more until it is: the one that will be soonest, by the number of its leases. Suspects prefer nodes where the fewest
/// other volumes stood still, and then pools that have brought a stage to its end; all tasks prefer such pools among equally roomy ones.
pub fn place<'a>(
    now: DateTime<Utc>,
    tasks: impl IntoIterator<Item = (&'a Task, &'a Job)>,
    mut free: FreeSlots<'_>,
    held: &'a [Held],
) -> Vec<Placement> {
    let (mut queues, mut suspects) = (Queues::default(), Suspects::default());
    for (task, job) in tasks {
        match due_stage(task, job, now) {
            Some(stage) if is_suspect(task) => suspects.push(job, stage, task.id),
            Some(stage) => queues.push(job, stage, task.id),
            None => {}
        }
    }
    let mut shares = Shares::of(held);
    let mut placements = Vec::new();
    suspects.isolate(&queues, &mut free, &mut shares, &mut placements);
    for queue in queues.nearest_to_the_end_first() {
        queue.serve(&mut free, &mut shares, &mut placements);
    }
    placements
}

#[cfg(test)]
mod tests;
