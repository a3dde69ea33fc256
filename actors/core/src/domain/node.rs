use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{EngineRecord, StageName, WorkerId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    Joined,
    /// Takes no more work and hands back what it has.
    Draining,
    /// Ended in order.
    Left,
    /// Not heard of any more.
    Lost,
}

impl NodeState {
    pub const ALL: [Self; 4] = [Self::Joined, Self::Draining, Self::Left, Self::Lost];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Draining => "draining",
            Self::Left => "left",
            Self::Lost => "lost",
        }
    }

    /// Whether the process is believed to live.
    pub const fn is_there(self) -> bool {
        matches!(self, Self::Joined | Self::Draining)
    }
}

/// A process of the cluster, as the orchestrators know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeRecord {
    /// Unique per process start.
    pub name: String,
    pub roles: Vec<String>,
    /// What its operator said of it.
    pub tags: Vec<String>,
    pub host: Option<String>,
    pub build: String,
    /// The number of the wire protocol that it speaks.
    pub protocol: u16,
    /// Where it answers over HTTP.
    pub health: Option<String>,
    pub started_at: Option<DateTime<Utc>>,
    /// Bytes of memory that its process has in use.
    pub resident: Option<u64>,
    pub last_seen: DateTime<Utc>,
    pub state: NodeState,
    /// None once it is gone.
    pub workers: Vec<WorkerRecord>,
    /// Services that it asks while its stages wait, as it found them last.
    pub engines: Vec<EngineRecord>,
}

impl NodeRecord {
    /// True if one of its stages may ask a service while it waits.
    pub fn asks(&self, service: &str) -> bool {
        let knows = |worker: &WorkerRecord| worker.models.iter().any(|model| model == service);
        self.state.is_there()
            && self.engines.iter().any(|engine| engine.service == service)
            && self.workers.iter().any(knows)
    }
}

/// A pool of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerRecord {
    pub worker: WorkerId,
    pub stage: StageName,
    /// Names of the models that it has loaded.
    pub models: Vec<String>,
    pub slots: u32,
    pub in_use: u32,
    /// Number of pools that the node has started up to this one, of whatever stage.
    #[serde(rename = "generation")]
    pub incarnation: u64,
    /// When it last renewed its leases; one without leases has none to renew.
    pub last_heartbeat: Option<DateTime<Utc>>,
    /// Pages of the tasks in work, as of the last heartbeat.
    pub pages: Option<u64>,
    /// How many of them are dealt with.
    pub pages_finished: Option<u64>,
}
