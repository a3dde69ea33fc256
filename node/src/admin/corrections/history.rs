//! `corrections history`: the edits of people as they were made.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_core::domain::{PageLine, RecordedEdit, VolumeId};
use parkhang_state::{EditQuery, Newest};
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::{away, newest, table};
use crate::admin::{Admin, Refusal};

/// Letters of a text that are shown.
const SHOWN_LETTERS: usize = 60;

/// List the edits of pages that people have made, the newest first.
#[derive(Debug, Args)]
pub struct History {
    /// List only edits of this volume, as W-I.
    #[arg(long, value_name = "VOLUME")]
    volume: Option<VolumeId>,
    /// List only edits of this person.
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// List only edits before this time, such as 2026-11-22T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    before: Option<DateTime<Utc>>,
    /// Largest number of edits to list.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Edits {
    edits: Vec<EditEntry>,
    /// Value of `before` that continues the list, if there is more.
    next: Option<DateTime<Utc>>,
}

/// Edit of a page.
#[derive(Debug, Serialize, ToSchema)]
pub struct EditEntry {
    at: DateTime<Utc>,
    who: String,
    volume: String,
    image_name: String,
    /// Number of the edit on its page, from 1.
    revision: u32,
    /// Job whose reading was edited.
    job: String,
    /// Lines that were replaced.
    #[schema(value_type = Vec<Object>)]
    replaces: Vec<PageLine>,
    /// Lines in their place.
    #[schema(value_type = Vec<Object>)]
    lines: Vec<PageLine>,
}

#[async_trait]
impl Command for History {
    const NAME: [&'static str; 2] = ["corrections", "history"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/corrections";
    type Answer = Edits;

    async fn run(self, admin: &Admin) -> Result<Edits, Refusal> {
        let query = EditQuery {
            volume: self.volume,
            who: self.who,
            before: self.before,
            limit: self.limit,
        };
        let Newest { entries, has_more } = admin.store.edits(&query).await?;
        Ok(Edits {
            next: entries.last().map(|edit| edit.at).filter(|_| has_more),
            edits: entries.into_iter().map(EditEntry::from).collect(),
        })
    }
}

impl From<RecordedEdit> for EditEntry {
    fn from(recorded: RecordedEdit) -> Self {
        Self {
            at: recorded.at,
            who: recorded.who,
            volume: recorded.volume.to_string(),
            image_name: recorded.image,
            revision: recorded.revision,
            job: recorded.job.to_string(),
            replaces: recorded.edit.replaces,
            lines: recorded.edit.lines,
        }
    }
}

/// Texts of lines on one line.
pub(super) fn texts(lines: &[PageLine]) -> String {
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let text = texts.join(" | ");
    match text.char_indices().nth(SHOWN_LETTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

impl Answer for Edits {
    fn text(&self) -> String {
        let now = Utc::now();
        let rows = self.edits.iter().map(|edit| {
            [
                away(edit.at, now),
                edit.who.clone(),
                edit.volume.clone(),
                edit.image_name.clone(),
                texts(&edit.replaces),
                texts(&edit.lines),
            ]
        });
        let header = ["when", "who", "volume", "page", "was", "is"];
        newest(table(header, rows, usize::MAX), self.next)
    }
}
