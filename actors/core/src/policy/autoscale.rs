//! Autoscaling: the number of workers that there are to be. A worker is a node with one kind of hardware, which it offers to
//! every stage that needs it.

pub mod by_queue;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::{JobConfig, JobId, StageName};

/// Bounds of the decision for one kind of hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of workers that stay when there is nothing to do.
    pub floor: u32,
    /// Largest number of workers.
    pub cap: u32,
    /// Tasks that are to come to each slot, one after the other. 1 is a slot for each task.
    pub tasks_per_slot: u32,
    /// Age of a waiting task from which on there are to be more workers, up to a slot for each task.
    pub max_age: TimeDelta,
    /// Time from one change of the number until it may rise.
    pub scale_out_cooldown: TimeDelta,
    /// Time from one change of the number until it may fall.
    pub scale_in_cooldown: TimeDelta,
}

/// Tasks of a running job that are at one stage or could begin it, those included that wait for their next try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageBacklog {
    pub job: JobId,
    pub stage: StageName,
    pub waiting: u64,
    pub running: u64,
    /// Time at which the first of the waiting tasks came to its place: the end of its last run, or the creation of its job.
    pub oldest: Option<DateTime<Utc>>,
}

/// Demand of one stage, over all jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub waiting: u64,
    pub running: u64,
    pub oldest: Option<DateTime<Utc>>,
}

/// Demand of each stage. Tasks that a job may not run at once at that stage by its limits are left out. Its running tasks at other stages
/// are not subtracted, although `max_running` is for all of them together: the stage that has workers takes every place that comes
/// free, and the next one would get no workers before the first one has nothing more to do.
pub fn loads<'a>(
    backlog: &[StageBacklog],
    config: impl Fn(JobId) -> Option<&'a JobConfig>,
) -> BTreeMap<StageName, Load> {
    let mut loads: BTreeMap<StageName, Load> = BTreeMap::new();
    for one in backlog {
        let limits = config(one.job).map(|config| [config.max_running, config.max_running_per_stage]);
        let limits = limits.into_iter().flatten().filter(|limit| *limit > 0);
        let at_once = limits
            .map(|limit| u64::try_from(limit).unwrap_or(u64::MAX))
            .min()
            .unwrap_or(u64::MAX);
        let waiting = one.waiting.min(at_once.saturating_sub(one.running));
        let load = loads.entry(one.stage.clone()).or_default();
        load.waiting += waiting;
        load.running += one.running;
        let oldest = one.oldest.filter(|_| waiting > 0);
        load.oldest = load.oldest.into_iter().chain(oldest).min();
    }
    loads
}

/// Workers of one kind of hardware, as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fleet {
    /// Number of workers that there are to be so far.
    pub desired: u32,
    /// Largest number that the launcher allows.
    pub limit: Option<u32>,
    /// Number of launched workers that have joined and do nothing.
    pub idle: u32,
    /// Slots of each worker for each stage.
    pub slots: u32,
    /// Time of the last change of the number.
    pub changed_at: Option<DateTime<Utc>>,
}

/// Reason of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The number is what the tasks need.
    Sufficient,
    /// More tasks wait.
    Backlog,
    /// A task has waited too long.
    Age,
    /// More would be needed, and are not allowed.
    AtCap,
    /// The number was above the cap.
    OverCap,
    /// The number was below the floor.
    BelowFloor,
    /// Nothing is left to do.
    Empty,
    /// Fewer are needed, and some do nothing.
    Idle,
    /// Fewer are needed, and all are at work.
    Busy,
    /// The last change was too short a time ago for another.
    Cooldown,
}

impl Reason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sufficient => "sufficient",
            Self::Backlog => "backlog",
            Self::Age => "age",
            Self::AtCap => "at cap",
            Self::OverCap => "over cap",
            Self::BelowFloor => "below floor",
            Self::Empty => "empty",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Cooldown => "cooldown",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub desired: u32,
    pub reason: Reason,
}

/// Decides on the number of workers, for the loads of all stages that need them.
///
/// A number outside of the bounds is put right at once. Within them it rises to what the tasks need, and falls by idle workers
/// only, unless no task is left.
pub fn decide(limits: &Limits, loads: &[Load], fleet: &Fleet, now: DateTime<Utc>) -> Decision {
    let cap = limits.cap.min(fleet.limit.unwrap_or(u32::MAX));
    let floor = limits.floor.min(cap);
    let to = |desired, reason| Decision { desired, reason };
    let hold = |reason| to(fleet.desired, reason);
    if fleet.desired > cap {
        return to(cap, Reason::OverCap);
    }
    if fleet.desired < floor {
        return to(floor, Reason::BelowFloor);
    }
    let needed = workers_for(loads, fleet.slots, limits.tasks_per_slot);
    let hurried = match is_overdue(limits, loads, now) {
        true => workers_for(loads, fleet.slots, 1).min(stepped_up(fleet.desired)),
        false => 0,
    };
    let asked = needed.max(hurried);
    let wanted = asked.clamp(floor, cap);
    let cools = |cooldown| fleet.changed_at.is_some_and(|changed| now - changed < cooldown);
    if wanted > fleet.desired {
        return match needed >= wanted {
            _ if cools(limits.scale_out_cooldown) => hold(Reason::Cooldown),
            true => to(wanted, Reason::Backlog),
            false => to(wanted, Reason::Age),
        };
    }
    let is_empty = loads.iter().all(|load| load.waiting + load.running == 0);
    let kept = match is_empty {
        true => 0,
        false => fleet.desired.saturating_sub(fleet.idle),
    };
    // A worker at work would have to give its volumes back, so while there is work only idle ones are given
    // up.
    let fewer = wanted.max(kept);
    match fewer < fleet.desired {
        _ if wanted == fleet.desired && asked > cap => hold(Reason::AtCap),
        _ if wanted == fleet.desired => hold(Reason::Sufficient),
        false => hold(Reason::Busy),
        true if cools(limits.scale_in_cooldown) => hold(Reason::Cooldown),
        true if is_empty => to(fewer, Reason::Empty),
        true => to(fewer, Reason::Idle),
    }
}

/// Number of workers for the stage that asks for the most, which is enough for all, as every worker serves all of them.
fn workers_for(loads: &[Load], slots: u32, tasks_per_slot: u32) -> u32 {
    let per_worker = u64::from(slots.max(1)) * u64::from(tasks_per_slot.max(1));
    let workers = loads
        .iter()
        .map(|load| load.waiting.saturating_add(load.running).div_ceil(per_worker));
    u32::try_from(workers.max().unwrap_or(0)).unwrap_or(u32::MAX)
}

/// True if a task has waited for longer than it may.
pub fn is_overdue(limits: &Limits, loads: &[Load], now: DateTime<Utc>) -> bool {
    let waiting = loads.iter().filter(|load| load.waiting > 0);
    waiting
        .filter_map(|load| load.oldest)
        .any(|since| now - since >= limits.max_age)
}

/// Number of workers after a step up: half as many again, and at least one more.
fn stepped_up(desired: u32) -> u32 {
    desired.saturating_add((desired / 2).max(1))
}

#[cfg(test)]
mod tests;
