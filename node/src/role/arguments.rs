//! Arguments of a process without a command, which is a node.

use clap::Args;

use crate::config::ConfigArgs;

/// Flags of a process without a command, which is a node of a cluster.
#[derive(Debug, Args)]
pub struct RoleArgs {
    /// Roles of this node: orchestrator, or cpu, gpu or both, or autoscaler or entity alone; by default node.roles of the configuration.
    #[arg(long, value_delimiter = ',', value_name = "ROLE")]
    pub role: Vec<String>,
    /// Stages that this node runs, such as ocr; by default node.stages of the configuration. Without --role their hardware says which.
    #[arg(long, value_delimiter = ',', value_name = "STAGE")]
    pub stage: Vec<String>,
    /// Model to use instead of the shipped one of its kind, a folder; may be repeated. By default node.models of the configuration.
    #[arg(long, value_name = "MODEL")]
    pub model: Vec<String>,
    /// Format of the log, text or json; by default telemetry.format of the configuration.
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// File descriptor to which the READY line is written as well, and which is closed then.
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<i32>,
    /// Stop when the process that started this one has ended.
    #[arg(long, hide = true, value_name = "PID")]
    pub with_parent: Option<i32>,
    /// Source of work for the roles cpu and gpu: direct (the orchestrator), postgres, sqs or shards; by default source.kind of the configuration.
    #[arg(long, value_name = "SOURCE")]
    pub source: Option<String>,
    /// Name of a job whose shards this node takes; may be repeated. By default source.jobs of the configuration.
    #[arg(long, value_name = "NAME")]
    pub job: Vec<String>,
    /// Name of an entity whose rows this node hands to services, with the role entity; may be repeated. By default node.entities of the configuration.
    #[arg(long, value_name = "NAME")]
    pub entity: Vec<String>,
    /// Run commands from this terminal, as `node repl` does. Only with the role orchestrator alone; its log goes to its state folder then.
    #[arg(long)]
    pub repl: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
}
