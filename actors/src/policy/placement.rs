//! What a reconciler pass does: leases that ran out are ended, volumes that keep killing their workers are set aside, and
//! waiting tasks are matched with free slots.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use crate::domain::{ErrorCategory, Job, StageError, StageName, Task, TaskId, TaskStatus, WorkerId};
use crate::policy::transition::{Event, runnable_stage};

/// A stage pool as the router sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub worker: WorkerId,
    pub stage: StageName,
    /// Tasks that it runs at once.
    pub slots: usize,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The lease ran out; the event is what that means for the task.
    End { task: TaskId, event: Event },
    Lease {
        task: TaskId,
        stage: StageName,
        worker: WorkerId,
    },
}

/// The stage that the task waits for, if its backoff is over.
fn due_stage<'a>(task: &Task, job: &'a Job, now: DateTime<Utc>) -> Option<&'a StageName> {
    let due = task.not_before.is_none_or(|due| due <= now);
    runnable_stage(task, &job.pipeline, job.config.retry_scope).filter(|_| due)
}

/// How many stages the task has before it, `stage` among them.
fn stages_to_go(job: &Job, stage: &StageName) -> usize {
    let stages = job.pipeline.stages().iter();
    stages.skip_while(|other| *other != stage).count()
}

/// Decides a pass over the open tasks. Slots are what the pools offer less the leases in force, so nothing a dead
/// process held can leak. Tasks nearest to their end go first, so that volumes finish instead of piling up half-done;
/// among equals the older task goes first.
pub fn decide<'a>(
    now: DateTime<Utc>,
    tasks: impl IntoIterator<Item = (&'a Task, &'a Job)>,
    pools: &[Pool],
    max_interruptions: i32,
) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let mut free: HashMap<&WorkerId, usize> = pools.iter().map(|pool| (&pool.worker, pool.slots)).collect();
    let mut waiting = Vec::new();
    for (task, job) in tasks {
        if let Some(lease) = task.lease.as_ref().filter(|_| task.status == TaskStatus::Running) {
            if lease.until <= now {
                decisions.push(Decision::End {
                    task: task.id,
                    event: lost_lease(task, max_interruptions),
                });
            } else if let Some(slots) = free.get_mut(&lease.worker) {
                *slots = slots.saturating_sub(1);
            }
        } else if let Some(stage) = due_stage(task, job, now) {
            waiting.push((stages_to_go(job, stage), task.id, stage));
        }
    }
    waiting.sort_by_key(|(remaining, task, _)| (*remaining, *task));
    for (_, task, stage) in waiting {
        let roomiest = pools
            .iter()
            .filter(|pool| pool.stage == *stage)
            .max_by_key(|pool| (free.get(&pool.worker).copied(), std::cmp::Reverse(&pool.worker)));
        let Some(pool) = roomiest else { continue };
        if let Some(slots) = free.get_mut(&pool.worker).filter(|slots| **slots > 0) {
            *slots -= 1;
            decisions.push(Decision::Lease {
                task,
                stage: stage.clone(),
                worker: pool.worker.clone(),
            });
        }
    }
    decisions
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

/// The earliest time at which a task that is backing off becomes due.
pub fn next_due<'a>(tasks: impl IntoIterator<Item = &'a Task>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    tasks
        .into_iter()
        .filter_map(|task| task.not_before)
        .filter(|due| *due > now)
        .min()
}

#[cfg(test)]
mod tests;
