//! `node nodes`: who takes part in the cluster, through its database.

use std::process::ExitCode;

use anyhow::Result;
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use parkhang_actors::domain::NodeRecord;
use parkhang_actors::state::StateStore;
use serde_json::{Value, json};

use crate::config::{ConfigArgs, Loaded};
use crate::role::database;

#[derive(Debug, Subcommand)]
pub enum NodesCommand {
    /// List the nodes that are there, those that left or were lost in the last days, and what each runs.
    List(ListArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}

pub async fn run(command: NodesCommand) -> Result<ExitCode> {
    let NodesCommand::List(arguments) = command;
    let loaded = Loaded::read(&arguments.config)?.validated()?;
    let database = database(&loaded).await?;
    let nodes = database.store.nodes().await?;
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
        false => println!("{}", table(&nodes, leads, Utc::now())),
    }
    Ok(ExitCode::SUCCESS)
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
