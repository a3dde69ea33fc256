//! What a cluster can be told of worker nodes that come and go: sections of `cluster.toml`, passive data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values::{duration, optional};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LauncherKind {
    /// Nobody: nodes are started by hand, or by something else.
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

/// How worker nodes are started and stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launcher {
    pub kind: LauncherKind,
    /// The leading orchestrator looks after the workers this often.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// Of `local`: the most workers of each hardware.
    pub local_limit: u32,
    /// `None` is AWS.
    #[serde(with = "optional")]
    pub endpoint: Option<String>,
    /// `None` is what the AWS tools take.
    #[serde(with = "optional")]
    pub region: Option<String>,
    /// Of `ecs`; `None` is the account's default cluster.
    #[serde(with = "optional")]
    pub ecs_cluster: Option<String>,
    pub gpu: Launched,
    pub cpu: Launched,
}

/// Workers with one kind of hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launched {
    /// The ECS service or the auto scaling group; `None` where none are launched.
    #[serde(with = "optional")]
    pub group: Option<String>,
    /// What the group's machines are, for operators.
    #[serde(with = "optional")]
    pub instance_type: Option<String>,
}

/// How many workers the launcher is to keep, as the work that waits asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autoscaler {
    pub enabled: bool,
    /// Tasks that are to come to each slot, one after the other.
    pub tasks_per_slot: u32,
    /// Once a task has waited for so long, there are to be more workers.
    #[serde(with = "duration")]
    pub max_age: Duration,
    /// From a change of the number until it may rise.
    #[serde(with = "duration")]
    pub scale_out_cooldown: Duration,
    /// From a change of the number until it may fall.
    #[serde(with = "duration")]
    pub scale_in_cooldown: Duration,
    pub gpu: Bounds,
    pub cpu: Bounds,
}

/// Of the number of workers with one kind of hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    pub floor: u32,
    pub cap: u32,
}
