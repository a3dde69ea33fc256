//! Worker nodes: how many there are, and how many there are to be. A launcher counts processes or machines, by hardware; which of
//! them have joined, and what they do, is known to the orchestrator alone. The room does not know what the workers work on, but
//! for the autoscaler, which takes the numbers from what waits.

mod asg;
mod autoscaler;
mod aws;
#[cfg(test)]
mod conformance;
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
pub use ecs::EcsLauncher;
pub use error::LauncherError;
pub use idle::idle_workers;
pub use local::{LocalLauncher, LocalOptions, Process, WorkerCommand, start_process};

/// The workers of one kind of hardware, as whoever launches them sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workers {
    /// How many there are to be.
    pub desired: u32,
    pub running: u32,
    /// On their way to running.
    pub starting: u32,
    /// Told to end, and not gone yet.
    pub stopping: u32,
    /// The most that can be asked for.
    pub limit: Option<u32>,
    /// What the running ones are called as nodes, where the launcher knows.
    pub names: Option<BTreeSet<String>>,
}

impl Workers {
    /// Whether there are as many as there are to be, and none is coming or going.
    pub const fn are_settled(&self) -> bool {
        self.running == self.desired && self.starting == 0 && self.stopping == 0
    }
}

/// Starts and stops worker nodes. Every method may be repeated.
#[async_trait]
pub trait Launcher: Send + Sync + fmt::Debug {
    /// What the workers that it launches have.
    fn hardware(&self) -> BTreeSet<Hardware>;

    async fn workers(&self, hardware: Hardware) -> Result<Workers, LauncherError>;

    /// Says how many workers there are to be, and returns before they are there or gone. A worker that is to go is told to end
    /// in order: it hands back its work. Those of the names in `idle` go first, where the launcher can choose.
    async fn set_desired(
        &self,
        hardware: Hardware,
        count: u32,
        idle: &BTreeSet<String>,
    ) -> Result<(), LauncherError>;

    /// Replaces workers that ended by themselves, and ends those for good that were told to and do not. To be called now and
    /// then, for a launcher whose workers nobody else looks after.
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
