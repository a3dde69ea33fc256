//! Counts and sums of a simulation, kept as it runs.

use std::collections::HashMap;

use serde::Serialize;

use crate::agenda::Millis;
use parkhang_core::domain::TaskId;

/// Breaches of invariants, which must not happen. Most are counted by the simulated nodes, which know what they run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Assignments to a pool whose slots were all taken.
    pub overbooked_slots: u64,
    /// Assignments of a task that another worker was still running.
    pub doubled_tasks: u64,
    /// Leases in force beyond what a pool offers, as the store knows them.
    pub overbooked_leases: u64,
    /// Changes that the transition table refused.
    pub illegal_changes: u64,
}

/// Ends of stage runs other than success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ends {
    /// Their node ended unannounced, or before they had come to a checkpoint.
    pub killed: u64,
    /// A node that was told to end released them.
    pub drained: u64,
    /// Their worker died, and its node lived on.
    pub crashed: u64,
    /// The stage failed.
    pub failed: u64,
}

/// Faults of sick devices, and their consequences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DeviceFaults {
    /// Nodes with such a device.
    pub nodes: u64,
    /// Times that a stage found its device hung or failing.
    pub faults: u64,
    /// Ends of nodes that gave their device up.
    pub node_ends: u64,
    /// Stages that were taken out of service on their node.
    pub out_of_service: u64,
    /// Times that a volume was held to be at fault.
    pub blamed: u64,
}

/// Counts of a stage.
#[derive(Debug, Default)]
pub(crate) struct StageCounts {
    pub succeeded: u64,
    /// Pages worked on, including those that were lost.
    pub pages: u64,
    /// Pages worked on of which nothing was saved.
    pub lost_pages: u64,
    /// Seconds that tasks waited for a slot, one value for each run.
    pub waits: Vec<f32>,
}

/// Counts of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub audit: Audit,
    pub ends: Ends,
    pub devices: DeviceFaults,
    pub stages: Vec<StageCounts>,
    /// Slot time used, by class and stage.
    pub busy: HashMap<(usize, usize), Millis>,
    /// Slot time spent on pages that were lost.
    pub lost: Millis,
    pub node_ends: u64,
    pub announced_ends: u64,
    pub undelivered: u64,
    pub fenced: u64,
    pub passes: u64,
    pub largest_group: usize,
    pub peak_round_trips_per_s: f64,
    /// Changes that the autoscaler made.
    pub scalings: u64,
    /// Time of the last change, by class.
    pub scaled_at: HashMap<usize, Millis>,
    /// Largest number of nodes that was desired, by class.
    pub most_nodes: HashMap<usize, usize>,
    /// Time from which a task could have begun its next stage.
    pub ready_since: HashMap<TaskId, Millis>,
}
