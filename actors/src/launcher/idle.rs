use std::collections::BTreeSet;

use super::Workers;
use parkhang_core::domain::{Hardware, NodeRecord, NodeState};

/// Launched workers that have joined and do nothing: their number, and their names where the launcher knows its workers by name.
///
/// Where it does not, nodes that somebody started by hand cannot be told from launched ones. As many idle nodes as there are of
/// those are left out of the number, so that no launched worker at work is taken for idle.
pub fn idle_workers(nodes: &[NodeRecord], hardware: Hardware, workers: &Workers) -> (u32, BTreeSet<String>) {
    let joined: Vec<&NodeRecord> = nodes
        .iter()
        .filter(|node| node.state == NodeState::Joined)
        .filter(|node| node.roles.iter().any(|role| role == hardware.as_str()))
        .collect();
    let idle = joined.iter().filter(|node| is_idle(node));
    let Some(launched) = &workers.names else {
        let by_hand = joined.len().saturating_sub(workers.running as usize);
        let idle = idle.count().saturating_sub(by_hand);
        return (u32::try_from(idle).unwrap_or(u32::MAX), BTreeSet::new());
    };
    let names: BTreeSet<String> = idle
        .map(|node| operators_name(&node.name))
        .filter(|name| launched.contains(*name))
        .map(str::to_owned)
        .collect();
    (u32::try_from(names.len()).unwrap_or(u32::MAX), names)
}

/// Returns whether no slot of the node is in use. A node without pools, as it is starting or out of order, is not idle.
fn is_idle(node: &NodeRecord) -> bool {
    !node.workers.is_empty() && node.workers.iter().all(|pool| pool.in_use == 0)
}

/// A node's name without the suffix that makes it unique, see [`NodeName`](crate::cluster::NodeName).
fn operators_name(node: &str) -> &str {
    node.rsplit_once('.').map_or(node, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::NodeName;
    use parkhang_core::domain::WorkerRecord;
    use parkhang_core::domain::testing::{node_record, worker_record};

    fn node(name: &str, role: &str, state: NodeState, in_use: &[u32]) -> NodeRecord {
        let pool = |in_use: &u32| WorkerRecord {
            slots: 2,
            in_use: *in_use,
            ..worker_record(&format!("{name}/{in_use}"), "ocr")
        };
        NodeRecord {
            roles: vec![role.to_owned()],
            state,
            workers: in_use.iter().map(pool).collect(),
            ..node_record(NodeName::unique(name).unwrap().as_str())
        }
    }

    fn workers(running: u32, names: Option<&[&str]>) -> Workers {
        Workers {
            desired: running,
            running,
            names: names.map(|names| names.iter().map(ToString::to_string).collect()),
            ..Workers::default()
        }
    }

    #[test]
    fn a_worker_is_idle_when_it_has_joined_and_no_slot_is_in_use() {
        let nodes = [
            node("a.1", "gpu", NodeState::Joined, &[0, 0]),
            node("b", "gpu", NodeState::Joined, &[0, 1]),
            node("c", "gpu", NodeState::Joined, &[]),
            node("d", "gpu", NodeState::Draining, &[0]),
            node("e", "cpu", NodeState::Joined, &[0]),
        ];
        let names = ["a.1", "b", "c", "d", "e"];
        let (count, idle) = idle_workers(&nodes, Hardware::Gpu, &workers(5, Some(&names)));
        assert_eq!((count, idle), (1, BTreeSet::from(["a.1".to_owned()])));
    }

    #[test]
    fn nodes_that_were_started_by_hand_are_not_given_up() {
        let nodes = [
            node("hand", "gpu", NodeState::Joined, &[0]),
            node("x", "gpu", NodeState::Joined, &[0]),
            node("y", "gpu", NodeState::Joined, &[1]),
        ];
        let named = workers(2, Some(&["x", "y"]));
        assert_eq!(idle_workers(&nodes, Hardware::Gpu, &named).0, 1);
        let (count, names) = idle_workers(&nodes, Hardware::Gpu, &workers(2, None));
        assert_eq!(
            (count, names.len()),
            (1, 0),
            "the one at work may be by hand or not"
        );
        assert_eq!(idle_workers(&nodes, Hardware::Gpu, &workers(1, None)).0, 0);
    }
}
