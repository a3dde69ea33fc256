//! Commands that an operator gives an orchestrator, and the audit log of those that may change something.

use std::time::Duration;

use chrono::Utc;
use parkhang_state::AuditEntry;
use parkhang_store::artifact::Digest;
use serde_json::{Map, Value};
use tracing::warn;

use super::{Access, Admin, Entry, Refusal, Reply};

/// Longest time for a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Longest text of an argument that is written down as it is, in bytes.
const LONGEST_NOTED: usize = 16 << 10;
/// Letters that are written down of a longer one.
const NOTED: usize = 100;

/// Who gives a command.
#[derive(Debug, Clone, Copy)]
pub struct Operator<'a> {
    pub who: &'a str,
    /// The door through which it comes.
    pub via: &'static str,
}

impl Entry {
    /// Carries out the command. One that may change something is written down before, with who gave it, and how it ended after; it
    /// goes on though nobody waits for it any more.
    pub async fn carry_out(
        &'static self,
        given: Map<String, Value>,
        operator: Operator<'_>,
        admin: &Admin,
    ) -> Result<Reply, Refusal> {
        let admin = admin.clone().asked_by(operator.who);
        // A question is dropped with the client that asked it: it changes nothing and need not be recorded.
        if self.access == Access::Read {
            return self.run_in_time(&given, admin).await;
        }
        let who = operator.who.to_owned();
        let via = operator.via;
        // In a task of its own, since the caller's future is dropped when an HTTP client disconnects.
        let carried_out = tokio::spawn(async move {
            let operator = Operator { who: &who, via };
            let begun = self.begin(&given, operator, &admin).await?;
            let outcome = self.run_in_time(&given, admin.clone()).await;
            begun.end(&outcome, &admin).await;
            outcome
        });
        let outcome = carried_out.await;
        // The task fails only if the command panicked; that ends this command and not the orchestrator.
        outcome.unwrap_or_else(|stopped| Err(Refusal::Internal(stopped.into())))
    }

    async fn run_in_time(&self, given: &Map<String, Value>, admin: Admin) -> Result<Reply, Refusal> {
        let run = tokio::time::timeout(COMMAND_LIMIT, self.run_given(given, admin));
        run.await.unwrap_or(Err(Refusal::TooSlow))
    }

    /// Writes down that the command is about to be carried out. What cannot be written down is not carried out.
    pub async fn begin(
        &self,
        given: &Map<String, Value>,
        operator: Operator<'_>,
        admin: &Admin,
    ) -> Result<Begun, Refusal> {
        if self.access == Access::Read {
            return Ok(Begun(None));
        }
        let entry = self.audit_entry(given.clone(), operator);
        Ok(Begun(Some(admin.store.record_audit(&entry).await?)))
    }

    /// Writes down that somebody was not let give the command.
    pub async fn write_down_refused(
        &self,
        given: Map<String, Value>,
        operator: Operator<'_>,
        admin: &Admin,
        refusal: String,
    ) {
        if self.access == Access::Read {
            return;
        }
        let entry = self.audit_entry(given, operator);
        let refused = AuditEntry {
            done_at: Some(entry.at),
            refusal: Some(refusal),
            ..entry
        };
        // Nothing was carried out, so nothing is lost but the entry; failing here would replace the refusal
        // by another error.
        if let Err(error) = admin.store.record_audit(&refused).await {
            let AuditEntry { who, command, .. } = refused;
            warn!(%error, who, command, "cannot write down who was refused a command");
        }
    }

    fn audit_entry(&self, given: Map<String, Value>, operator: Operator<'_>) -> AuditEntry {
        AuditEntry {
            at: Utc::now(),
            done_at: None,
            who: operator.who.to_owned(),
            via: operator.via.to_owned(),
            command: self.name.join(" "),
            arguments: Value::Object(given.into_iter().map(noted).collect()),
            refusal: None,
        }
    }
}

/// Argument as it is written down: of a long text, such as a file, its beginning, and what tells which one it was.
fn noted((name, value): (String, Value)) -> (String, Value) {
    let value = match value {
        Value::String(text) if text.len() > LONGEST_NOTED => {
            let beginning: String = text.chars().take(NOTED).collect();
            let digest = Digest::of(text.as_bytes()).to_hex();
            Value::String(format!("{beginning}... ({} bytes, SHA-256 {digest})", text.len()))
        }
        value => value,
    };
    (name, value)
}

/// A command that has been written down and has not ended yet, if it may change something.
#[derive(Debug)]
#[must_use]
pub struct Begun(Option<i64>);

impl Begun {
    /// Writes down how the command ended. What was carried out stays so, even where that cannot be written.
    pub async fn end(self, outcome: &Result<Reply, Refusal>, admin: &Admin) {
        let Some(entry) = self.0 else {
            return;
        };
        let refusal = outcome.as_ref().err().map(ToString::to_string);
        let written = admin
            .store
            .complete_audit(entry, refusal.as_deref(), Utc::now())
            .await;
        if let Err(error) = written {
            warn!(%error, entry, "cannot write down how a command ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_document_is_noted_which_one_it_was() {
        let note = |text: String| noted(("document".to_owned(), Value::String(text))).1;
        let whole = "x".repeat(LONGEST_NOTED);
        assert_eq!(note(whole.clone()), Value::String(whole));
        let long = "ཀ".repeat(LONGEST_NOTED);
        let digest = Digest::of(long.as_bytes()).to_hex();
        let beginning = "ཀ".repeat(NOTED);
        let expected = format!("{beginning}... (49152 bytes, SHA-256 {digest})");
        assert_eq!(note(long), Value::String(expected));
    }
}
