//! Sections of `cluster.toml` about worker nodes that the cluster starts and stops: passive data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values::{duration, optional};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LauncherKind {
    /// No launcher: nodes are started by hand or by another program.
    None,
    /// Processes on the orchestrator's machine.
    Local,
    /// Tasks of ECS services.
    Ecs,
    /// Instances of EC2 auto scaling groups.
    Asg,
}

impl LauncherKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Local => "local",
            Self::Ecs => "ecs",
            Self::Asg => "asg",
        }
    }

    pub const fn is_aws(self) -> bool {
        matches!(self, Self::Ecs | Self::Asg)
    }
}

/// Section about starting and stopping worker nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launcher {
    pub kind: LauncherKind,
    /// Interval at which the leading orchestrator checks the workers.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// `local`: largest number of workers of each hardware.
    pub local_limit: u32,
    /// URL of the API; `None` is AWS.
    #[serde(with = "optional")]
    pub endpoint: Option<String>,
    /// Region; `None` is that of the AWS tools' configuration.
    #[serde(with = "optional")]
    pub region: Option<String>,
    /// `ecs`: name of the cluster; `None` is the account's default cluster.
    #[serde(with = "optional")]
    pub ecs_cluster: Option<String>,
    /// `ecs`: largest number of tasks of each service.
    pub ecs_limit: u32,
    pub gpu: Launched,
    pub cpu: Launched,
}

/// Workers with one kind of hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launched {
    /// ECS service or auto scaling group; `None` if none are launched.
    #[serde(with = "optional")]
    pub group: Option<String>,
    /// Type of the group's machines, for operators.
    #[serde(with = "optional")]
    pub instance_type: Option<String>,
}

/// Section about the number of workers, derived from the work that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autoscaler {
    pub enabled: bool,
    /// Waiting tasks for each slot that are acceptable without more workers.
    pub tasks_per_slot: u32,
    /// Age of a waiting task from which more workers are started.
    #[serde(with = "duration")]
    pub max_age: Duration,
    /// Time from a change of the number until it may rise.
    #[serde(with = "duration")]
    pub scale_out_cooldown: Duration,
    /// Time from a change of the number until it may fall.
    #[serde(with = "duration")]
    pub scale_in_cooldown: Duration,
    pub gpu: Bounds,
    pub cpu: Bounds,
}

/// Bounds of the number of workers with one kind of hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    pub floor: u32,
    pub cap: u32,
}
