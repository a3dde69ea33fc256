//! Events of the autoscaler and of launched workers.

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
    /// Number of workers that was desired before.
    pub before: u32,
    /// True if a task has waited for longer than it may.
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
        let before = self.before;
        if *desired == before {
            debug!(
                hardware = label,
                desired, running, waiting, in_work, reason, "number of workers unchanged"
            );
        } else {
            info!(
                hardware = label,
                before, desired, running, waiting, in_work, reason, "workers scaled"
            );
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

/// A worker process has been started on this machine.
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

/// A worker process was asked to end.
pub(crate) struct WorkerStopping<'a> {
    pub name: &'a str,
}

impl WorkerStopping<'_> {
    pub(crate) fn emit(self) {
        info!(worker = self.name, "stopping a worker");
    }
}

/// A worker process has ended.
pub(crate) struct WorkerEnded<'a> {
    pub name: &'a str,
    pub was_signalled: bool,
}

impl WorkerEnded<'_> {
    pub(crate) fn emit(self) {
        if self.was_signalled {
            info!(worker = self.name, "worker ended");
        } else {
            warn!(worker = self.name, "a worker ended by itself");
        }
    }
}
