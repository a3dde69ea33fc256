//! Plan of a pass: the changes that it would write, and what follows from their outcomes. The part of a pass that only reads and
//! decides, which the simulation shares.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use tracing::{debug, info, warn};

use crate::telemetry::LeaseLost;
use parkhang_core::domain::{Assignment, Fence, Job, PoolInfo, Task, TaskId, WorkerId};
use parkhang_core::policy::placement::{self, Conduct, FreeSlots, Placement};
use parkhang_core::policy::poison::{Loss, lost_lease};
use parkhang_core::policy::service::{self, ServiceTerms};
use parkhang_core::policy::transition::Event;
use parkhang_state::{Change, Expected, Outcome, StateError, StateStore};

/// Limits of a pass.
#[derive(Debug, Clone, Copy)]
pub struct PassLimits {
    /// Length of a new lease.
    pub lease: Duration,
    /// Leases lost in a row after which a volume is set aside.
    pub max_interruptions: i32,
    /// True if expired leases are ended.
    pub ends_leases: bool,
}

/// The changes of a pass, to be committed together.
#[derive(Debug, Default)]
pub struct Plan {
    /// The changes.
    pub changes: Vec<Change>,
    /// Effect of each change, in the order of the changes.
    sequels: Vec<AfterCommit>,
    /// Time at which the next task that is backing off becomes due.
    pub next_due: Option<DateTime<Utc>>,
}

/// Effect of a change once it is written.
#[derive(Debug)]
enum AfterCommit {
    /// The lease is offered to its pool.
    Assign(WorkerId, Arc<Job>),
    /// The pool is told that its work is no longer wanted.
    Cancel(WorkerId, Fence),
    /// The task of an expired lease waits again.
    Lost,
}

/// Effects of a plan that was committed.
#[derive(Debug, Default)]
pub struct Granted {
    /// Leases that are written, to be offered to their pools.
    pub assignments: Vec<(WorkerId, Assignment)>,
    /// Leases that have been ended because their jobs are cancelled; their pools are to be told.
    pub cancelled: HashMap<WorkerId, Vec<Fence>>,
    /// Expired leases that have been ended.
    pub ended: usize,
}

impl Plan {
    /// Reads the store and decides on leases for these pools; `terms` are those of pools that hand their stage over to a service, `conduct`
    /// what the pools have shown of themselves. Nothing is written.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn make(
        store: &dyn StateStore,
        pools: &[PoolInfo],
        terms: &BTreeMap<WorkerId, ServiceTerms>,
        conduct: &Conduct,
        limits: PassLimits,
        now: DateTime<Utc>,
    ) -> Result<Self, StateError> {
        // At the epoch no lease has expired yet: all of them count as held, and keep their slots.
        let in_force_at = if limits.ends_leases {
            now
        } else {
            DateTime::UNIX_EPOCH
        };
        let leases = store.leases(in_force_at).await?;
        let mut plan = Self::default();
        for task in &leases.expired {
            let change = stuck(task, terms).unwrap_or_else(|| node_lost(task, limits.max_interruptions));
            plan.push(change, AfterCommit::Lost);
        }
        for task in &leases.unwanted {
            if let (Some(fence), Some(lease)) = (task.fence(), &task.lease) {
                let sequel = AfterCommit::Cancel(lease.worker.clone(), fence.clone());
                plan.push(Change::new(Expected::Lease(fence), Event::Cancelled), sequel);
            }
        }
        // Slots of leases that end above count as free, though their pools may still be at work: one that is answers busy, and the
        // lease is released.
        let pools = service::offered(pools, &leases.held, terms);
        let free = FreeSlots::in_view_of(conduct, &pools, &leases.held);
        let room = free.room();
        // The end of any lease wakes the next pass, so nothing is to be waited for.
        if room.is_empty() {
            return Ok(plan);
        }
        // As many tasks as there is room for: a pass costs what can begin, and not what waits.
        let ready = store.ready_tasks(&room, now).await?;
        plan.next_due = ready.next_due;
        let by_id: HashMap<TaskId, &(Task, Arc<Job>)> =
            ready.tasks.iter().map(|entry| (entry.0.id, entry)).collect();
        let waiting = ready.tasks.iter().map(|(task, job)| (task, job.as_ref()));
        let placements = placement::place(now, waiting, free, &leases.held);
        for Placement { task, stage, worker } in service::within_terms(placements, &leases.held, terms) {
            let Some((task, job)) = by_id.get(&task) else {
                continue;
            };
            let event = Event::Leased {
                stage,
                worker: worker.clone(),
                until: terms
                    .get(&worker)
                    .map_or(now + limits.lease, |terms| terms.deadline(now)),
            };
            plan.push(
                Change::new(Expected::of(task), event),
                AfterCommit::Assign(worker, job.clone()),
            );
        }
        Ok(plan)
    }

    fn push(&mut self, change: Change, sequel: AfterCommit) {
        self.changes.push(change);
        self.sequels.push(sequel);
    }

    /// Effects of the plan, given the outcome of each change in order.
    pub fn granted(self, outcomes: Vec<Outcome>) -> Granted {
        let mut granted = Granted::default();
        for (outcome, sequel) in outcomes.into_iter().zip(self.sequels) {
            match (outcome, sequel) {
                (Outcome::Applied(task), AfterCommit::Assign(worker, job)) => {
                    let assignment = Assignment::of(task, &job).map(|assignment| (worker, assignment));
                    granted.assignments.extend(assignment);
                }
                (Outcome::Applied(task), AfterCommit::Cancel(worker, fence)) => {
                    info!(task = %task.id, volume = %task.volume, stage = %fence.stage, %worker, "lease of a cancelled job ended");
                    granted.cancelled.entry(worker).or_default().push(fence);
                }
                (Outcome::Applied(task), AfterCommit::Lost) => {
                    granted.ended += 1;
                    LeaseLost(&task).emit();
                }
                // A report or an operator was faster. The next pass sees the task as it is now.
                (Outcome::Fenced(_), _) => debug!("a task moved on while the pass decided"),
                (Outcome::Illegal(reason), _) => {
                    warn!(reason, "the reconciler asked for an illegal transition");
                }
                (Outcome::Refused(reason), _) => {
                    warn!(reason, "the database refuses a change of the reconciler");
                }
            }
        }
        granted
    }
}

/// Change that ends the lease of a service that has not told of the end of its job; `None` for the lease of a pool.
fn stuck(task: &Task, terms: &BTreeMap<WorkerId, ServiceTerms>) -> Option<Change> {
    let (fence, lease) = (task.fence()?, task.lease.as_ref()?);
    let service = lease.worker.service()?;
    // A service that is no longer configured has nobody else who would end its leases.
    let limits = terms.get(&lease.worker).map(|terms| terms.limits);
    let event = service::stuck(&fence, service, &limits.unwrap_or_default());
    Some(Change::new(Expected::Lease(fence), event))
}

/// Change that ends the lease of a node that is gone.
pub(super) fn node_lost(task: &Task, max_interruptions: i32) -> Change {
    Change::new(
        Expected::of(task),
        lost_lease(task, Loss::Node, max_interruptions),
    )
}

#[cfg(test)]
mod tests;
