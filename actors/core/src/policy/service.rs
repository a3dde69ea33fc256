//! Services that do stages for others: when they are left alone and asked, how much they are given, and what becomes of a task at one.
//!
//! A service holds an ordinary lease of a task, which nobody renews: it runs out when the job counts as stuck. Whatever is heard of a job
//! ends the lease that it was submitted for and no other, so it does not matter whether a webhook or a poller is first.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::placement::{Held, Placement};
use super::retry::outage_backoff;
use super::transition::Event;
use crate::domain::{
    ErrorCategory, FailureKind, Fence, PoolInfo, ServiceJob, StageError, StageLimits, StageName, Task,
    WorkerId,
};

/// Longest pause after a failure of a service, whatever its `Retry-After` says.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// First pause after a failure of a service, unless its settings say otherwise.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Age of a job from which on its service is asked about it. Where a webhook should tell of its end that is half the time after which it
/// counts as stuck, so that a lost webhook costs a delay and no try.
pub fn polled_from(limits: &StageLimits, has_webhook: bool) -> Duration {
    if has_webhook {
        limits.stuck_timeout / 2
    } else {
        Duration::ZERO
    }
}

/// Pause of a service after so many failures in a row, of which the first has the pause `first`; it is at least what its `Retry-After` asks for; `jitter` is drawn from -1 to 1.
pub fn pause_after(first: Duration, failures: u32, retry_after: Option<Duration>, jitter: f64) -> Duration {
    let backoff = outage_backoff(first.as_secs_f64(), failures, jitter);
    backoff.max(retry_after.unwrap_or_default()).min(MAX_PAUSE)
}

/// Terms on which a service does a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceTerms {
    pub limits: StageLimits,
    /// Jobs that the service may have at once, over all stages that it does.
    pub max_in_flight: usize,
    /// Further jobs that it may be given now, by its health and its rate.
    pub admits: usize,
}

impl ServiceTerms {
    /// End of a lease that begins now.
    pub fn deadline(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        let time = TimeDelta::from_std(self.limits.stuck_timeout).ok();
        let deadline = time.and_then(|time| now.checked_add_signed(time));
        deadline.unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// Number of jobs that the service of a worker may be given now.
    fn room(&self, worker: &WorkerId, in_flight: &HashMap<&str, usize>) -> usize {
        let before = in_flight.get(worker.node()).copied().unwrap_or(0);
        self.max_in_flight.saturating_sub(before).min(self.admits)
    }
}

/// Event of a stage that failed, where its own limits count its tries; others are as they are.
pub fn charged(event: Event, limits: &StageLimits) -> Event {
    match event {
        Event::Failed { error, not_before } => Event::ServiceFailed {
            error,
            not_before,
            tries: i32::try_from(limits.max_retries).map_or(i32::MAX, |retries| retries.saturating_add(1)),
        },
        event => event,
    }
}

/// Event of a lease of a service that ran out: nothing was heard of the job in time.
pub fn stuck(fence: &Fence, service: &str, limits: &StageLimits) -> Event {
    let within = limits.stuck_timeout;
    let message = format!("ETIMEDOUT: no end of the job at {service} within {within:?}");
    let error = failure(
        &fence.stage,
        ErrorCategory::Timeout,
        &message,
        FailureKind::Retriable,
    );
    let not_before = None;
    charged(Event::Failed { error, not_before }, limits)
}

/// Failure of a stage that a service does.
pub fn failure(stage: &StageName, category: ErrorCategory, message: &str, kind: FailureKind) -> StageError {
    StageError {
        retryable: kind == FailureKind::Retriable,
        ..StageError::new(stage.as_str(), category, message)
    }
}

/// The pools, with as many slots of each service as it may use now, so that no more tasks are read than can begin.
pub fn offered(pools: &[PoolInfo], held: &[Held], terms: &BTreeMap<WorkerId, ServiceTerms>) -> Vec<PoolInfo> {
    let in_flight = in_flight(held);
    let offer = |pool: &PoolInfo| {
        let Some(terms) = terms.get(&pool.worker) else {
            return pool.clone();
        };
        let own = held.iter().filter(|held| held.worker == pool.worker);
        let own: usize = own.map(|held| held.leases).sum();
        PoolInfo {
            slots: own.saturating_add(terms.room(&pool.worker, &in_flight)),
            ..pool.clone()
        }
    };
    pools.iter().map(offer).collect()
}

/// Leases in force by node and service.
fn in_flight(held: &[Held]) -> HashMap<&str, usize> {
    let mut in_flight = HashMap::new();
    for held in held {
        *in_flight.entry(held.worker.node()).or_default() += held.leases;
    }
    in_flight
}

/// Leaves out placements with services that are over what these may be given; `held` are the leases in force.
pub fn within_terms(
    mut placements: Vec<Placement>,
    held: &[Held],
    terms: &BTreeMap<WorkerId, ServiceTerms>,
) -> Vec<Placement> {
    let in_flight = in_flight(held);
    let mut given: HashMap<String, usize> = HashMap::new();
    placements.retain(|placement| {
        let Some(terms) = terms.get(&placement.worker) else {
            return true;
        };
        let given = given.entry(placement.worker.node().to_owned()).or_default();
        *given += 1;
        *given <= terms.room(&placement.worker, &in_flight)
    });
    placements
}

/// Meaning of a message about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hearing {
    /// It is about the lease in force.
    Current(Fence),
    /// The lease in force has no job yet: it may be its own.
    Awaited,
    /// It is about a lease that is over.
    Past,
    /// The task has had no such job.
    Unknown,
}

/// Finds out what a message about a job at a stage of the task is about; `jobs` are all that the task has had.
pub fn hearing(task: &Task, jobs: &[ServiceJob], stage: &StageName, job: &str) -> Hearing {
    let held = task
        .lease
        .as_ref()
        .is_some_and(|lease| lease.worker.service().is_some());
    let current = task.fence().filter(|fence| held && fence.stage == *stage);
    let mut named = jobs
        .iter()
        .filter(|known| known.fence.stage == *stage && known.job == job);
    let is_current = |known: &ServiceJob| current.as_ref() == Some(&known.fence);
    match (named.clone().find(|known| is_current(known)), named.next()) {
        (Some(known), _) => Hearing::Current(known.fence.clone()),
        (None, Some(_)) => Hearing::Past,
        (None, None) if current.is_some() && !jobs.iter().any(is_current) => Hearing::Awaited,
        (None, None) => Hearing::Unknown,
    }
}

#[cfg(test)]
mod tests;
