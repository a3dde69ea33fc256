//! Launchers of worker nodes, and the autoscaler that decides how many there are to be.
//!
//! A launcher counts processes or machines, by hardware, and is told a number and not which to start: that is the one thing which
//! processes, ECS services and auto scaling groups have in common, and a number may be set again without harm. Which of the
//! workers have joined, and what they do, the orchestrator alone knows. So a launcher knows neither jobs nor stages; only the
//! autoscaler does, which turns the waiting work into a number by the pure function `policy::autoscale::decide`. What waits it is told by
//! a [`Demand`]: the database, or the queues alone where there is no orchestrator. A worker that is
//! too many is asked to end and gives back its leases itself, so scaling down loses no work.

mod asg;
mod autoscaler;
mod aws;
#[cfg(test)]
mod conformance;
mod demand;
mod ecs;
mod error;
mod idle;
mod local;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;

use parkhang_core::domain::Hardware;

pub use asg::AsgLauncher;
pub use autoscaler::{Autoscaler, AutoscalerConfig};
pub use aws::AwsOptions;
pub use demand::{Demand, Observation, QueueDemand, StoreDemand};
pub use ecs::EcsLauncher;
pub use error::LauncherError;
pub use idle::idle_workers;
pub use local::{LocalLauncher, LocalOptions, Process, WorkerCommand, start_process};

/// Numbers of workers of one kind of hardware, as their launcher sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workers {
    /// Workers that there are to be.
    pub desired: u32,
    /// Workers that run and were not told to end.
    pub running: u32,
    /// Workers that are being started.
    pub starting: u32,
    /// Workers that were told to end and have not yet.
    pub stopping: u32,
    /// Largest number that can be asked for; `None` if the launcher knows no bound.
    pub limit: Option<u32>,
    /// Names of the running workers as nodes, where the launcher knows them.
    pub names: Option<BTreeSet<String>>,
}

impl Workers {
    /// Returns whether as many run as are desired, and none is starting or stopping.
    pub const fn have_converged(&self) -> bool {
        self.running == self.desired && self.starting == 0 && self.stopping == 0
    }
}

/// Starts and stops worker nodes. Every method may be repeated.
#[async_trait]
pub trait Launcher: Send + Sync + fmt::Debug {
    /// Kinds of hardware that the launcher has workers of.
    fn hardware(&self) -> BTreeSet<Hardware>;

    /// Counts the workers of one hardware.
    ///
    /// # Errors
    ///
    /// [`LauncherError::Unserved`] for a hardware that the launcher does not have, and when they cannot be counted.
    async fn workers(&self, hardware: Hardware) -> Result<Workers, LauncherError>;

    /// Sets the number of workers, and returns before they have started or ended. A worker that is to go is asked to end, so that
    /// it gives back its leases. Those named in `idle` go first, where the launcher can choose.
    ///
    /// # Errors
    ///
    /// [`LauncherError::OverLimit`] and [`LauncherError::Unserved`], with nothing changed, and when the workers cannot be
    /// reached, started or stopped.
    async fn set_desired(
        &self,
        hardware: Hardware,
        count: u32,
        idle: &BTreeSet<String>,
    ) -> Result<(), LauncherError>;

    /// Replaces workers that ended by themselves, and kills those that were told to end and do not. To be called regularly, for
    /// launchers whose workers nobody else looks after.
    ///
    /// # Errors
    ///
    /// When a worker cannot be started or stopped.
    async fn tend(&self, hardware: Hardware) -> Result<(), LauncherError> {
        let _ = hardware;
        Ok(())
    }
}

/// Refuses more workers than can be asked for.
fn within(limit: Option<u32>, hardware: Hardware, count: u32) -> Result<(), LauncherError> {
    match limit.filter(|limit| count > *limit) {
        Some(limit) => Err(LauncherError::OverLimit {
            hardware,
            count,
            limit,
        }),
        None => Ok(()),
    }
}
