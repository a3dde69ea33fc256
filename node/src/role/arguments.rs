use clap::Args;

use crate::config::ConfigArgs;

/// Without a command this process is a node of a cluster.
#[derive(Debug, Args)]
pub struct RoleArgs {
    /// What this node does: orchestrator, or cpu, gpu or both; the default is node.roles of the configuration.
    #[arg(long, value_delimiter = ',', value_name = "ROLE")]
    pub role: Vec<String>,
    /// Log lines as text or json; the default is telemetry.format of the configuration.
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// When the node is ready, write its READY line to this file descriptor too, and close it.
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<i32>,
    /// Stop when the process that started this one is gone.
    #[arg(long, hide = true, value_name = "PID")]
    pub with_parent: Option<i32>,
    /// How the roles cpu and gpu come by their work: direct, postgres or shards; the default is source.kind of the configuration.
    #[arg(long, value_name = "SOURCE")]
    pub source: Option<String>,
    /// A job to take from shards, by its name; may be repeated. The default is source.jobs of the configuration.
    #[arg(long, value_name = "NAME")]
    pub job: Vec<String>,
    /// Take commands on this terminal, as `node repl` does. For the role orchestrator alone, whose log goes to its state folder then.
    #[arg(long)]
    pub repl: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}
