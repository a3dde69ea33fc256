//! Choice of tasks by a process that takes work itself, instead of being given it by an orchestrator.

use chrono::{DateTime, Utc};

use super::placement::{FreeSlots, Held, Placement, Pool, place};
use super::poison::{Loss, is_suspect, lost_lease};
use super::transition::Event;
use crate::domain::{Job, StageName, Task, WorkerId};

/// Room of one worker for tasks of its stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub worker: WorkerId,
    pub stage: StageName,
    /// Number of tasks that fit in now.
    pub free: usize,
    /// Number of leases that the worker holds.
    pub in_hand: usize,
    /// Names of the models that it keeps loaded.
    pub models: Vec<String>,
}

impl Offer {
    /// True if the worker may run its stage for the job: it has the models that the job names.
    pub fn suits(&self, job: &Job) -> bool {
        job.config.models.are_loaded(&self.stage, &self.models)
    }
}

/// True if a process may run a suspect: none of its workers holds a lease.
pub fn is_idle(offers: &[Offer]) -> bool {
    offers.iter().all(|offer| offer.in_hand == 0)
}

/// Reduces the offers after `worker` has been given `task`.
pub fn give(offers: &mut [Offer], worker: &WorkerId, task: &Task) {
    for offer in offers {
        if offer.worker == *worker {
            offer.free = offer.free.saturating_sub(1);
            offer.in_hand += 1;
        }
        if is_suspect(task) {
            offer.free = 0;
        }
    }
}

/// Places the due tasks that the offers have room for, as an orchestrator that knew these workers alone would. `held` are the
/// leases in force of all workers, by which jobs are weighed against each other.
///
/// A process that is idle takes a suspect, if one waits, and nothing else; one that is not, leaves suspects to others. It does
/// not empty itself for one, as all its like would at the same time.
pub fn choose<'a>(
    now: DateTime<Utc>,
    tasks: impl IntoIterator<Item = (&'a Task, &'a Job)>,
    offers: &[Offer],
    held: &'a [Held],
) -> Vec<Placement> {
    let pools: Vec<Pool> = offers
        .iter()
        .map(|offer| Pool {
            worker: offer.worker.clone(),
            stage: offer.stage.clone(),
            slots: offer.free,
            models: offer.models.clone(),
        })
        .collect();
    let (suspects, others): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|(task, _)| is_suspect(task));
    if is_idle(offers) {
        let mut alone = place(now, suspects, FreeSlots::of(&pools, &[]), held);
        alone.truncate(1);
        if !alone.is_empty() {
            return alone;
        }
    }
    place(now, others, FreeSlots::of(&pools, &[]), held)
}

/// Event that ends a lease that has run out; `None` for a lease in force and for a task without one.
pub fn run_out(task: &Task, now: DateTime<Utc>, max_interruptions: i32) -> Option<Event> {
    let lease = task.lease.as_ref()?;
    (lease.until <= now).then(|| lost_lease(task, Loss::Node, max_interruptions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{JobId, Lease, Position, TaskId, TaskStatus};

    #[test]
    fn a_lease_runs_out_at_its_deadline() {
        let at = |seconds: i64| DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap();
        let fresh = Task::fresh(TaskId(1), JobId(1), "W1-I1".parse().unwrap(), 3);
        let running = Task {
            position: Position::At(StageName::new("read").unwrap()),
            status: TaskStatus::Running,
            lease: Some(Lease {
                worker: WorkerId("w".to_owned()),
                until: at(60),
            }),
            ..fresh.clone()
        };
        assert_eq!(run_out(&running, at(59), 5), None);
        assert_eq!(run_out(&running, at(60), 5), Some(Event::Interrupted));
        assert_eq!(run_out(&running, at(60), 1), Some(Event::Interrupted));
        let suspect = Task {
            interruptions: 2,
            ..running.clone()
        };
        assert!(matches!(
            run_out(&suspect, at(60), 3),
            Some(Event::Quarantined { .. })
        ));
        assert_eq!(run_out(&fresh, at(60), 5), None);
    }
}
