//! A node of a cluster: `node --role ...`. It reads its configuration, joins, does what its role says until it is told to
//! stop, and leaves in order. A process has the orchestrator's role or the others, not both: what must not fail together
//! does not run together.

mod join;
mod orchestrator;
mod services;
mod stop;
mod worker;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::cli::RoleArgs;
use crate::config::{ConfigArgs, Loaded, Role};

pub use services::database;

pub async fn run(arguments: RoleArgs) -> Result<ExitCode> {
    let loaded = Loaded::read(&with_roles(arguments))?.validated()?;
    let roles = &loaded.config.node.roles;
    let leads = roles.contains(&Role::Orchestrator);
    let works = roles.iter().any(|role| *role != Role::Orchestrator);
    match (leads, works) {
        (true, true) => bail!("an orchestrator is a process of its own: start the other roles beside it"),
        (true, false) => orchestrator::run(&loaded).await,
        (false, true) => worker::run(&loaded).await,
        (false, false) => bail!("this node has no role: give --role, or set node.roles"),
    }
}

/// `--role` is a short way to set `node.roles`.
fn with_roles(arguments: RoleArgs) -> ConfigArgs {
    let mut config = arguments.config;
    if !arguments.role.is_empty() {
        config
            .set
            .push(format!("node.roles={}", arguments.role.join(",")));
    }
    config
}

/// Name of the cluster among the gates of a process.
const SCOPE: &str = "parkhang";

fn roles(loaded: &Loaded) -> String {
    let names = loaded.config.node.roles.iter().map(|role| role.as_str());
    names.collect::<Vec<_>>().join(",")
}

/// What supervisors wait for on standard output.
fn announce(node: &str, details: &str) {
    println!("READY {node} {details}");
}
