//! What a pass would write, and what follows from how that went: the part of a pass that only reads and decides.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use tracing::{debug, warn};

use crate::domain::{Job, Task, TaskId, WorkerId};
use crate::policy::placement::{self, FreeSlots, Placement, Pool};
use crate::policy::transition::Event;
use crate::stage::Assignment;
use crate::state::{Change, Expected, Outcome, StateError, StateStore};
use crate::telemetry::LeaseLost;

/// Limits of a pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassLimits {
    pub lease: Duration,
    pub max_interruptions: i32,
}

/// The changes of a pass, to be committed together.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub changes: Vec<Change>,
    /// Beside each change: who gets a lease by it, and of which job.
    lessees: Vec<Option<(WorkerId, Arc<Job>)>>,
    /// When a task that is backing off becomes due.
    pub next_due: Option<DateTime<Utc>>,
}

/// What the commit of a plan brought about.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    /// Leases that are written; their pools are to be told.
    pub assignments: Vec<(WorkerId, Assignment)>,
    /// Leases that have been ended.
    pub ended: usize,
}

impl Plan {
    /// Reads the store and decides, for these pools.
    pub(crate) async fn make(
        store: &dyn StateStore,
        pools: &[Pool],
        limits: PassLimits,
        now: DateTime<Utc>,
    ) -> Result<Self, StateError> {
        let leases = store.leases(now).await?;
        let mut plan = Self::default();
        for task in &leases.expired {
            let event = placement::lost_lease(task, limits.max_interruptions);
            plan.push(Change::new(Expected::of(task), event), None);
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
        for Placement { task, stage, worker } in placement::place(now, waiting, free) {
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
                Some((worker, job.clone())),
            );
        }
        Ok(plan)
    }

    fn push(&mut self, change: Change, lessee: Option<(WorkerId, Arc<Job>)>) {
        self.changes.push(change);
        self.lessees.push(lessee);
    }

    /// What `outcomes`, one of each change in order, mean.
    pub(crate) fn granted(self, outcomes: Vec<Outcome>) -> Granted {
        let mut granted = Granted::default();
        for (outcome, lessee) in outcomes.into_iter().zip(self.lessees) {
            match (outcome, lessee) {
                (Outcome::Applied(task), Some((worker, job))) => {
                    let assignment = assignment_of(task, &job).map(|assignment| (worker, assignment));
                    granted.assignments.extend(assignment);
                }
                (Outcome::Applied(task), None) => {
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

/// What the pool must know of a task that has just been leased.
fn assignment_of(task: Task, job: &Job) -> Option<Assignment> {
    Some(Assignment {
        fence: task.fence()?,
        lease_until: task.lease?.until,
        volume: task.volume,
        job: job.key.clone(),
        config: Arc::new(job.config.clone()),
    })
}
