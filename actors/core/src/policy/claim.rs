//! Choice of tasks by a process that takes work itself, instead of being given it by an orchestrator.

use chrono::{DateTime, Utc};

use super::placement::{FreeSlots, Held, Placement, place};
use super::poison::{Loss, is_suspect, lost_lease};
use super::transition::Event;
use crate::domain::{Job, PoolInfo, Task, WorkerId};

/// Free slots of a pool that takes work for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub pool: PoolInfo,
    /// Number of further tasks that it may take now.
    pub free: usize,
    /// Number of leases that it holds.
    pub in_hand: usize,
}

/// True if a process may run a suspect: none of its workers holds a lease.
pub fn is_idle(offers: &[Offer]) -> bool {
    offers.iter().all(|offer| offer.in_hand == 0)
}

/// Reduces the offers after `worker` has been given `task`.
pub fn give(offers: &mut [Offer], worker: &WorkerId, task: &Task) {
    for offer in offers {
        if offer.pool.worker == *worker {
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
    let pools: Vec<PoolInfo> = offers
        .iter()
        .map(|offer| PoolInfo {
            slots: offer.free,
            ..offer.pool.clone()
        })
        .collect();
    // The slots that leases in hand take are not in `free`, so no leases are subtracted from it below.
    let (suspects, others): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|(task, _)| is_suspect(task));
    if is_idle(offers) {
        let mut alone = place(now, suspects, FreeSlots::of(&pools, &[]), held);
        // Nothing runs beside a suspect, another suspect neither.
        alone.truncate(1);
        if !alone.is_empty() {
            return alone;
        }
    }
    place(now, others, FreeSlots::of(&pools, &[]), held)
}

/// Event that ends a lease that has run out; `None` for a lease in force, for one of a service, which only an orchestrator can judge,
/// and for a task without one.
pub fn run_out(task: &Task, now: DateTime<Utc>, max_interruptions: i32) -> Option<Event> {
    let lease = task.lease.as_ref()?;
    (lease.until <= now && lease.worker.service().is_none())
        .then(|| lost_lease(task, Loss::Node, max_interruptions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::testing::{at, leased_task, stage, task};

    #[test]
    fn a_lease_runs_out_at_its_deadline() {
        let running = leased_task(1, "read", "w", at(60));
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
        assert_eq!(run_out(&task(1), at(60), 5), None);
        let of_service = WorkerId::of_service("llm", &stage("read"));
        let handed_over = leased_task(1, "read", &of_service.0, at(60));
        assert_eq!(run_out(&handed_over, at(60), 5), None);
    }
}
