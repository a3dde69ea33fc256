//! Nodes that are much slower at a stage than others: a device that is throttled, shared with somebody else or half broken answers all the same, and
//! no fault tells of it.

use super::percentile::percentile;
use crate::domain::StageName;

/// Number of times as long for a page as others from which on a node is slow. Pages of one library differ by less, taken over [`EVIDENCE`].
pub const FACTOR: f64 = 3.0;
/// Fewest pages that say how fast a node is.
pub const EVIDENCE: u64 = 100;
/// Share of the other nodes, in per cent, that must be so much faster. Not half of them, as half of a fleet may be sick.
const FASTER: f64 = 25.0;

/// Work that a node has done at a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePace {
    pub node: String,
    pub stage: StageName,
    pub pages: u64,
    /// Time that the runs with these pages took, added up.
    pub seconds: f64,
}

impl NodePace {
    fn seconds_a_page(&self) -> f64 {
        self.seconds / self.pages as f64
    }
}

/// Node that is slow at a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowNode {
    pub node: String,
    pub stage: StageName,
    /// Number of times as long that it needs for a page as the faster ones of the others.
    pub times: f64,
}

/// Nodes that are slow, in the order of the paces.
pub fn slow_nodes(paces: &[NodePace]) -> Vec<SlowNode> {
    let known: Vec<&NodePace> = paces.iter().filter(|pace| pace.pages >= EVIDENCE).collect();
    let slow = known.iter().filter_map(|own| {
        let others: Vec<f64> = known
            .iter()
            .filter(|other| other.stage == own.stage && other.node != own.node)
            .map(|other| other.seconds_a_page())
            .collect();
        // 0 where there are no others.
        let usual = percentile(&others, FASTER);
        let times = own.seconds_a_page() / usual;
        (usual > 0.0 && times >= FACTOR).then(|| SlowNode {
            node: own.node.clone(),
            stage: own.stage.clone(),
            times,
        })
    });
    slow.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pace(node: usize, stage: &str, pages: u64, seconds: f64) -> NodePace {
        NodePace {
            node: format!("n{node}"),
            stage: StageName::new(stage).unwrap(),
            pages,
            seconds,
        }
    }

    fn slow(paces: &[NodePace]) -> Vec<(String, f64)> {
        slow_nodes(paces)
            .into_iter()
            .map(|slow| (slow.node, slow.times))
            .collect()
    }

    #[test]
    fn a_node_is_compared_with_others_at_its_stage() {
        let paces = [
            pace(0, "ocr", 200, 20.0),
            pace(1, "ocr", 100, 50.0),
            pace(1, "line_detection", 100, 5.0),
            pace(2, "line_detection", 100, 100.0),
        ];
        assert_eq!(slow(&paces), [("n1".to_owned(), 5.0), ("n2".to_owned(), 20.0)]);
        assert_eq!(slow(&paces[1..3]), [], "with nobody to compare");
    }

    #[test]
    fn few_pages_say_nothing() {
        assert_eq!(slow(&[pace(0, "ocr", 200, 20.0), pace(1, "ocr", 99, 990.0)]), []);
        assert_eq!(slow(&[pace(0, "ocr", 99, 1.0), pace(1, "ocr", 100, 990.0)]), []);
        assert_eq!(slow(&[pace(0, "ocr", 100, 0.0), pace(1, "ocr", 100, 9.0)]), []);
    }

    proptest! {
        #[test]
        fn the_sick_half_of_a_fleet_is_told_and_no_healthy_node(
            healthy in prop::collection::vec(0.5..1.4_f64, 2..12),
            sick in prop::collection::vec(5.0..50.0_f64, 0..12),
        ) {
            let sick = &sick[..sick.len().min(healthy.len())];
            let all = healthy.iter().chain(sick).enumerate();
            let paces: Vec<NodePace> = all.map(|(node, seconds)| pace(node, "ocr", 100, 100.0 * seconds)).collect();
            let found = slow(&paces);
            prop_assert_eq!(found.len(), sick.len());
            for (node, _) in found {
                prop_assert!(node[1..].parse::<usize>().unwrap() >= healthy.len());
            }
        }
    }
}
