//! How commands reach nodes: by an order in the database, which the leader or the node itself carries out.

use std::time::Duration;

use chrono::{DateTime, Utc};
use parkhang_core::domain::{NodeOrder, NodeRecord, OrderOutcome, PlacedOrder};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::command::Answer;
use super::{Admin, Refusal};

/// For a node to take an order.
const PATIENCE: Duration = Duration::from_secs(20);

/// An order that was carried out, or has begun to be.
#[derive(Debug, Serialize, ToSchema)]
pub struct Obeyed {
    /// The order's number.
    order: i64,
    node: String,
    what: &'static str,
    /// What the node said.
    message: String,
}

impl Obeyed {
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl Answer for Obeyed {
    fn text(&self) -> String {
        format!("{}: {}", self.node, self.message)
    }
}

/// The node that is there under this name, or under the only one that begins like this.
pub async fn find_node(admin: &Admin, name: &str) -> Result<NodeRecord, Refusal> {
    let nodes = admin.store.nodes().await?;
    pick(nodes, name).map_err(Refusal::NotFound)
}

/// The name of the node that is meant, which may be gone; one that nobody remembers is what it is called.
pub async fn node_meant(admin: &Admin, name: &str) -> Result<String, Refusal> {
    let nodes = admin.store.nodes().await?;
    let known: Vec<&NodeRecord> = nodes.iter().filter(|node| node.name.starts_with(name)).collect();
    match known[..] {
        [] => Ok(name.to_owned()),
        [only] => Ok(only.name.clone()),
        _ if known.iter().any(|node| node.name == name) => Ok(name.to_owned()),
        _ => pick(nodes, name).map(|node| node.name).map_err(Refusal::NotFound),
    }
}

fn pick(nodes: Vec<NodeRecord>, name: &str) -> Result<NodeRecord, String> {
    let mut meant: Vec<NodeRecord> = nodes
        .into_iter()
        .filter(|node| node.state.is_there() && node.name.starts_with(name))
        .collect();
    if let Some(exact) = meant.iter().position(|node| node.name == name) {
        return Ok(meant.swap_remove(exact));
    }
    match meant.len() {
        1 => Ok(meant.swap_remove(0)),
        0 => Err(format!(
            "no node {name} is there; nodes list shows those that are"
        )),
        _ => {
            let names: Vec<&str> = meant.iter().map(|node| node.name.as_str()).collect();
            Err(format!("{name} may be {}", names.join(" or ")))
        }
    }
}

/// Has a node carry out an order.
pub async fn give(admin: &Admin, node: &str, order: NodeOrder) -> Result<Obeyed, Refusal> {
    let node = find_node(admin, node).await?.name;
    let store = &admin.store;
    let mut changes = store.order_changes().await?;
    let id = store
        .place_order(&node, &order, &admin.asked_by, PATIENCE)
        .await?;
    let outcome = async {
        loop {
            if let Some(outcome) = store.order(id).await?.and_then(|order| order.outcome) {
                return Ok::<_, Refusal>(outcome);
            }
            changes.next().await?;
        }
    };
    let outcome = match tokio::time::timeout(PATIENCE, outcome).await {
        Ok(outcome) => outcome?,
        Err(_) => {
            let nobody = format!("nobody carried it out within {PATIENCE:?}: the node may be out of touch");
            store.settle_order(id, &OrderOutcome::refused(nobody)).await?
        }
    };
    match outcome {
        OrderOutcome::Done { message } => Ok(Obeyed {
            order: id,
            node,
            what: order.name(),
            message,
        }),
        OrderOutcome::Refused { reason } => Err(Refusal::Conflict(format!("{node}: {reason}"))),
    }
}

/// An order to a node, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Order {
    order: i64,
    what: &'static str,
    asked_by: String,
    asked_at: DateTime<Utc>,
    done_at: Option<DateTime<Utc>>,
    /// What the node said, or why the order was refused; none while it waits.
    message: Option<String>,
    refused: bool,
}

impl From<PlacedOrder> for Order {
    fn from(placed: PlacedOrder) -> Self {
        let (message, refused) = match placed.outcome {
            Some(OrderOutcome::Done { message }) => (Some(message), false),
            Some(OrderOutcome::Refused { reason }) => (Some(reason), true),
            None => (None, false),
        };
        Self {
            order: placed.id,
            what: placed.order.name(),
            asked_by: placed.asked_by,
            asked_at: placed.asked_at,
            done_at: placed.done_at,
            message,
            refused,
        }
    }
}

impl Order {
    pub fn asked_at(&self) -> DateTime<Utc> {
        self.asked_at
    }

    pub fn in_a_line(&self, ago: &str) -> String {
        let refused = if self.refused { "refused: " } else { "" };
        let message = self.message.as_deref().unwrap_or("waiting");
        format!("{ago} {} by {}: {refused}{message}", self.what, self.asked_by)
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::NodeState;

    use super::*;

    fn node(name: &str, state: NodeState) -> NodeRecord {
        NodeRecord {
            name: name.to_owned(),
            roles: Vec::new(),
            tags: Vec::new(),
            host: None,
            build: "0".to_owned(),
            protocol: 1,
            health: None,
            started_at: None,
            resident: None,
            last_seen: DateTime::UNIX_EPOCH,
            state,
            workers: Vec::new(),
        }
    }

    #[test]
    fn a_node_is_named_by_as_much_as_tells_it_apart_from_those_that_are_there() {
        let nodes = || {
            vec![
                node("cpu.1", NodeState::Joined),
                node("cpu.12", NodeState::Draining),
                node("gpu.2", NodeState::Joined),
                node("gpu.1", NodeState::Lost),
            ]
        };
        let picked = |name| pick(nodes(), name).map(|node| node.name);
        assert_eq!(picked("gpu").as_deref(), Ok("gpu.2"));
        assert_eq!(picked("cpu.1").as_deref(), Ok("cpu.1"));
        assert_eq!(picked("cpu"), Err("cpu may be cpu.1 or cpu.12".to_owned()));
        assert!(picked("gpu.1").is_err_and(|error| error.contains("no node gpu.1 is there")));
    }
}
