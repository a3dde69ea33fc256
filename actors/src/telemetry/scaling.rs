//! What becomes of worker nodes.

use std::fmt::Display;

use tracing::{debug, info, warn};

use super::catalogue::{
    AUTOSCALER_BACKLOG, AUTOSCALER_DECISIONS, AUTOSCALER_FAILURES, AUTOSCALER_OVERDUE, WORKERS_DESIRED,
    WORKERS_RUNNING,
};
use parkhang_core::domain::{Hardware, ScalingRecord};

/// The autoscaler has decided, and what it decided holds.
pub(crate) struct Scaled<'a> {
    pub record: &'a ScalingRecord,
    /// How many workers there were to be before.
    pub before: u32,
    /// Whether a task has waited for longer than it may.
    pub overdue: bool,
}

impl Scaled<'_> {
    pub(crate) fn emit(self) {
        let ScalingRecord {
            hardware,
            desired,
            running,
            waiting,
            in_work,
            reason,
            ..
        } = self.record;
        let label = hardware.as_str();
        let level = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        AUTOSCALER_DECISIONS.add(1, [label, reason]);
        AUTOSCALER_BACKLOG.set(level(waiting + in_work), [label]);
        AUTOSCALER_OVERDUE.set(usize::from(self.overdue), [label]);
        WORKERS_DESIRED.set(level((*desired).into()), [label]);
        WORKERS_RUNNING.set(level((*running).into()), [label]);
        match *desired == self.before {
            true => {
                debug!(
                    hardware = label,
                    desired, running, waiting, in_work, reason, "workers stay as they are"
                );
            }
            false => {
                let before = self.before;
                info!(
                    hardware = label,
                    before, desired, running, waiting, in_work, reason, "workers scaled"
                );
            }
        }
    }
}

/// The autoscaler could not count or change the workers.
pub(crate) struct ScalingFailed<'a> {
    pub hardware: Hardware,
    pub error: &'a dyn Display,
}

impl ScalingFailed<'_> {
    pub(crate) fn emit(self) {
        AUTOSCALER_FAILURES.add(1, [self.hardware.as_str()]);
        warn!(hardware = self.hardware.as_str(), error = %self.error, "cannot scale the workers now");
    }
}

/// A process of this machine has been started.
pub(crate) struct WorkerStarted<'a> {
    pub name: &'a str,
    pub hardware: Hardware,
    pub process: i32,
}

impl WorkerStarted<'_> {
    pub(crate) fn emit(self) {
        let hardware = self.hardware.as_str();
        info!(
            worker = self.name,
            hardware,
            process = self.process,
            "worker started"
        );
    }
}

/// It was told to end.
pub(crate) struct WorkerStopping<'a> {
    pub name: &'a str,
}

impl WorkerStopping<'_> {
    pub(crate) fn emit(self) {
        info!(worker = self.name, "worker told to end");
    }
}

/// It is gone.
pub(crate) struct WorkerEnded<'a> {
    pub name: &'a str,
    pub was_told: bool,
}

impl WorkerEnded<'_> {
    pub(crate) fn emit(self) {
        match self.was_told {
            true => info!(worker = self.name, "worker ended"),
            false => warn!(worker = self.name, "a worker ended by itself"),
        }
    }
}
