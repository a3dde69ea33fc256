//! `node nodes`: who takes part in the cluster, through its database.

use std::process::ExitCode;

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use parkhang_actors::domain::NodeRecord;
use parkhang_actors::state::StateStore;
use serde_json::{Value, json};

use crate::config::{ConfigArgs, Loaded};
use crate::role::database;

const RECENTLY: TimeDelta = TimeDelta::hours(1);

#[derive(Debug, Subcommand)]
pub enum NodesCommand {
    /// List the nodes that are there, those that left or were lost in the last hour, and what each runs.
    List(ListArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Also nodes that have been gone for longer; they are remembered for seven days.
    #[arg(long)]
    pub all: bool,
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

pub async fn run(command: NodesCommand) -> Result<ExitCode> {
    let NodesCommand::List(arguments) = command;
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let database = database(&loaded).await?;
    let now = Utc::now();
    let (nodes, gone): (Vec<NodeRecord>, Vec<NodeRecord>) = database
        .store
        .nodes()
        .await?
        .into_iter()
        .partition(|node| arguments.all || is_current(node, now));
    let leader = database.store.leader().await?;
    let leads = |node: &NodeRecord| leader.as_deref() == Some(node.name.as_str());
    match arguments.json {
        true => {
            let nodes = nodes.iter().map(|node| {
                let mut described = json!(node);
                described["leads"] = leads(node).into();
                described
            });
            println!("{:#}", nodes.collect::<Value>());
        }
        false => {
            println!("{}", table(&nodes, leads, now));
            if !gone.is_empty() {
                println!("and {} that went more than an hour ago (--all)", gone.len());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the node is there, or went so recently that it is still of interest.
fn is_current(node: &NodeRecord, now: DateTime<Utc>) -> bool {
    node.state.is_there() || now - node.last_seen <= RECENTLY
}

fn table(nodes: &[NodeRecord], leads: impl Fn(&NodeRecord) -> bool, now: DateTime<Utc>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "node",
        "roles",
        "state",
        "seen",
        "host",
        "build",
        "health",
        "slots in use",
    ]);
    for node in nodes {
        let leads = if leads(node) && node.state.is_there() {
            " (leads)"
        } else {
            ""
        };
        let silent = (now - node.last_seen).to_std().unwrap_or_default();
        let silent = std::time::Duration::from_secs(silent.as_secs());
        let slots = node.workers.iter().map(|worker| {
            let pages = worker.pages_finished.zip(worker.pages);
            let pages = pages.map_or(String::new(), |(finished, pages)| {
                format!(", page {finished} of {pages}")
            });
            format!("{} {}/{}{pages}", worker.stage, worker.in_use, worker.slots)
        });
        table.add_row([
            node.name.clone(),
            format!("{}{leads}", node.roles.join(",")),
            node.state.as_str().to_owned(),
            format!("{} ago", humantime::format_duration(silent)),
            node.host.clone().unwrap_or_default(),
            node.build.clone(),
            node.health.clone().unwrap_or_default(),
            slots.collect::<Vec<_>>().join("\n"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use parkhang_actors::domain::NodeState;

    use super::*;

    #[test]
    fn nodes_that_went_long_ago_are_left_out() {
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let is_shown = |state, minutes| {
            let node = NodeRecord {
                name: "cpu-1.0badcafe".to_owned(),
                roles: vec!["cpu".to_owned()],
                host: None,
                build: "0".to_owned(),
                protocol: 1,
                health: None,
                started_at: None,
                last_seen: now - TimeDelta::minutes(minutes),
                state,
                workers: Vec::new(),
            };
            is_current(&node, now)
        };
        assert!(
            is_shown(NodeState::Joined, 90),
            "it may be the database that has not heard of it"
        );
        for state in [NodeState::Lost, NodeState::Left] {
            assert!(is_shown(state, 59) && !is_shown(state, 61), "{state:?}");
        }
    }
}
