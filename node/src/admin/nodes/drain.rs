use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::NodeCommand;
use serde_json::{Map, Value};

use crate::admin::command::{Access, Command, Verb};
use crate::admin::orders::{Executed, give};
use crate::admin::wait::Wait;
use crate::admin::{Admin, Refusal};

/// Let a node take no more work and hand back what it has at the next checkpoints, uncharged.
///
/// The process keeps running but takes no work until it is restarted. Draining a node twice has no further effect.
#[derive(Debug, Args)]
pub struct Drain {
    /// Name of the node, or a unique prefix of it.
    #[arg(value_name = "NODE")]
    node: String,
}

#[async_trait]
impl Command for Drain {
    const NAME: [&'static str; 2] = ["nodes", "drain"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/nodes/{node}/drain";
    const WAIT: Option<Wait> = Some(Wait {
        flag: "wait",
        help: "Come back when it holds no work any more",
        ask: ["nodes", "list"],
        arguments: |_| Map::from_iter([("all".to_owned(), Value::Bool(true))]),
        is_over: is_drained,
        progress: |_| Vec::new(),
        answers: false,
    });
    type Answer = Executed;

    async fn run(self, admin: &Admin) -> Result<Executed, Refusal> {
        give(admin, &self.node, NodeCommand::Drain).await
    }
}

/// True once the node that was told to drain holds nothing, as it says itself and the database does, or is gone: a volume may be on the way to
/// a node that works on none.
fn is_drained(drained: &Value, listed: &Value) -> bool {
    let nodes = listed["nodes"].as_array();
    let node = nodes.and_then(|nodes| nodes.iter().find(|node| node["name"] == drained["node"]));
    let Some(node) = node else {
        // A node that is not even among those that are gone was forgotten by the database, so it holds
        // nothing.
        return true;
    };
    let mut workers = node["workers"].as_array().into_iter().flatten();
    match node["state"].as_str() {
        // The command was accepted a moment ago, and the record of the node may be a heartbeat old.
        Some("joined") => false,
        // An orchestrator of an earlier release does not count leases.
        Some("draining") => {
            node["leases"].as_u64().unwrap_or(0) == 0 && workers.all(|worker| worker["in_use"] == 0)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_drained_once_it_says_so_or_is_gone() {
        let drained = json!({ "node": "gpu.1" });
        let holding = |state: &str, in_use: u32, leases: u32| {
            let workers = [json!({ "in_use": 0 }), json!({ "in_use": in_use })];
            let node = json!({ "name": "gpu.1", "state": state, "leases": leases, "workers": workers });
            json!({ "nodes": [node] })
        };
        let listed = |state, in_use| holding(state, in_use, in_use);
        for (listed, is_over) in [
            (listed("joined", 0), false),
            (listed("draining", 1), false),
            (holding("draining", 0, 1), false),
            (holding("draining", 1, 0), false),
            (listed("draining", 0), true),
            (listed("left", 1), true),
            (listed("lost", 1), true),
            (json!({ "nodes": [] }), true),
        ] {
            assert_eq!(is_drained(&drained, &listed), is_over, "{listed}");
        }
    }
}
