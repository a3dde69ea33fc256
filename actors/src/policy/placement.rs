//! What a reconciler pass does: leases that ran out are ended, volumes that keep killing their workers are set aside, and
//! waiting tasks are matched with free slots.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use crate::domain::{
    ErrorCategory, Job, Position, RetryScope, StageError, StageName, Task, TaskId, TaskStatus, WorkerId,
};
use crate::policy::transition::is_terminal;

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
    /// The lease ran out, or its holder does not exist any more.
    Interrupt(TaskId),
    /// The volume lost its workers too often in a row.
    Quarantine(TaskId, StageError),
    Lease {
        task: TaskId,
        stage: StageName,
        worker: WorkerId,
    },
}

/// The stage that the task would run next, if it waits for one: not running, not finished, and due.
pub fn next_stage(task: &Task, job: &Job, now: DateTime<Utc>) -> Option<StageName> {
    if task.not_before.is_some_and(|due| due > now) || is_terminal(task, job.config.retry_scope) {
        return None;
    }
    match (&task.position, task.status) {
        (Position::Done, _) | (_, TaskStatus::Running) => None,
        (Position::Pending, _) => Some(job.pipeline.first().clone()),
        (position @ Position::At(_), TaskStatus::Done) => job.pipeline.after(position).cloned(),
        (Position::At(stage), TaskStatus::Pending | TaskStatus::Failed) => Some(stage.clone()),
    }
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
                decisions.push(lost_lease(task, max_interruptions));
            } else if let Some(slots) = free.get_mut(&lease.worker) {
                *slots = slots.saturating_sub(1);
            }
        } else if let Some(stage) = next_stage(task, job, now) {
            let remaining = job.pipeline.stages().len() - stage_index(job, &stage);
            waiting.push((remaining, task.id, stage));
        }
    }
    waiting.sort_by_key(|(remaining, task, _)| (*remaining, *task));
    for (_, task, stage) in waiting {
        let roomiest = pools
            .iter()
            .filter(|pool| pool.stage == stage)
            .max_by_key(|pool| (free.get(&pool.worker).copied(), std::cmp::Reverse(&pool.worker)));
        let Some(pool) = roomiest else { continue };
        if let Some(slots) = free.get_mut(&pool.worker).filter(|slots| **slots > 0) {
            *slots -= 1;
            decisions.push(Decision::Lease {
                task,
                stage,
                worker: pool.worker.clone(),
            });
        }
    }
    decisions
}

/// What a lost lease means: another try, or, after too many in a row, quarantine.
pub fn lost_lease(task: &Task, max_interruptions: i32) -> Decision {
    if task.interruptions + 1 < max_interruptions {
        return Decision::Interrupt(task.id);
    }
    let message = format!(
        "lost its worker {} times in a row at {}",
        task.interruptions + 1,
        task.position
    );
    Decision::Quarantine(
        task.id,
        StageError::new(task.position.as_str(), ErrorCategory::Poison, message),
    )
}

/// The earliest time at which a task that is backing off becomes due.
pub fn next_due<'a>(tasks: impl IntoIterator<Item = &'a Task>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    tasks
        .into_iter()
        .filter_map(|task| task.not_before)
        .filter(|due| *due > now)
        .min()
}

fn stage_index(job: &Job, stage: &StageName) -> usize {
    job.pipeline.stages().iter().position(|s| s == stage).unwrap_or(0)
}

/// Whether nothing more will happen to the task by itself.
pub fn is_settled(task: &Task, scope: RetryScope) -> bool {
    task.position == Position::Done || is_terminal(task, scope)
}
