//! `job search`: a text in the results of a job, in bounded time.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{Job, JobKey, TaskId, VolumeId};
use parkhang_state::{ListedPhase, TaskQuery};
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::jobs::find;
use crate::admin::{Admin, Refusal};
use crate::export::document::VolumeDocument;

/// Time after which a search returns what it has found so far.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Volumes read from the database in one query.
const BATCH: u32 = 50;
/// Letters of context shown before and after a match.
const AROUND: usize = 24;

/// Search the texts of a job.
///
/// A text that continues on the next line is not found. A long search stops after ten seconds and says how to continue it.
#[derive(Debug, Args)]
pub struct Search {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Text to search for, as it is spelled in the results.
    #[arg(value_name = "TEXT")]
    text: String,
    /// Search this volume only.
    #[arg(long, value_name = "VOLUME")]
    volume: Option<VolumeId>,
    /// Continue where an earlier search stopped: `next` of its answer.
    #[arg(long, value_name = "TASK")]
    after: Option<i64>,
    /// Largest number of matches to show.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Found {
    matches: Vec<Match>,
    /// True if the last volume may have more matches than the limit allowed.
    more: bool,
    /// Value of `after` that continues with the volumes that are left, if there are any.
    next: Option<i64>,
}

/// Place where the text was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Match {
    volume: String,
    /// Number of the page, from 1.
    page: usize,
    /// Number of the line on the page, from 1.
    line: usize,
    before: String,
    text: String,
    after: String,
}

#[async_trait]
impl Command for Search {
    const NAME: [&'static str; 2] = ["job", "search"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/search";
    type Answer = Found;

    async fn run(self, admin: &Admin) -> Result<Found, Refusal> {
        // An empty text is found between any two letters, and spaces alone in every line.
        if self.text.trim().is_empty() {
            return Err(Refusal::Invalid("the text to search for is empty".to_owned()));
        }
        let job = find(admin, &self.job).await?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        if let Some(volume) = &self.volume {
            let document = super::pages::document(admin, &self.job, volume).await?;
            let mut matches = matches(&document, volume, &self.text);
            let more = matches.len() > limit;
            matches.truncate(limit);
            return Ok(Found {
                matches,
                more,
                next: None,
            });
        }
        self.in_all(admin, &job, limit).await
    }
}

impl Search {
    /// Searches the volumes that are done, in the order of the job.
    async fn in_all(&self, admin: &Admin, job: &Job, limit: usize) -> Result<Found, Refusal> {
        let began = Instant::now();
        let mut found = Found {
            matches: Vec::new(),
            more: false,
            next: None,
        };
        let mut after = self.after.map(TaskId);
        loop {
            let query = TaskQuery {
                phase: Some(ListedPhase::Done),
                stage: None,
                after,
                limit: BATCH,
            };
            let page = admin.store.task_page(job, &query).await?;
            for task in &page.tasks {
                // Checked before each volume, as reading one is what takes the time.
                if began.elapsed() > TIMEOUT || found.matches.len() >= limit {
                    // The volume at which the search stopped is the first of the next one; 0 is before all tasks.
                    found.next = Some(after.map_or(0, |task| task.0));
                    return Ok(found);
                }
                match admin.library.document(job, task).await {
                    Ok(document) => found.matches.extend(matches(&document, &task.volume, &self.text)),
                    // A pipeline without `ocr` ends without texts, and somebody may have deleted them. There is nothing to
                    // find in such a volume, which is no reason not to search the others.
                    Err(Refusal::NotFound(_)) => {}
                    Err(refusal) => return Err(refusal),
                }
                found.more = found.matches.len() > limit;
                found.matches.truncate(limit);
                after = Some(task.id);
            }
            if page.next.is_none() {
                return Ok(found);
            }
        }
    }
}

fn matches(document: &VolumeDocument, volume: &VolumeId, text: &str) -> Vec<Match> {
    let mut found = Vec::new();
    for (page, at_page) in document.pages.iter().zip(1..) {
        for (line, at_line) in page.lines.iter().zip(1..) {
            for (at, _) in line.text.match_indices(text) {
                let (before, rest) = line.text.split_at(at);
                // `match_indices` gives places at boundaries of characters, so neither split can panic.
                let (_, behind) = rest.split_at(text.len());
                let skipped = before.chars().count().saturating_sub(AROUND);
                found.push(Match {
                    volume: volume.to_string(),
                    page: at_page,
                    line: at_line,
                    before: before.chars().skip(skipped).collect(),
                    text: text.to_owned(),
                    after: behind.chars().take(AROUND).collect(),
                });
            }
        }
    }
    found
}

impl Answer for Found {
    fn text(&self) -> String {
        let lines = self.matches.iter().map(|found| {
            format!(
                "{} {}.{}: {}{}{}",
                found.volume, found.page, found.line, found.before, found.text, found.after
            )
        });
        let mut lines: Vec<String> = lines.collect();
        if lines.is_empty() {
            lines.push("not found".to_owned());
        }
        lines.extend(self.next.map(|next| format!("more: --after {next}")));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::document::{LineDocument, PageDocument};

    #[test]
    fn every_place_is_found_with_what_stands_around_it() {
        let line = |text: &str| LineDocument {
            guid: String::new(),
            polygon: Vec::new(),
            text: text.to_owned(),
            encoding: "unicode".to_owned(),
            confidence: Some(1.0),
            segments: Vec::new(),
        };
        let page = |lines: Vec<LineDocument>| PageDocument {
            image_name: "1".to_owned(),
            source_name: "1.jpg".to_owned(),
            width: 1,
            height: 1,
            lines,
            regions: Vec::new(),
            error: None,
        };
        let document = VolumeDocument {
            w_id: "W1".to_owned(),
            i_id: "I1".to_owned(),
            pages: vec![page(vec![line("no")]), page(vec![line(""), line("ཀ་ཁ་ག་ཁ་ང་")])],
        };
        let volume: VolumeId = "W1-I1".parse().unwrap();
        let found = matches(&document, &volume, "ཁ་");
        let around: Vec<(usize, usize, &str, &str)> = found
            .iter()
            .map(|found| {
                (
                    found.page,
                    found.line,
                    found.before.as_str(),
                    found.after.as_str(),
                )
            })
            .collect();
        assert_eq!(around, [(2, 2, "ཀ་", "ག་ཁ་ང་"), (2, 2, "ཀ་ཁ་ག་", "ང་")]);
    }
}
