//! A node of a cluster: `node --role ...`. It reads its configuration, joins, does what its role says until it is told to
//! stop, and leaves in order. A process has the orchestrator's role or the others, not both: what must not fail together
//! does not run together. Asked for both, it becomes the parent of one of each.

mod arguments;
mod desk;
mod household;
mod models;
mod orchestrator;
mod orders;
mod probes;
mod pull;
mod services;
mod standing;
mod stop;
mod watch;
mod worker;
mod workers;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};

use self::standing::Standing;
use crate::config::{ConfigArgs, Loaded, Role, Shortcut, SourceKind};
use crate::{join, log, repl};

pub use arguments::RoleArgs;

pub async fn run(arguments: RoleArgs) -> Result<ExitCode> {
    let (ready_fd, with_parent) = (arguments.ready_fd, arguments.with_parent);
    let takes_commands = arguments.repl;
    let arguments = settings(arguments);
    let loaded = Arc::new(Loaded::read(&arguments)?.fit_to_start()?);
    if let Some(parent) = with_parent {
        stop::when_gone(parent)?;
    }
    let node = join::node_name(&loaded)?;
    let roles = &loaded.config.node.roles;
    if takes_commands && roles.iter().any(|role| *role != Role::Orchestrator) {
        bail!("--repl goes with the role orchestrator alone; node repl gives commands to any cluster");
    }
    let log = takes_commands.then(|| repl::log_file(&loaded)).transpose()?;
    let traces = log::of_node(node.as_str(), &loaded.config.telemetry, log)?;
    let leads = roles.contains(&Role::Orchestrator);
    let works = roles.iter().any(|role| *role != Role::Orchestrator);
    let end = match (leads, works) {
        (true, true) => household::run(&loaded, &arguments, node, ready_fd).await,
        (true, false) => {
            let standing = Standing::open(&loaded, node, ready_fd).await?;
            orchestrator::run(&loaded, standing, takes_commands).await
        }
        (false, true) => {
            let standing = Standing::open(&loaded, node, ready_fd).await?;
            match loaded.config.source.kind {
                SourceKind::Direct => worker::run(&loaded, standing).await,
                SourceKind::Postgres | SourceKind::Shards => pull::run(&loaded, standing).await,
            }
        }
        (false, false) => bail!("this node has no role: give --role, or set node.roles"),
    };
    if let Some(traces) = traces {
        traces.flush().await;
    }
    end
}

/// The flags of a node are short for keys of its configuration.
fn settings(arguments: RoleArgs) -> ConfigArgs {
    let mut config = arguments.config;
    let list = |values: Vec<String>| (!values.is_empty()).then(|| values.join(","));
    let flags = [
        ("--role", "node.roles", list(arguments.role)),
        ("--job", "source.jobs", list(arguments.job)),
        ("--source", "source.kind", arguments.source),
        ("--log-format", "telemetry.format", arguments.log_format),
    ];
    let given = flags.into_iter().filter_map(|(flag, key, value)| {
        Some(Shortcut {
            flag,
            key,
            value: value?,
        })
    });
    config.others.extend(given);
    config
}

fn roles(loaded: &Loaded) -> String {
    let names = loaded.config.node.roles.iter().map(|role| role.as_str());
    names.collect::<Vec<_>>().join(",")
}
