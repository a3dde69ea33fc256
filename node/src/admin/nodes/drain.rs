//! `nodes drain`: empties a node.

use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{NodeOrder, NodeRecord, NodeState};
use parkhang_state::StateStore;

use crate::admin::command::{Access, Command, Verb};
use crate::admin::orders::{Obeyed, give};
use crate::admin::{Admin, Refusal};

const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Drain a node: it takes no more work and releases what it has at the next checkpoints, without charging a try.
///
/// The process keeps running but takes no work until it is restarted. Draining a node twice has no further effect.
#[derive(Debug, Args)]
pub struct Drain {
    /// Name of the node, or a unique prefix of it.
    #[arg(value_name = "NODE")]
    node: String,
    /// Wait until it holds no work any more.
    #[arg(long)]
    wait: bool,
}

#[async_trait]
impl Command for Drain {
    const NAME: [&'static str; 2] = ["nodes", "drain"];
    const ACCESS: Access = Access::Operate;
    const VERB: Verb = Verb::Post;
    const PATH: &'static str = "/nodes/{node}/drain";
    const LOCAL: &'static [&'static str] = &["wait"];
    type Answer = Obeyed;

    async fn run(self, admin: &Admin) -> Result<Obeyed, Refusal> {
        let obeyed = give(admin, &self.node, NodeOrder::Drain).await?;
        if self.wait {
            until_drained(admin, obeyed.node()).await?;
        }
        Ok(obeyed)
    }
}

async fn until_drained(admin: &Admin, name: &str) -> Result<(), Refusal> {
    loop {
        let nodes = admin.store.nodes().await?;
        if nodes.iter().find(|node| node.name == name).is_none_or(is_drained) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Returns whether the node has reported that it holds no lease since it began to drain, or is gone.
fn is_drained(node: &NodeRecord) -> bool {
    match node.state {
        NodeState::Joined => false,
        NodeState::Draining => node.workers.iter().all(|worker| worker.in_use == 0),
        NodeState::Left | NodeState::Lost => true,
    }
}
