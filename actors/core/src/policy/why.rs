//! Diagnosis of a task that does not run: the first thing that stands in its way.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::placement::{FreeSlots, Held, place};
use super::poison::is_suspect;
use super::transition::runnable_stage;
use crate::domain::{Job, JobStatus, PoolInfo, Position, StageError, StageName, Task, TaskStatus, WorkerId};

/// Obstacle that keeps a task from running: of several, the one that would have to go first.
#[derive(Debug, Clone, PartialEq)]
pub enum Blocker {
    /// All stages are done.
    Finished,
    /// The task failed for good.
    Failed { error: Option<StageError> },
    /// A worker holds the lease of the task.
    Running {
        stage: StageName,
        worker: WorkerId,
        until: DateTime<Utc>,
    },
    /// The lease ran out, and no pass has ended it yet.
    Overdue {
        stage: StageName,
        worker: WorkerId,
        since: DateTime<Utc>,
    },
    /// The job is not to be worked on.
    Job { status: JobStatus },
    /// The task failed and waits before it is tried again.
    BackingOff {
        stage: StageName,
        until: DateTime<Utc>,
        error: Option<StageError>,
    },
    /// No present node runs the stage.
    NoPool { stage: StageName },
    /// Nodes run the stage, and none of them has all the models that the job names for it.
    NoModel {
        stage: StageName,
        /// Models that the job names.
        wanted: Vec<String>,
        /// Models that the nodes which run the stage have loaded.
        loaded: Vec<String>,
    },
    /// The job holds as many leases as it may, at all stages or at this one.
    Limit {
        stage: StageName,
        key: &'static str,
        limit: usize,
        held: usize,
    },
    /// The task lost its node several times in a row and has to run alone, and no node of the stage is empty.
    Suspect { stage: StageName },
    /// All slots of the stage are in use, of nodes that have the job's models.
    NoSlot { stage: StageName, slots: usize },
    /// Nothing: the next pass gives it to a worker, or to another task whose turn it is.
    Nothing { stage: StageName, free: usize },
}

impl Blocker {
    /// Stage that the task waits for a worker for, now or once a slot is free.
    pub fn waits_to_be_placed(&self) -> Option<&StageName> {
        match self {
            Self::NoPool { stage }
            | Self::NoModel { stage, .. }
            | Self::Limit { stage, .. }
            | Self::Suspect { stage }
            | Self::NoSlot { stage, .. }
            | Self::Nothing { stage, .. } => Some(stage),
            Self::Finished
            | Self::Failed { .. }
            | Self::Running { .. }
            | Self::Overdue { .. }
            | Self::Job { .. }
            | Self::BackingOff { .. } => None,
        }
    }
}

/// Checks all conditions for a task to run, in the order in which placement does, and returns the first that does not hold.
///
/// `pools` are those of the nodes that are there, `held` the leases in force.
pub fn why(task: &Task, job: &Job, pools: &[PoolInfo], held: &[Held], now: DateTime<Utc>) -> Blocker {
    if task.position == Position::Done {
        return Blocker::Finished;
    }
    if let (Position::At(stage), Some(lease)) = (&task.position, &task.lease) {
        let (stage, worker) = (stage.clone(), lease.worker.clone());
        return match lease.until > now {
            true => Blocker::Running {
                stage,
                worker,
                until: lease.until,
            },
            false => Blocker::Overdue {
                stage,
                worker,
                since: lease.until,
            },
        };
    }
    let Some(stage) = runnable_stage(task, &job.pipeline, job.config.retry_scope) else {
        return Blocker::Failed {
            error: task.last_error.clone(),
        };
    };
    if job.status != JobStatus::Running {
        return Blocker::Job { status: job.status };
    }
    if let Some(until) = task.not_before.filter(|due| *due > now) {
        let error = task
            .last_error
            .clone()
            .filter(|_| task.status == TaskStatus::Failed);
        return Blocker::BackingOff {
            stage: stage.clone(),
            until,
            error,
        };
    }
    let of_stage = || pools.iter().filter(|pool| pool.stage == *stage && pool.slots > 0);
    if of_stage().next().is_none() {
        return Blocker::NoPool { stage: stage.clone() };
    }
    let suited = of_stage().filter(|pool| pool.suits(job));
    let slots: usize = suited.map(|pool| pool.slots).sum();
    if slots == 0 {
        let loaded: BTreeSet<&String> = of_stage().flat_map(|pool| &pool.models).collect();
        return Blocker::NoModel {
            stage: stage.clone(),
            wanted: job.config.models.of(stage).map(str::to_owned).collect(),
            loaded: loaded.into_iter().cloned().collect(),
        };
    }
    if let Some(blocker) = limit_reached(job, stage, held) {
        return blocker;
    }
    let free = FreeSlots::of(pools, held);
    let number = free.room_for(stage, job);
    let stage = stage.clone();
    match place(now, [(task, job)], free, held).is_empty() {
        false => Blocker::Nothing { stage, free: number },
        true if is_suspect(task) => Blocker::Suspect { stage },
        true => Blocker::NoSlot { stage, slots },
    }
}

fn limit_reached(job: &Job, stage: &StageName, held: &[Held]) -> Option<Blocker> {
    let in_all = leases(held, |lease| lease.job == job.id);
    let at_stage = leases(held, |lease| lease.job == job.id && lease.stage == *stage);
    let limits = [
        ("max_running", job.config.max_running, in_all),
        (
            "max_running_per_stage",
            job.config.max_running_per_stage,
            at_stage,
        ),
    ];
    let reached = limits
        .into_iter()
        .find(|(_, limit, held)| *limit > 0 && held >= limit);
    reached.map(|(key, limit, held)| Blocker::Limit {
        stage: stage.clone(),
        key,
        limit,
        held,
    })
}

fn leases(held: &[Held], wanted: impl Fn(&Held) -> bool) -> usize {
    held.iter()
        .filter(|held| wanted(held))
        .map(|held| held.leases)
        .sum()
}

#[cfg(test)]
mod tests;
