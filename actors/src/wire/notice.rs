//! What a node tells of itself.

use serde::{Deserialize, Serialize};

use super::message::{NodeNotice, NodePhase, Peer};
use super::translate::Unusable;
use crate::domain::{StageName, WorkerId};

/// A [`NodeNotice`] as it was meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub peer: Peer,
    pub phase: NodePhase,
    pub about: NodeAbout,
}

/// Every field may be absent, as peers of other builds say less or more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAbout {
    pub roles: Vec<String>,
    pub host: Option<String>,
    /// Microseconds since 1970, UTC.
    pub started_at: Option<i64>,
    /// Where the node answers over HTTP.
    pub health: Option<String>,
    pub pools: Vec<PoolAbout>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolAbout {
    pub worker: WorkerId,
    pub stage: StageName,
    pub slots: u32,
    pub in_use: u32,
}

impl TryFrom<&Notice> for NodeNotice {
    type Error = Unusable;

    fn try_from(notice: &Notice) -> Result<Self, Unusable> {
        Ok(Self {
            peer: notice.peer.clone(),
            phase: notice.phase,
            about: serde_json::to_string(&notice.about)
                .map_err(|error| Unusable::new("description of a node", error))?,
        })
    }
}

impl TryFrom<NodeNotice> for Notice {
    type Error = Unusable;

    fn try_from(notice: NodeNotice) -> Result<Self, Unusable> {
        Ok(Self {
            about: serde_json::from_str(&notice.about)
                .map_err(|error| Unusable::new("description of a node", error))?,
            peer: notice.peer,
            phase: notice.phase,
        })
    }
}
