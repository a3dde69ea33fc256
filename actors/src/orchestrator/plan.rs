//! What a pass would write, and what follows from how that went: the part of a pass that only reads and decides.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use tracing::{debug, info, warn};

use crate::telemetry::LeaseLost;
use parkhang_core::domain::{Assignment, Fence, Job, PoolInfo, Task, TaskId, WorkerId};
use parkhang_core::policy::placement::{self, FreeSlots, Placement};
use parkhang_core::policy::poison::{Loss, lost_lease};
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, Outcome, StateError, StateStore};

/// Limits of a pass.
#[derive(Debug, Clone, Copy)]
pub struct PassLimits {
    pub lease: Duration,
    pub max_interruptions: i32,
    /// Whether leases that ran out are ended.
    pub ends_leases: bool,
}

/// The changes of a pass, to be committed together.
#[derive(Debug, Default)]
pub struct Plan {
    pub changes: Vec<Change>,
    /// Beside each change: what follows from it.
    sequels: Vec<Sequel>,
    /// When a task that is backing off becomes due.
    pub next_due: Option<DateTime<Utc>>,
}

/// What follows a change once it is written.
#[derive(Debug)]
enum Sequel {
    /// The pool is told of its lease.
    Assign(WorkerId, Arc<Job>),
    /// The pool is told that its work is no longer wanted.
    Cancel(WorkerId, Fence),
    /// The task waits again.
    Lost,
}

/// What the commit of a plan brought about.
#[derive(Debug, Default)]
pub struct Granted {
    /// Leases that are written; their pools are to be told.
    pub assignments: Vec<(WorkerId, Assignment)>,
    /// Leases that have been taken back, as their jobs are cancelled; their pools are to be told.
    pub cancelled: HashMap<WorkerId, Vec<Fence>>,
    /// Leases that had run out and have been ended.
    pub ended: usize,
}

impl Plan {
    /// Reads the store and decides, for these pools.
    pub async fn make(
        store: &dyn StateStore,
        pools: &[PoolInfo],
        limits: PassLimits,
        now: DateTime<Utc>,
    ) -> Result<Self, StateError> {
        let in_force_at = if limits.ends_leases {
            now
        } else {
            DateTime::UNIX_EPOCH
        };
        let leases = store.leases(in_force_at).await?;
        let mut plan = Self::default();
        for task in &leases.expired {
            let change = node_lost(task, limits.max_interruptions);
            plan.push(change, Sequel::Lost);
        }
        for task in &leases.unwanted {
            if let (Some(fence), Some(lease)) = (task.fence(), &task.lease) {
                let sequel = Sequel::Cancel(lease.worker.clone(), fence.clone());
                plan.push(Change::new(Expected::Lease(fence), Event::Cancelled), sequel);
            }
        }
        let free = FreeSlots::of(pools, &leases.held);
        let room = free.room();
        if room.is_empty() {
            return Ok(plan);
        }
        let ready = store.ready_tasks(&room, now).await?;
        plan.next_due = ready.next_due;
        let by_id: HashMap<TaskId, &(Task, Arc<Job>)> =
            ready.tasks.iter().map(|entry| (entry.0.id, entry)).collect();
        let waiting = ready.tasks.iter().map(|(task, job)| (task, job.as_ref()));
        for Placement { task, stage, worker } in placement::place(now, waiting, free, &leases.held) {
            let Some((task, job)) = by_id.get(&task) else {
                continue;
            };
            let event = Event::Leased {
                stage,
                worker: worker.clone(),
                until: now + limits.lease,
            };
            plan.push(
                Change::new(Expected::of(task), event),
                Sequel::Assign(worker, job.clone()),
            );
        }
        Ok(plan)
    }

    fn push(&mut self, change: Change, sequel: Sequel) {
        self.changes.push(change);
        self.sequels.push(sequel);
    }

    /// What `outcomes`, one of each change in order, mean.
    pub fn granted(self, outcomes: Vec<Outcome>) -> Granted {
        let mut granted = Granted::default();
        for (outcome, sequel) in outcomes.into_iter().zip(self.sequels) {
            match (outcome, sequel) {
                (Outcome::Applied(task), Sequel::Assign(worker, job)) => {
                    let assignment = Assignment::of(task, &job).map(|assignment| (worker, assignment));
                    granted.assignments.extend(assignment);
                }
                (Outcome::Applied(task), Sequel::Cancel(worker, fence)) => {
                    info!(task = %task.id, volume = %task.volume, stage = %fence.stage, %worker, "lease of a cancelled job ended");
                    granted.cancelled.entry(worker).or_default().push(fence);
                }
                (Outcome::Applied(task), Sequel::Lost) => {
                    granted.ended += 1;
                    LeaseLost(&task).emit();
                }
                (Outcome::Fenced(_), _) => debug!("a task moved on while the pass decided"),
                (Outcome::Illegal(reason), _) => {
                    warn!(reason, "the reconciler asked for an illegal transition");
                }
            }
        }
        granted
    }
}

/// The end of a lease whose node is gone.
pub(super) fn node_lost(task: &Task, max_interruptions: i32) -> Change {
    Change::new(
        Expected::of(task),
        lost_lease(task, Loss::Node, max_interruptions),
    )
}

#[cfg(test)]
mod tests;
