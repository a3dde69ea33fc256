//! What a reconciler pass decides: waiting tasks are matched with free slots, and a volume that keeps killing its workers
//! is set aside.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use chrono::{DateTime, Utc};

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

/// Leases in force of one job that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub worker: WorkerId,
    pub job: JobId,
    pub leases: usize,
}

/// A task that a pool shall run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub task: TaskId,
    pub stage: StageName,
    pub worker: WorkerId,
}

/// Slots that no lease in force takes. They are computed anew each time, so nothing that a dead process held can leak.
#[derive(Debug, Clone)]
pub struct FreeSlots<'a> {
    /// Pools with free slots, the roomiest first, and among equals the first by name.
    by_stage: HashMap<&'a StageName, BinaryHeap<(usize, Reverse<&'a WorkerId>)>>,
}

impl<'a> FreeSlots<'a> {
    pub fn of(pools: &'a [Pool], held: &[Held]) -> Self {
        let mut taken: HashMap<&WorkerId, usize> = HashMap::with_capacity(held.len());
        for held in held {
            *taken.entry(&held.worker).or_default() += held.leases;
        }
        let mut by_stage: HashMap<&StageName, Vec<_>> = HashMap::new();
        for pool in pools {
            let taken = taken.get(&pool.worker).copied().unwrap_or(0);
            let free = pool.slots.saturating_sub(taken);
            if free > 0 {
                let pools = by_stage.entry(&pool.stage).or_default();
                pools.push((free, Reverse(&pool.worker)));
            }
        }
        Self {
            by_stage: by_stage
                .into_iter()
                .map(|(stage, pools)| (stage, BinaryHeap::from(pools)))
                .collect(),
        }
    }

    /// How many tasks could begin each stage; stages that are full are left out.
    pub fn room(&self) -> BTreeMap<StageName, usize> {
        let stages = self.by_stage.iter();
        stages
            .map(|(stage, pools)| ((*stage).clone(), pools.iter().map(|(free, _)| free).sum()))
            .collect()
    }

    fn take(&mut self, stage: &StageName) -> Option<&'a WorkerId> {
        let mut roomiest = self.by_stage.get_mut(stage)?.peek_mut()?;
        roomiest.0 -= 1;
        let (left, Reverse(worker)) = *roomiest;
        if left == 0 {
            PeekMut::pop(roomiest);
        }
        Some(worker)
    }
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

/// Gives waiting tasks to free slots. Tasks nearest to their end go first, so that volumes finish instead of piling up
/// half-done; among equals the older task goes first. Each goes to the roomiest pool of its stage.
pub fn place<'a>(
    now: DateTime<Utc>,
    tasks: impl IntoIterator<Item = (&'a Task, &'a Job)>,
    mut free: FreeSlots<'_>,
) -> Vec<Placement> {
    let mut waiting: Vec<(usize, TaskId, &StageName)> = tasks
        .into_iter()
        .filter_map(|(task, job)| {
            let stage = due_stage(task, job, now)?;
            Some((stages_to_go(job, stage), task.id, stage))
        })
        .collect();
    waiting.sort_by_key(|(remaining, task, _)| (*remaining, *task));
    waiting
        .into_iter()
        .filter_map(|(_, task, stage)| {
            Some(Placement {
                task,
                stage: stage.clone(),
                worker: free.take(stage)?.clone(),
            })
        })
        .collect()
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
