use std::collections::BTreeMap;
use std::time::Duration;

use super::agenda::Millis;
use super::error::SimulationError;
use super::profile::Profile;
use parkhang_actors::orchestrator::MAX_INTERRUPTIONS;
use parkhang_actors::source::QueueOptions;
use parkhang_actors::supervisor::HealthPolicy;
use parkhang_core::domain::{Hardware, JobConfig};
use parkhang_core::policy::autoscale::Limits;

/// Settings of a simulation.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of volumes of the job.
    pub volumes: usize,
    /// Classes of nodes; with `autoscaling`, their largest numbers.
    pub fleet: Vec<NodeClass>,
    /// Settings of the autoscaler, if there is one.
    pub autoscaling: Option<Autoscaling>,
    /// Times of stages and sizes of volumes.
    pub profile: Profile,
    /// Faults of nodes and stages.
    pub faults: Faults,
    /// Devices that are sick, if any are.
    pub sick: Option<SickDevices>,
    /// Queues that the nodes take their work from, whose requests are counted; without, an orchestrator assigns it.
    pub queues: Option<Polling>,
    /// Times of the parts of the system.
    pub timings: Timings,
    /// Configuration of the job; a node that is killed costs a part of `checkpoint_pages` at most.
    pub config: JobConfig,
    /// Simulated time after which the simulation is given up.
    pub horizon: Duration,
}

/// Nodes that are alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeClass {
    /// Hardware of the nodes.
    pub hardware: Hardware,
    /// Number of the nodes.
    pub nodes: usize,
    /// Volumes at once, for each stage of this hardware.
    pub slots: usize,
    /// Speed of a slot, as a multiple of the one of the recording.
    pub speed: f64,
}

/// Settings of a fleet that grows and shrinks with the work. The class of a hardware is scaled if it has limits; otherwise all of
/// its nodes run from the beginning to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autoscaling {
    /// Limits of the autoscaler, by hardware.
    pub limits: BTreeMap<Hardware, Limits>,
    /// Time between two decisions.
    pub interval: Duration,
    /// Time from a decision until a node has joined.
    pub boot: Duration,
}

/// Settings of nodes that take their work from queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polling {
    /// Times of the messages.
    pub options: QueueOptions,
    /// Time between two receives that do not wait.
    pub poll: Duration,
}

impl Polling {
    /// Time from one receive that brings nothing to the next one.
    pub(crate) fn pause(&self) -> Duration {
        if self.options.wait.is_zero() {
            self.poll
        } else {
            self.options.wait
        }
    }
}

/// Faults of nodes and stages.
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

/// Devices that are sick from the beginning to the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SickDevices {
    /// Share of the nodes with a GPU that have one, in each class.
    pub share: f64,
    /// Kind of their faults.
    pub sickness: Sickness,
    /// Pages between two faults of a device that is sick at times, on average.
    pub pages_between: f64,
    /// When a node takes a device for sick, and what it does about it.
    pub health: HealthPolicy,
}

/// Behaviour of a sick device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sickness {
    /// Nothing comes back of it, neither of work nor of the node's test.
    Hangs,
    /// Each pass fails, that of the test too: the device is lost, or another process has its memory.
    Fails,
    /// It hangs at times, and works again once it is renewed.
    HangsAtTimes,
    /// It fails at times, and passes the test.
    FailsAtTimes,
    /// It is twenty times as slow as the others.
    Slow,
}

impl SickDevices {
    /// Number of nodes of a class that have one.
    pub(super) fn of(&self, class: &NodeClass) -> usize {
        match class.hardware {
            Hardware::Gpu => (self.share * class.nodes as f64).round() as usize,
            Hardware::Cpu => 0,
        }
    }
}

impl Sickness {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Hangs,
        Self::Fails,
        Self::HangsAtTimes,
        Self::FailsAtTimes,
        Self::Slow,
    ];

    /// Name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hangs => "hangs",
            Self::Fails => "fails",
            Self::HangsAtTimes => "hangs-at-times",
            Self::FailsAtTimes => "fails-at-times",
            Self::Slow => "slow",
        }
    }
}

/// Times of the parts of the real system; the defaults are those of `cluster.toml`, and measured ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timings {
    /// Length of a lease.
    pub lease: Duration,
    /// Time between two renewals of the leases.
    pub heartbeat: Duration,
    /// Time between two passes that nobody asks for.
    pub full_pass: Duration,
    /// Silence after which a node is taken for dead.
    pub silence: Duration,
    /// Time after that until its leases end.
    pub grace: Duration,
    /// Time until an assignment to a dead node is given up.
    pub call_timeout: Duration,
    /// Time of a message from node to node.
    pub message: Duration,
    /// Time of a transaction with one change.
    pub commit: Duration,
    /// Time of each further change of a transaction.
    pub commit_each: Duration,
    /// Leases lost in a row after which a volume is set aside.
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
        // The autoscaler decides on a number for a hardware, and could not say of which class.
        let alike = |class: &NodeClass| {
            self.fleet
                .iter()
                .filter(|other| other.hardware == class.hardware)
                .count()
                > 1
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

/// Whole milliseconds of a duration; one beyond any horizon stays far from the end of the type, as times are added to it.
pub(super) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX / 4)
}
