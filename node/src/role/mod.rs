//! A node of a cluster: `node --role ...`. It reads its configuration, joins, does what its role says until it is stopped, and leaves
//! in order.
//!
//! A process has the orchestrator's role, the working roles or that of the autoscaler, never two of these: a network or a codec that takes its process down must not take
//! the leader along, and so one machine behaves as many do. Asked for both, the process starts one child of each and watches over
//! them. An orchestrator campaigns for the leadership by a session lock of Postgres, which the server passes on the moment a leader
//! dies, and starts the orchestrator's actors only while it leads; the epoch of the lock fences every write, since a frozen leader does
//! not know that it was replaced.
//!
//! The room assembles actors, listeners and stores into a process and ends them in the right order. It must not decide about work:
//! whatever is decided here could not be tested without processes, so decisions belong to `policy` and their execution to `actors`.

mod arguments;
mod autoscaler;
mod combined;
mod commands;
mod control;
mod elsewhere;
mod entity;
mod external;
mod intake;
mod levels;
mod models;
mod orchestrator;
mod probes;
mod publishing;
mod pull;
mod readiness;
mod services;
mod stop;
mod watch;
mod webhook;
mod worker;
mod workers;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};

use self::readiness::ReadinessReporter;
use crate::config::{ConfigArgs, Loaded, Role, Shortcut};
use crate::{join, log, repl};

pub use arguments::RoleArgs;
pub use worker::health;

pub async fn run(arguments: RoleArgs) -> Result<ExitCode> {
    let (ready_fd, with_parent) = (arguments.ready_fd, arguments.with_parent);
    let takes_commands = arguments.repl;
    let arguments = settings(arguments);
    let loaded = Arc::new(Loaded::read(&arguments)?.fit_to_start()?);
    if let Some(parent) = with_parent {
        // Before anything is opened: a child whose parent is gone must not take its place on a port or in the
        // database.
        stop::when_gone(parent)?;
    }
    let node = join::node_name(&loaded)?;
    let roles = &loaded.config.node.roles;
    if takes_commands && roles.iter().any(|role| *role != Role::Orchestrator) {
        bail!("--repl goes with the role orchestrator alone; node repl gives commands to any cluster");
    }
    // Log lines would be written into the command line on the same terminal.
    let log = takes_commands.then(|| repl::log_file(&loaded)).transpose()?;
    let traces = log::of_node(node.as_str(), &loaded.config.telemetry, log)?;
    let scales = roles.contains(&Role::Autoscaler);
    let leads = roles.contains(&Role::Orchestrator);
    let works = roles.iter().any(|role| *role != Role::Orchestrator);
    let hands_out = roles.contains(&Role::Entity);
    let end = match (leads, works) {
        // Alone, by the checks of the configuration.
        _ if hands_out => {
            let readiness = ReadinessReporter::open(&loaded, node, ready_fd).await?;
            entity::run(&loaded, readiness).await
        }
        _ if scales => {
            let readiness = ReadinessReporter::open(&loaded, node, ready_fd).await?;
            autoscaler::run(&loaded, readiness).await
        }
        (true, true) => combined::run(&loaded, &arguments, node, ready_fd).await,
        (true, false) => {
            let readiness = ReadinessReporter::open(&loaded, node, ready_fd).await?;
            orchestrator::run(&loaded, readiness, takes_commands).await
        }
        (false, true) => {
            let readiness = ReadinessReporter::open(&loaded, node, ready_fd).await?;
            if loaded.config.source.kind.properties().is_assigned {
                worker::run(&loaded, readiness).await
            } else {
                pull::run(&loaded, readiness).await
            }
        }
        (false, false) => bail!("this node has no role: give --role, or set node.roles"),
    };
    // Spans of the last volumes are still in memory; an error of the role must not lose them.
    if let Some(traces) = traces {
        traces.flush().await;
    }
    end
}

/// Converts the flags of a node to keys of its configuration.
fn settings(arguments: RoleArgs) -> ConfigArgs {
    let mut config = arguments.config;
    let list = |values: Vec<String>| (!values.is_empty()).then(|| values.join(","));
    let flags = [
        ("--role", "node.roles", list(arguments.role)),
        ("--stage", "node.stages", list(arguments.stage)),
        ("--model", "node.models", list(arguments.model)),
        ("--job", "source.jobs", list(arguments.job)),
        ("--entity", "node.entities", list(arguments.entity)),
        ("--source", "source.kind", arguments.source),
        ("--log-format", "telemetry.format", arguments.log_format),
    ];
    config
        // As shortcuts, so that a message about a bad value names the flag and not the key behind it.
        .others
        .extend(flags.into_iter().filter_map(|(flag, key, value)| {
            Some(Shortcut {
                flag,
                key,
                value: value?,
            })
        }));
    config
}

fn roles(loaded: &Loaded) -> String {
    loaded
        .config
        .node
        .roles
        .iter()
        .map(|role| role.as_str())
        .collect::<Vec<_>>()
        .join(",")
}
