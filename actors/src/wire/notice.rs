//! Description of a node.

use serde::{Deserialize, Deserializer, Serialize};

use super::message::{NodeNotice, NodePhase, Peer};
use super::translate::Unusable;
use parkhang_core::domain::{ActorRecord, EngineRecord, StageName, WorkerId};

/// A [`NodeNotice`] with its document decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub peer: Peer,
    pub phase: NodePhase,
    pub about: NodeAbout,
}

/// Description of a node. Every field may be absent, as peers of other builds say less or more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAbout {
    /// Roles that the node was started with.
    pub roles: Vec<String>,
    /// Tags from its configuration.
    pub tags: Vec<String>,
    /// Name of its machine.
    pub host: Option<String>,
    /// Start of its process, in microseconds since 1970, UTC.
    pub started_at: Option<i64>,
    /// Memory that its process has in use, in bytes.
    pub resident: Option<u64>,
    /// Address at which the node answers over HTTP.
    pub health: Option<String>,
    /// Its pools.
    pub pools: Vec<PoolAbout>,
    /// Services that it asks while its stages wait.
    pub engines: Vec<EngineRecord>,
    /// Its actors, without those of kinds that this build does not know.
    #[serde(deserialize_with = "known")]
    pub actors: Vec<ActorRecord>,
}

/// Limit on the bytes of the actors in one notice, which leaves room for its other fields.
const ACTORS: usize = 48 * 1024;

impl NodeAbout {
    /// The same description, without its actors if they are too many for one message.
    pub(crate) fn fit(self) -> Self {
        let size = serde_json::to_string(&self.actors).map_or(usize::MAX, |text| text.len());
        let actors = if size <= ACTORS { self.actors } else { Vec::new() };
        Self { actors, ..self }
    }
}

fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ActorRecord>, D::Error> {
    Ok(Vec::<serde_json::Value>::deserialize(deserializer)?
        .into_iter()
        .filter_map(|actor| serde_json::from_value(actor).ok())
        .collect())
}

/// Description of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolAbout {
    pub worker: WorkerId,
    pub stage: StageName,
    pub slots: u32,
    pub in_use: u32,
    /// Names of the models that the pool has loaded.
    #[serde(default)]
    pub models: Vec<String>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Envelope;
    use parkhang_core::domain::{ActorKind, ActorState};

    fn actor(name: String) -> ActorRecord {
        ActorRecord::new(name, ActorKind::Worker, ActorState::Working)
    }

    #[test]
    fn actors_of_a_later_build_are_left_out() {
        let about = NodeAbout {
            actors: vec![actor("ocr".to_owned())],
            ..NodeAbout::default()
        };
        let text = serde_json::to_string(&about).unwrap();
        let later = text.replace(
            "\"actors\":[",
            "\"actors\":[{\"name\":\"x\",\"kind\":\"poet\",\"state\":\"idle\"},",
        );
        assert_ne!(later, text);
        assert_eq!(serde_json::from_str::<NodeAbout>(&later).unwrap(), about);
        assert_eq!(
            serde_json::from_str::<NodeAbout>("{}").unwrap(),
            NodeAbout::default()
        );
    }

    #[test]
    fn a_notice_fits_a_message_however_many_actors_there_are() {
        for count in [1, 100, 1_000] {
            let about = NodeAbout {
                roles: vec!["cpu".to_owned()],
                actors: (0..count)
                    .map(|number| actor(format!("ocr/press/{number}")))
                    .collect(),
                ..NodeAbout::default()
            };
            let about = about.fit();
            assert_eq!(about.actors.is_empty(), count == 1_000, "{count}");
            let notice = Notice {
                peer: Peer {
                    protocol: 1,
                    build: "0.1.0".to_owned(),
                    node: "cpu-1.0badcafe".to_owned(),
                },
                phase: NodePhase::Working,
                about,
            };
            assert!(Envelope::seal(&NodeNotice::try_from(&notice).unwrap()).is_ok());
        }
    }
}
