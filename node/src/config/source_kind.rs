//! Kinds of sources of work, and what the rest of the program asks of each. Whoever adds one describes it here; a node opens it in
//! `role::pull`.

use serde::{Deserialize, Serialize};

/// Kind of the source that a node with the role cpu or gpu takes its work from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// An orchestrator assigns it.
    Direct,
    /// The node leases it in the database itself.
    Postgres,
    /// The node leases it in the artifact store, from the shards of jobs.
    Shards,
    /// The node leases what the messages of its queue name.
    Sqs,
}

/// Properties of a kind of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceProperties {
    /// An orchestrator assigns the work, so that a node needs one to dial; otherwise nodes take their work themselves.
    pub is_assigned: bool,
    /// Tasks are in the database, where they can be counted.
    pub is_in_database: bool,
    /// The leader publishes tasks in queues, and nobody works on one before that.
    pub is_published: bool,
    /// The leader gives the tasks of external stages to their services.
    pub has_services: bool,
    /// A node takes the work of the jobs that it names alone.
    pub is_of_named_jobs: bool,
}

impl SourceKind {
    pub fn properties(self) -> SourceProperties {
        let stored = SourceProperties {
            is_assigned: false,
            is_in_database: true,
            is_published: false,
            has_services: false,
            is_of_named_jobs: false,
        };
        match self {
            Self::Direct => SourceProperties {
                is_assigned: true,
                has_services: true,
                ..stored
            },
            Self::Postgres => SourceProperties {
                has_services: true,
                ..stored
            },
            Self::Shards => SourceProperties {
                is_in_database: false,
                is_of_named_jobs: true,
                ..stored
            },
            Self::Sqs => SourceProperties {
                is_published: true,
                ..stored
            },
        }
    }
}
