//! Nodes of the cluster, as far as one orchestrator can say.

use chrono::{DateTime, Utc};

use parkhang_core::domain::NodeRecord;

/// Nodes that an orchestrator knows of, and the times from which on it takes the others for lost or gone for good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// Records that replace what is stored of the nodes of their names.
    pub nodes: Vec<NodeRecord>,
    /// Time since which any other node must have been seen in order not to count as lost.
    pub lost_before: Option<DateTime<Utc>>,
    /// Time since which a node that left or was lost must have been seen in order not to be deleted.
    pub forgotten_before: Option<DateTime<Utc>>,
}
