//! Commands about the audit log, which records every command that changes something.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_state::{AuditQuery, Newest};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::text::{away, newest, table};
use super::{Admin, Refusal};

/// Elements of a list argument that are shown without `--full`: a command may have named ten thousand volumes.
const SHOWN: usize = 5;
/// Letters of a text argument that are shown without `--full`.
const SHOWN_LETTERS: usize = 200;

/// List the commands that changed something and who gave them, the newest first.
///
/// Commands that were refused or interrupted are listed too; those that only read are not recorded.
#[derive(Debug, Args)]
pub struct List {
    /// Largest number of entries to list.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// List only commands before this time, such as 2026-11-22T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    before: Option<DateTime<Utc>>,
    /// Show long arguments in full. A list with many of them is shorter.
    #[arg(long)]
    full: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Audit {
    entries: Vec<Entry>,
    /// Value of `before` that continues the list, if there is more.
    next: Option<DateTime<Utc>>,
}

/// Command that changed something, or tried to.
#[derive(Debug, Serialize, ToSchema)]
pub struct Entry {
    at: DateTime<Utc>,
    /// Time at which it ended; null while it is under way, and if its process died.
    done_at: Option<DateTime<Utc>>,
    who: String,
    /// Interface that it was given through, such as cli or http.
    via: String,
    command: String,
    #[schema(value_type = Object)]
    arguments: Value,
    /// Reason for which it was refused, if it was.
    refusal: Option<String>,
}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["audit", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/audit";
    type Answer = Audit;

    async fn run(self, admin: &Admin) -> Result<Audit, Refusal> {
        let query = AuditQuery {
            before: self.before,
            limit: self.limit,
            full: self.full,
        };
        let Newest { entries, has_more } = admin.store.audit(&query).await?;
        Ok(Audit {
            next: entries.last().map(|entry| entry.at).filter(|_| has_more),
            entries: entries
                .into_iter()
                .map(|entry| Entry {
                    arguments: if self.full {
                        entry.arguments
                    } else {
                        shortened(entry.arguments)
                    },
                    at: entry.at,
                    done_at: entry.done_at,
                    who: entry.who,
                    via: entry.via,
                    command: entry.command,
                    refusal: entry.refusal,
                })
                .collect(),
        })
    }
}

impl Entry {
    fn outcome(&self) -> String {
        match (&self.refusal, self.done_at) {
            // A refused command has an end as well, so the refusal is looked at first.
            (Some(refusal), _) => format!("refused: {refusal}"),
            (None, Some(_)) => "done".to_owned(),
            (None, None) => "under way, or cut off".to_owned(),
        }
    }
}

fn shortened(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (name, shortened(value)))
            .collect(),
        Value::Array(values) => {
            let left_out = values.len().saturating_sub(SHOWN);
            let rest = (left_out > 0).then(|| format!("and {left_out} more").into());
            values
                .into_iter()
                .take(SHOWN)
                .map(shortened)
                .chain(rest)
                .collect()
        }
        // Cut between characters, as slicing inside of one would panic.
        Value::String(text) => match text.char_indices().nth(SHOWN_LETTERS) {
            Some((end, _)) => format!("{}...", &text[..end]).into(),
            None => text.into(),
        },
        value => value,
    }
}

impl Answer for Audit {
    fn text(&self) -> String {
        let now = Utc::now();
        let rows = self.entries.iter().map(|entry| {
            [
                away(entry.at, now),
                entry.who.clone(),
                entry.via.clone(),
                entry.command.clone(),
                entry.arguments.to_string(),
                entry.outcome(),
            ]
        });
        let header = ["when", "who", "through", "command", "with", "outcome"];
        newest(table(header, rows, usize::MAX), self.next)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_arguments_are_cut_short() {
        let volumes: Vec<String> = (0..10_000).map(|number| format!("W1-I{number}")).collect();
        let given = json!({ "job": "press", "volume": volumes, "text": "ཀ".repeat(201) });
        let shown = shortened(given);
        assert_eq!(
            shown,
            json!({
                "job": "press",
                "volume": ["W1-I0", "W1-I1", "W1-I2", "W1-I3", "W1-I4", "and 9995 more"],
                "text": format!("{}...", "ཀ".repeat(200)),
            })
        );
        assert_eq!(shortened(shown["job"].clone()), "press");
    }
}
