use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::JobKey;

/// Command of an operator to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
// The tag is part of the rows of `node_orders`.
#[serde(tag = "order", rename_all = "snake_case")]
pub enum NodeCommand {
    /// Take no more work, and hand back what is in hand at the next checkpoints.
    Drain,
    /// Put another in the place of an actor. Its leases are given back, and nothing is charged for it.
    Restart { actor: String },
    /// Remove what is recorded of a job: it is deleted.
    ForgetJob { job: JobKey },
    /// A fault: end an actor without a word.
    Kill { actor: String },
    /// A fault: be out of touch with the orchestrators.
    DropLink { seconds: u64 },
    /// A fault: every request to the artifact store takes so much longer.
    SlowStore { delay_ms: u64, seconds: u64 },
}

impl NodeCommand {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Restart { .. } => "restart",
            Self::ForgetJob { .. } => "forget job",
            Self::Kill { .. } => "kill",
            Self::DropLink { .. } => "drop link",
            Self::SlowStore { .. } => "slow store",
        }
    }

    /// Whether it makes a fault, which the configuration of the node must allow.
    pub const fn is_fault(&self) -> bool {
        match self {
            Self::Drain | Self::Restart { .. } | Self::ForgetJob { .. } => false,
            Self::Kill { .. } | Self::DropLink { .. } | Self::SlowStore { .. } => true,
        }
    }
}

/// Outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CommandOutcome {
    /// It was carried out, or has begun to be.
    Done {
        message: String,
    },
    Refused {
        reason: String,
    },
}

impl CommandOutcome {
    pub fn done(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Done { message }
    }

    pub fn refused(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Refused { reason }
    }
}

/// Row of a command: the leader, or the node itself, finds it and records its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCommand {
    pub id: i64,
    /// Name of the node.
    pub node: String,
    pub command: NodeCommand,
    pub asked_by: String,
    pub asked_at: DateTime<Utc>,
    /// Time after which no node begins it.
    pub expires_at: DateTime<Utc>,
    pub done_at: Option<DateTime<Utc>>,
    pub outcome: Option<CommandOutcome>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_read_as_they_are_kept() {
        for (order, text) in [
            (NodeCommand::Drain, r#"{"order":"drain"}"#),
            (
                NodeCommand::Restart {
                    actor: "ocr".to_owned(),
                },
                r#"{"order":"restart","actor":"ocr"}"#,
            ),
            (
                NodeCommand::ForgetJob {
                    job: JobKey::new("press").unwrap(),
                },
                r#"{"order":"forget_job","job":"press"}"#,
            ),
            (
                NodeCommand::SlowStore {
                    delay_ms: 200,
                    seconds: 30,
                },
                r#"{"order":"slow_store","delay_ms":200,"seconds":30}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&order).unwrap(), text);
            assert_eq!(serde_json::from_str::<NodeCommand>(text).unwrap(), order);
        }
        assert!(serde_json::from_str::<NodeCommand>(r#"{"order":"dance"}"#).is_err());
    }
}
