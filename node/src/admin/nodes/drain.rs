use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{NodeOrder, NodeRecord, NodeState};
use parkhang_state::StateStore;

use crate::admin::command::{Access, Command, Verb};
use crate::admin::orders::{Obeyed, give};
use crate::admin::{Admin, Refusal};

const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Let a node take no more work and hand back what it has at the next checkpoints, uncharged.
///
/// The process stays, and does nothing more until it is started again. A node that drains already goes on doing so.
#[derive(Debug, Args)]
pub struct Drain {
    /// Its name, or as much of it as tells it apart.
    #[arg(value_name = "NODE")]
    node: String,
    /// Come back when it holds no work any more.
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

/// Whether the node has told that it holds nothing since it began to drain, or is gone.
fn is_drained(node: &NodeRecord) -> bool {
    match node.state {
        NodeState::Joined => false,
        NodeState::Draining => node.workers.iter().all(|worker| worker.in_use == 0),
        NodeState::Left | NodeState::Lost => true,
    }
}
