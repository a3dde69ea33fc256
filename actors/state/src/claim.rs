//! Claims of workers that take work themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Change, ClaimRequest, Expected, StateError, StateStore};
use parkhang_core::domain::{Job, StageName, Task, TaskId, WorkerId};
use parkhang_core::policy::claim::{choose, run_out};
use parkhang_core::policy::transition::Event;

impl ClaimRequest {
    /// Change that ends a lease that has run out; `None` for one that has not, and where none is to be ended.
    pub(super) fn end_of(&self, task: &Task, now: DateTime<Utc>) -> Option<Change> {
        if !self.ends_leases {
            return None;
        }
        let event = run_out(task, now, self.max_interruptions)?;
        Some(Change::new(Expected::of(task), event))
    }

    /// Change that leases the task.
    pub(super) fn lease(&self, task: &Task, stage: StageName, worker: WorkerId) -> Change {
        let until = self.until;
        Change::new(Expected::of(task), Event::Leased { stage, worker, until })
    }
}

/// Change that ends the lease of a task whose job was cancelled.
pub(super) fn cancellation(task: &Task) -> Change {
    Change::new(Expected::of(task), Event::Cancelled)
}

/// Implementation of [`StateStore::claim`] by the other methods, for a store in which callers seldom meet: a task that another
/// caller leased in between is fenced off and left to that one.
pub(super) async fn claim(
    store: &dyn StateStore,
    request: &ClaimRequest,
    now: DateTime<Utc>,
) -> Result<Vec<(Task, Arc<Job>)>, StateError> {
    let leases = store.leases(now).await?;
    let ends: Vec<Change> = leases
        .expired
        .iter()
        .filter_map(|task| request.end_of(task, now))
        .chain(leases.unwanted.iter().map(cancellation))
        .collect();
    // Written before the ready tasks are read, so that a task whose lease ran out can be claimed at once.
    store.commit(&ends, now).await?;
    let mut room: BTreeMap<StageName, usize> = BTreeMap::new();
    for offer in request.offers.iter().filter(|offer| offer.free > 0) {
        *room.entry(offer.pool.stage.clone()).or_default() += offer.free;
    }
    let ready: BTreeMap<TaskId, (Task, Arc<Job>)> = store
        .ready_tasks(&room, now)
        .await?
        .tasks
        .into_iter()
        .map(|entry| (entry.0.id, entry))
        .collect();
    let tasks = ready.values().map(|(task, job)| (task, &**job));
    let new: Vec<Change> = choose(now, tasks, &request.offers, &leases.held)
        .into_iter()
        .filter_map(|placement| {
            let (task, _) = ready.get(&placement.task)?;
            Some(request.lease(task, placement.stage, placement.worker))
        })
        .collect();
    let outcomes = store.commit(&new, now).await?;
    Ok(outcomes
        .into_iter()
        .filter_map(|outcome| {
            let task = outcome.applied()?;
            let job = Arc::clone(&ready.get(&task.id)?.1);
            Some((task, job))
        })
        .collect())
}
