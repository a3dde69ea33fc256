//! What happened, added up as it happens.

use std::collections::HashMap;

use serde::Serialize;

use crate::agenda::Millis;
use parkhang_core::domain::TaskId;

/// Breaches that must not happen, counted by the nodes, which know what they run.
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
    /// Given back by a node that was told to end.
    pub drained: u64,
    /// Their worker died, and its node lived on.
    pub crashed: u64,
    pub failed: u64,
}

#[derive(Debug, Default)]
pub(crate) struct StageTally {
    pub succeeded: u64,
    /// Pages worked on, those included that were lost.
    pub pages: u64,
    pub lost_pages: u64,
    /// Seconds that tasks waited for a slot, one value for each run.
    pub waits: Vec<f32>,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub audit: Audit,
    pub ends: Ends,
    pub stages: Vec<StageTally>,
    /// Slot time used, by class and stage.
    pub busy: HashMap<(usize, usize), Millis>,
    pub lost: Millis,
    pub node_ends: u64,
    pub announced_ends: u64,
    pub undelivered: u64,
    pub fenced: u64,
    pub passes: u64,
    pub largest_group: usize,
    pub peak_round_trips_per_s: f64,
    /// Changes of the autoscaler, by class the time of the last, and the most nodes that there were to be.
    pub scalings: u64,
    pub scaled_at: HashMap<usize, Millis>,
    pub most_nodes: HashMap<usize, usize>,
    /// Since when a task could have begun its next stage.
    pub ready_since: HashMap<TaskId, Millis>,
}
