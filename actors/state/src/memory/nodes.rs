//! Nodes of the memory store.

use std::collections::BTreeMap;

use crate::NodeSnapshot;
use parkhang_core::domain::{NodeRecord, NodeState};

/// Nodes by name.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeMap<String, NodeRecord>);

impl Nodes {
    /// Takes in a snapshot.
    pub(super) fn record(&mut self, snapshot: &NodeSnapshot) {
        for node in &snapshot.nodes {
            self.0.insert(node.name.clone(), node.clone());
        }
        for node in self.0.values_mut() {
            let is_reported = snapshot.nodes.iter().any(|reported| reported.name == node.name);
            let is_silent = snapshot
                .lost_before
                .is_some_and(|lost_before| node.last_seen < lost_before);
            if node.state.is_there() && is_silent && !is_reported {
                node.state = NodeState::Lost;
            }
            if !node.state.is_there() {
                node.workers.clear();
            }
        }
        if let Some(forgotten_before) = snapshot.forgotten_before {
            self.0
                .retain(|_, node| node.state.is_there() || node.last_seen >= forgotten_before);
        }
    }

    /// Nodes in the order of their names.
    pub(super) fn all(&self) -> Vec<NodeRecord> {
        self.0.values().cloned().collect()
    }
}
