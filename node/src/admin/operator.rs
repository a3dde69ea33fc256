//! Commands that come from elsewhere: over HTTP, or from an operator at another node.

use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parkhang_actors::cluster::OperatorDesk;
use parkhang_actors::state::AuditEntry;
use parkhang_actors::wire::CommandOutcome;
use serde_json::{Map, Value};
use tracing::warn;

use super::{Access, Admin, Entry, Refusal, Reply, table};

/// Longest time for a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Who gives a command.
#[derive(Debug, Clone, Copy)]
pub struct Operator<'a> {
    pub who: &'a str,
    /// The door through which it comes.
    pub via: &'static str,
}

impl Entry {
    /// Carries out the command, and writes down who gave it if it may change something.
    pub async fn carry_out(
        &self,
        given: Map<String, Value>,
        operator: Operator<'_>,
        admin: &Admin,
    ) -> Result<Reply, Refusal> {
        let run = self.run_given(&given, admin.asked_by(operator.who));
        let outcome = match tokio::time::timeout(COMMAND_LIMIT, run).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Refusal::TooSlow),
        };
        let refusal = outcome.as_ref().err().map(ToString::to_string);
        self.write_down(given, operator, admin, refusal).await;
        outcome
    }

    /// Writes down what may have changed something. A command that was carried out stays so, even where it cannot be written down.
    pub async fn write_down(
        &self,
        given: Map<String, Value>,
        operator: Operator<'_>,
        admin: &Admin,
        refusal: Option<String>,
    ) {
        if self.access == Access::Read {
            return;
        }
        let audit = AuditEntry {
            at: Utc::now(),
            who: operator.who.to_owned(),
            via: operator.via.to_owned(),
            command: self.name.join(" "),
            arguments: Value::Object(given),
            refusal,
        };
        if let Err(error) = admin.store.record_audit(&audit).await {
            warn!(%error, who = audit.who, command = audit.command, "cannot write down who gave a command");
        }
    }
}

/// Where operators of the cluster give their commands. Whoever has a node's certificate and secret is one.
#[derive(Debug, Clone)]
pub struct CommandDesk(pub Admin);

#[async_trait]
impl OperatorDesk for CommandDesk {
    async fn carry_out(
        &self,
        operator: &str,
        words: &[String],
        arguments: Map<String, Value>,
    ) -> CommandOutcome {
        let Some(entry) = table().named(words) else {
            let message = format!("this orchestrator knows no command {}", words.join(" "));
            return CommandOutcome::refused("not_found", message);
        };
        let operator = Operator {
            who: operator,
            via: "repl",
        };
        match entry.carry_out(arguments, operator, &self.0).await {
            Ok(reply) => CommandOutcome::Done {
                data: reply.data,
                text: reply.text,
                failed: reply.failed,
            },
            Err(refusal) => CommandOutcome::refused(refusal.word(), refusal.to_string()),
        }
    }
}
