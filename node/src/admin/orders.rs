//! Commands to nodes: rows in the database, which the leader sends to a node, or which a node that takes its work itself picks up.

use std::time::Duration;

use chrono::{DateTime, Utc};
use parkhang_core::domain::{CommandOutcome, IssuedCommand, NodeCommand, NodeRecord};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::command::Answer;
use super::{Admin, Refusal};

/// Time within which a node must have begun a command.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Order that was carried out, or has begun to be.
#[derive(Debug, Serialize, ToSchema)]
pub struct Executed {
    /// Number of the command.
    order: i64,
    node: String,
    what: &'static str,
    /// Answer of the node.
    message: String,
}

impl Answer for Executed {
    fn text(&self) -> String {
        format!("{}: {}", self.node, self.message)
    }
}

/// Returns the node of this name, or the only one whose name begins with it, among those that are there.
///
/// # Errors
///
/// [`Refusal::NotFound`] if none or several match; the error names the latter.
pub async fn find_node(admin: &Admin, name: &str) -> Result<NodeRecord, Refusal> {
    let nodes = admin.store.nodes().await?;
    pick(nodes, name).map_err(Refusal::NotFound)
}

/// Returns the full name of a node, which may be gone. A name that matches no known node is returned as it is: there may be
/// statistics of it all the same.
///
/// # Errors
///
/// [`Refusal::NotFound`] if several match and none of them, or more than one, is there.
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
    // A full name always means that node, even if the names of others begin with it.
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

/// Gives a node a command and waits for its answer.
///
/// # Errors
///
/// [`Refusal::NotFound`] if no such node is there, and [`Refusal::Conflict`] if it refuses the command or does not answer in time.
pub async fn give(admin: &Admin, node: &str, order: NodeCommand) -> Result<Executed, Refusal> {
    let node = find_node(admin, node).await?.name;
    let store = &admin.store;
    // Subscribed before the command is issued, so that an answer which comes at once is not missed.
    let mut changes = store.command_changes().await?;
    let id = store
        // The command expires when this stops waiting: a node that returns later must not carry out what was
        // reported as refused.
        .issue_command(&node, &order, &admin.asked_by, TIMEOUT)
        .await?;
    let outcome = async {
        loop {
            if let Some(outcome) = store.command(id).await?.and_then(|command| command.outcome) {
                return Ok::<_, Refusal>(outcome);
            }
            changes.next().await?;
        }
    };
    let outcome = match tokio::time::timeout(TIMEOUT, outcome).await {
        Ok(outcome) => outcome?,
        Err(_) => {
            // The row decides: if the node took the command in this very moment, its outcome stands and is returned instead.
            let nobody = format!("the node did not answer within {TIMEOUT:?}; it may be disconnected");
            store
                .complete_command(id, &CommandOutcome::refused(nobody))
                .await?
        }
    };
    match outcome {
        CommandOutcome::Done { message } => Ok(Executed {
            order: id,
            node,
            what: order.name(),
            message,
        }),
        CommandOutcome::Refused { reason } => Err(Refusal::Conflict(format!("{node}: {reason}"))),
    }
}

/// Command to a node, with its outcome.
#[derive(Debug, Serialize, ToSchema)]
pub struct CommandSummary {
    order: i64,
    what: &'static str,
    asked_by: String,
    asked_at: DateTime<Utc>,
    done_at: Option<DateTime<Utc>>,
    /// Answer of the node, or the reason for which the command was refused; absent while it waits.
    message: Option<String>,
    refused: bool,
}

impl From<IssuedCommand> for CommandSummary {
    fn from(issued: IssuedCommand) -> Self {
        let (message, refused) = match issued.outcome {
            Some(CommandOutcome::Done { message }) => (Some(message), false),
            Some(CommandOutcome::Refused { reason }) => (Some(reason), true),
            None => (None, false),
        };
        Self {
            order: issued.id,
            what: issued.command.name(),
            asked_by: issued.asked_by,
            asked_at: issued.asked_at,
            done_at: issued.done_at,
            message,
            refused,
        }
    }
}

impl CommandSummary {
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
    use parkhang_core::domain::testing::node_record;

    use super::*;

    fn node(name: &str, state: NodeState) -> NodeRecord {
        NodeRecord {
            state,
            ..node_record(name)
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
