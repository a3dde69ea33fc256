//! What a worker takes that looks for work itself, instead of being given it by an orchestrator.

use chrono::{DateTime, Utc};

use super::placement::{FreeSlots, Held, Placement, Pool, lost_lease, place};
use super::transition::Event;
use crate::domain::{Job, StageName, Task, WorkerId};

/// Room for tasks of one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub worker: WorkerId,
    pub stage: StageName,
    /// Tasks that fit in now.
    pub free: usize,
}

/// What the offers have room for of the tasks that are due, placed as an orchestrator would place it that knew these workers
/// alone. `held` are the leases in force of all workers, by which jobs are weighed against each other.
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
        })
        .collect();
    place(now, tasks, FreeSlots::of(&pools, &[]), held)
}

/// What is to be done about a lease that has run out; `None` for a lease in force and for a task without one.
pub fn run_out(task: &Task, now: DateTime<Utc>, max_interruptions: i32) -> Option<Event> {
    let lease = task.lease.as_ref()?;
    (lease.until <= now).then(|| lost_lease(task, max_interruptions))
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
        assert!(matches!(
            run_out(&running, at(60), 1),
            Some(Event::Quarantined { .. })
        ));
        assert_eq!(run_out(&fresh, at(60), 5), None);
    }
}
