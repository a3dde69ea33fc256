//! Nodes: a supervisor and the pools of its stages.

use std::sync::Arc;
use std::time::Duration;

use parkhang_actors::stage::{StageLogic, StageRegistry};
use parkhang_actors::supervisor::{ControlPlane, HealthPolicy, NodeConfig, NodeSupervisor};
use parkhang_actors::telemetry::ProgressBoard;
use parkhang_core::domain::Hardware;
use parkhang_core::policy::pool_health::FaultLimits;

/// Policy that finds faults within seconds and gives a node up after a few of them.
pub const FAST_HEALTH: HealthPolicy = HealthPolicy {
    progress_window: Duration::from_secs(10),
    faults: FaultLimits {
        stalls: 5,
        silences: 2,
        renewals: 5,
    },
    check_limit: Duration::from_secs(5),
    max_restarts: 2,
    restart_window: Duration::from_secs(600),
    restart_backoff: Duration::from_millis(200),
};

/// Node that is to be started.
#[derive(Debug)]
pub struct NodePlan {
    pub(crate) name: Option<String>,
    registry: StageRegistry,
    slots: usize,
    pub(crate) progress: Option<Arc<ProgressBoard>>,
    heartbeat: Duration,
    health: HealthPolicy,
}

impl NodePlan {
    /// Node of these stages, with one slot for each.
    pub fn new(stages: Vec<Arc<dyn StageLogic>>) -> Self {
        Self::of(StageRegistry::of(stages))
    }

    pub fn of(registry: StageRegistry) -> Self {
        Self {
            name: None,
            registry,
            slots: 1,
            progress: None,
            heartbeat: Duration::from_secs(5),
            health: HealthPolicy::default(),
        }
    }

    pub fn named(self, name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..self
        }
    }

    /// Tasks at once of each stage.
    pub fn slots(self, slots: usize) -> Self {
        Self { slots, ..self }
    }

    pub fn heartbeat(self, heartbeat: Duration) -> Self {
        Self { heartbeat, ..self }
    }

    /// Finds faults by [`FAST_HEALTH`], with a heartbeat each second.
    pub fn with_fast_health(self) -> Self {
        Self {
            health: FAST_HEALTH,
            ..self.heartbeat(Duration::from_secs(1))
        }
    }

    /// Starts the node under a control plane.
    pub async fn start(self, control_plane: Arc<dyn ControlPlane>) -> NodeSupervisor {
        let config = NodeConfig {
            name: self.name.unwrap_or_else(|| "test".to_owned()),
            slots: Hardware::ALL.map(|hardware| (hardware, self.slots)).into(),
            registry: Arc::new(self.registry),
            progress: self.progress.unwrap_or_default(),
            control_plane,
            heartbeat: self.heartbeat,
            health: self.health,
        };
        NodeSupervisor::start(config).await.unwrap()
    }
}
