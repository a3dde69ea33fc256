//! What operators did.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_actors::state::AuditEntry;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::command::{Access, Answer, Command, Verb};
use super::text::{away, table};
use super::{Admin, Refusal};

/// List what operators did and who did it, the newest first.
#[derive(Debug, Args)]
pub struct List {
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only what was done before this time, such as 2026-11-22T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    before: Option<DateTime<Utc>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Audit {
    entries: Vec<Entry>,
}

/// A command that changed something, or tried to.
#[derive(Debug, Serialize, ToSchema)]
pub struct Entry {
    at: DateTime<Utc>,
    who: String,
    /// The door it came through.
    via: String,
    command: String,
    #[schema(value_type = Object)]
    arguments: Value,
    /// Why it was refused, if it was.
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
        let entries = admin.store.audit(self.before, self.limit).await?;
        Ok(Audit {
            entries: entries.into_iter().map(Entry::from).collect(),
        })
    }
}

impl From<AuditEntry> for Entry {
    fn from(entry: AuditEntry) -> Self {
        Self {
            at: entry.at,
            who: entry.who,
            via: entry.via,
            command: entry.command,
            arguments: entry.arguments,
            refusal: entry.refusal,
        }
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
                entry.refusal.clone().unwrap_or_default(),
            ]
        });
        table(
            ["when", "who", "through", "command", "with", "refused"],
            rows,
            usize::MAX,
        )
    }
}
