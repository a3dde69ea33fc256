use std::collections::BTreeMap;
use std::time::Duration;

use super::agenda::Millis;
use super::error::SimulationError;
use super::profile::Profile;
use parkhang_actors::orchestrator::MAX_INTERRUPTIONS;
use parkhang_core::domain::{Hardware, JobConfig};
use parkhang_core::policy::autoscale::Limits;

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Settings {
    pub seed: u64,
    pub volumes: usize,
    /// With `autoscaling`, the most nodes there may be.
    pub fleet: Vec<NodeClass>,
    pub autoscaling: Option<Autoscaling>,
    pub profile: Profile,
    pub faults: Faults,
    pub timings: Timings,
    /// Of the job; parts of `checkpoint_pages` are what a killed node costs.
    pub config: JobConfig,
    /// A run that takes longer in simulated time is given up.
    pub horizon: Duration,
}

/// Nodes that are alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeClass {
    pub hardware: Hardware,
    pub nodes: usize,
    /// Volumes at once, per stage of this hardware.
    pub slots: usize,
    /// How much faster a slot is than the one of the recording.
    pub speed: f64,
}

/// A fleet that grows and shrinks with the work. The class of a hardware is scaled where it has limits, else all of it is there
/// from the beginning to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autoscaling {
    pub limits: BTreeMap<Hardware, Limits>,
    /// Between two decisions.
    pub interval: Duration,
    /// From the decision until a node has joined.
    pub boot: Duration,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Mean time of a node between two ends; zero is never. The times are drawn from an exponential distribution, and so
    /// are those of `repair`.
    pub between: Duration,
    /// Mean time until a node that ended is there again.
    pub repair: Duration,
    /// Share of the ends that are announced.
    pub announced: f64,
    /// Time from the announcement to the end.
    pub notice: Duration,
    /// Share of the stage runs that fail for a reason that may pass.
    pub failing_runs: f64,
    /// Share of the volumes that kill the worker of the stage with the most work.
    pub poison: f64,
}

/// How long the parts of the real system take; the defaults are those of `cluster.toml`, and measured ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timings {
    pub lease: Duration,
    pub heartbeat: Duration,
    pub full_pass: Duration,
    /// Silence after which a node is taken for dead.
    pub silence: Duration,
    /// After that, until its leases end.
    pub grace: Duration,
    /// Until an assignment to a dead node is given up.
    pub call_timeout: Duration,
    /// A message from node to node.
    pub message: Duration,
    /// A transaction with one change.
    pub commit: Duration,
    /// Each further change of a transaction.
    pub commit_each: Duration,
    pub max_interruptions: i32,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            heartbeat: Duration::from_secs(5),
            full_pass: Duration::from_secs(30),
            silence: Duration::from_secs(12),
            grace: Duration::from_secs(3),
            call_timeout: Duration::from_secs(2),
            message: Duration::from_millis(1),
            commit: Duration::from_millis(4),
            commit_each: Duration::from_micros(50),
            max_interruptions: MAX_INTERRUPTIONS,
        }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            between: Duration::from_secs(24 * 3600),
            repair: Duration::from_secs(600),
            announced: 0.7,
            notice: Duration::from_secs(120),
            failing_runs: 0.0005,
            poison: 0.0001,
        }
    }
}

impl Settings {
    pub(super) fn validate(&self) -> Result<(), SimulationError> {
        if self.volumes == 0 {
            return Err(SimulationError::Empty("no volumes"));
        }
        if self.profile.stages.is_empty() {
            return Err(SimulationError::Empty("no stages"));
        }
        let alike = |class: &NodeClass| {
            let same = self.fleet.iter().filter(|other| other.hardware == class.hardware);
            same.count() > 1
        };
        if self.autoscaling.is_some() && self.fleet.iter().any(alike) {
            return Err(SimulationError::TwoClasses);
        }
        for stage in &self.profile.stages {
            let serves = |class: &NodeClass| {
                class.hardware == stage.hardware && class.nodes > 0 && class.slots > 0 && class.speed > 0.0
            };
            if !self.fleet.iter().any(serves) {
                return Err(SimulationError::Unserved {
                    stage: stage.stage.to_string(),
                    hardware: stage.hardware.as_str(),
                });
            }
        }
        Ok(())
    }
}

pub(super) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX / 4)
}
