use std::collections::BTreeMap;

use crate::domain::{NodeRecord, NodeState};
use crate::state::Census;

/// Every node by its name.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeMap<String, NodeRecord>);

impl Nodes {
    pub(super) fn record(&mut self, census: &Census) {
        for node in &census.nodes {
            self.0.insert(node.name.clone(), node.clone());
        }
        for node in self.0.values_mut() {
            let is_told = census.nodes.iter().any(|told| told.name == node.name);
            let is_silent = census
                .lost_before
                .is_some_and(|lost_before| node.last_seen < lost_before);
            if node.state.is_there() && is_silent && !is_told {
                node.state = NodeState::Lost;
            }
            if !node.state.is_there() {
                node.workers.clear();
            }
        }
        if let Some(forgotten_before) = census.forgotten_before {
            self.0
                .retain(|_, node| node.state.is_there() || node.last_seen >= forgotten_before);
        }
    }

    pub(super) fn all(&self) -> Vec<NodeRecord> {
        self.0.values().cloned().collect()
    }
}
