//! `nodes show`: a node with its actors and commands.

use async_trait::async_trait;
use chrono::Utc;
use clap::Args;
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::Node;
use crate::admin::actors::{Actor, tree};
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::orders::{CommandSummary, find_node};
use crate::admin::text::away;
use crate::admin::{Admin, Refusal};

/// Number of commands shown.
const ORDERS: u32 = 10;

/// Show one node: its properties, its actors, and the commands that operators gave it.
#[derive(Debug, Args)]
pub struct Show {
    /// Name of the node, or a unique prefix of it.
    #[arg(value_name = "NODE")]
    node: String,
}

/// Node with its actors and commands.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodeDetails {
    node: Node,
    /// Actors, parents before their children.
    actors: Vec<Actor>,
    /// Its last commands, the newest first.
    orders: Vec<CommandSummary>,
}

#[async_trait]
impl Command for Show {
    const NAME: [&'static str; 2] = ["nodes", "show"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/nodes/{node}";
    type Answer = NodeDetails;

    async fn run(self, admin: &Admin) -> Result<NodeDetails, Refusal> {
        let record = find_node(admin, &self.node).await?;
        let leads = admin.store.leader().await?.as_deref() == Some(record.name.as_str());
        let known = admin.store.actors().await?;
        let reported = known.into_iter().find(|reported| reported.node == record.name);
        let held = admin.store.leases(Utc::now()).await?.held;
        let orders = admin.store.commands_to(&record.name, ORDERS).await?;
        Ok(NodeDetails {
            node: Node::new(record, leads, reported.as_ref(), &held),
            actors: reported.map_or_else(Vec::new, |reported| Actor::all(reported.actors)),
            orders: orders.into_iter().map(CommandSummary::from).collect(),
        })
    }
}

impl Answer for NodeDetails {
    fn text(&self) -> String {
        let now = Utc::now();
        let mut text = self.node.in_lines(now);
        if !self.actors.is_empty() {
            text.push_str("\n\n");
            text.push_str(&tree(&self.actors, now));
        }
        if !self.orders.is_empty() {
            text.push_str("\n\norders");
            for order in &self.orders {
                text.push_str(&format!("\n  {}", order.in_a_line(&away(order.asked_at(), now))));
            }
        }
        text
    }
}
