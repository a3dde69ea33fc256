//! Stages that no node can be expected to run.

use chrono::{DateTime, TimeDelta, Utc};
use parkhang_actors::stage::StageTable;
use parkhang_core::domain::{NodeRecord, Pipeline, StageName};

/// Stages of a pipeline that none of the nodes with their hardware has, though there are such nodes. A node of this build has all
/// stages of its hardware, once it is ready; where there is no node of the hardware, one may come. `timeout` is the time for which a
/// node may be silent and still count.
pub fn unserved<'p>(
    pipeline: &'p Pipeline,
    table: &StageTable,
    nodes: &[NodeRecord],
    timeout: TimeDelta,
    now: DateTime<Utc>,
) -> Vec<&'p StageName> {
    let present = |node: &&NodeRecord| node.state.is_there() && now - node.last_seen <= timeout;
    let is_unserved = |stage: &&StageName| {
        // A stage that this build does not know says nothing about nodes of other builds.
        let Some(hardware) = table.hardware_of(stage) else {
            return false;
        };
        let role = hardware.as_str();
        let mut able = nodes
            .iter()
            .filter(present)
            .filter(|node| node.roles.iter().any(|other| other == role))
            .peekable();
        let runs = |node: &NodeRecord| {
            // A node of this build that is still loading has no pools yet.
            node.build == env!("CARGO_PKG_VERSION") || node.workers.iter().any(|pool| pool.stage == **stage)
        };
        able.peek().is_some() && !able.any(runs)
    };
    pipeline.stages().iter().filter(is_unserved).collect()
}

#[cfg(test)]
mod tests {
    use parkhang_actors::stage::ocr_pipeline;
    use parkhang_core::domain::{NodeState, WorkerId, WorkerRecord};

    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000 + second, 0).unwrap()
    }

    /// Node with the role gpu, last seen at second 90.
    fn node(build: &str, stages: &[&str]) -> NodeRecord {
        let pool = |stage: &&str| WorkerRecord {
            worker: WorkerId(format!("node/{stage}")),
            stage: StageName::new(*stage).unwrap(),
            models: Vec::new(),
            slots: 1,
            in_use: 0,
            incarnation: 1,
            last_heartbeat: None,
            pages: None,
            pages_finished: None,
        };
        NodeRecord {
            name: "node".to_owned(),
            roles: vec!["gpu".to_owned()],
            tags: Vec::new(),
            host: None,
            build: build.to_owned(),
            protocol: 1,
            health: None,
            started_at: None,
            resident: None,
            last_seen: at(90),
            state: NodeState::Joined,
            workers: stages.iter().map(pool).collect(),
            engines: Vec::new(),
        }
    }

    #[test]
    fn a_stage_is_unserved_where_nodes_of_its_hardware_do_not_have_it() {
        let (pipeline, table) = (ocr_pipeline(), StageTable::built_in());
        let found = |nodes: &[NodeRecord], now| {
            let found = unserved(&pipeline, &table, nodes, TimeDelta::seconds(20), now);
            found.into_iter().map(StageName::as_str).collect::<Vec<_>>()
        };
        let nobody: [&str; 0] = [];
        let older = node("0.0.1", &["line_detection"]);
        assert_eq!(found(std::slice::from_ref(&older), at(100)), ["ocr"]);
        assert_eq!(found(&[older.clone(), node("0.0.1", &["ocr"])], at(100)), nobody);
        assert_eq!(found(&[], at(100)), nobody, "one may come");
        assert_eq!(
            found(std::slice::from_ref(&older), at(120)),
            nobody,
            "it is not heard of"
        );
        let starting = node(env!("CARGO_PKG_VERSION"), &[]);
        assert_eq!(
            found(&[older.clone(), starting], at(100)),
            nobody,
            "it will have them"
        );
        let left = NodeRecord {
            state: NodeState::Left,
            ..older
        };
        assert_eq!(found(&[left], at(100)), nobody);
    }
}
