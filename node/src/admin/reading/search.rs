//! `pages search`: pages that match a query, of one job or of all.

use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use parkhang_core::domain::{Job, JobKey, VolumeId};
use parkhang_search::{Filter, FilterField, Freedom, Query, Request, Snapshot, parse, search};
use parkhang_state::StateStore;
use serde::Serialize;
use utoipa::ToSchema;

use super::wylie::transliterate;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::jobs::find;
use crate::admin::{Admin, Refusal};
use crate::words::pluralize;

/// Time that a search waits for the index of what was read in the meantime.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time that `--wait` waits, within the time that a command may take.
const LONG_PATIENCE: Duration = Duration::from_secs(50);
/// Last hit that can be asked for: whoever has seen so many asks for something else.
const DEEPEST: u32 = 10_000;

/// Search the text of jobs.
///
/// A page matches if it has the words of QUERY, wherever its lines end. Misread letters are forgiven, and Wylie is read as Tibetan. "Some words" in
/// quotation marks must be in a row; +word must and -word must not be there; title:word looks in headings; volume:W1-I1, lang:bo
/// and page:NAME bound the search. Example: `node search 'byang chub sems' --job kangyur`.
#[derive(Debug, Args)]
pub struct Search {
    /// Text to search for.
    #[arg(value_name = "QUERY")]
    query: String,
    /// Search this job only; may be repeated. All jobs by default.
    #[arg(long, value_name = "JOB")]
    job: Vec<JobKey>,
    /// Search this volume only.
    #[arg(long, value_name = "VOLUME")]
    volume: Option<VolumeId>,
    /// Find the words as they are spelled, and no others.
    #[arg(long)]
    exact: bool,
    /// Wait until the index has all that was read, for up to 50 seconds.
    #[arg(long)]
    wait: bool,
    /// Number of hits to skip.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(DEEPEST)))]
    offset: u32,
    /// Largest number of hits to show.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
}

/// Pages that match.
#[derive(Debug, Serialize, ToSchema)]
pub struct Found {
    /// Number of pages that match.
    total: usize,
    /// The best of them, best first.
    hits: Vec<Hit>,
    /// Volumes that were searched.
    volumes: usize,
    /// Volumes that have been read but are not in the index yet; a later search finds them.
    behind: usize,
    /// Reasons for which indexes are not up to date.
    troubles: Vec<String>,
}

/// Page that matches.
#[derive(Debug, Serialize, ToSchema)]
pub struct Hit {
    job: String,
    volume: String,
    /// Number of the page, from 1.
    page: u32,
    /// Name of its image.
    image_name: String,
    /// How well it matches; comparable within an answer only.
    score: f32,
    /// Lines that match best.
    lines: Vec<HitLine>,
}

/// Line of a page that matches.
#[derive(Debug, Serialize, ToSchema)]
pub struct HitLine {
    /// Number of the line on the page, from 1.
    line: u32,
    /// Its text, in parts that match and parts that do not.
    parts: Vec<TextPart>,
}

/// Part of a line.
#[derive(Debug, Serialize, ToSchema)]
pub struct TextPart {
    text: String,
    is_match: bool,
}

#[async_trait]
impl Command for Search {
    const NAME: [&'static str; 2] = ["pages", "search"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/search";
    type Answer = Found;

    async fn run(self, admin: &Admin) -> Result<Found, Refusal> {
        let request = self.request()?;
        let jobs = self.jobs(admin).await?;
        let patience = if self.wait { LONG_PATIENCE } else { PATIENCE };
        let views = jobs.iter().map(|job| admin.indexes.of_job(admin, job, patience));
        let views = futures::future::try_join_all(views).await?;
        let (volumes, read) = views.iter().fold((0, 0), |(indexed, read), view| {
            (indexed + view.indexed, read + view.read)
        });
        let behind = views
            .iter()
            .map(|view| view.read.saturating_sub(view.indexed))
            .sum();
        let troubles = jobs.iter().zip(&views).filter_map(|(job, view)| {
            let trouble = view.trouble.as_ref()?;
            Some(format!("job {}: {trouble}", job.key))
        });
        let mut found = Found {
            total: 0,
            hits: Vec::new(),
            volumes,
            behind,
            troubles: troubles.collect(),
        };
        if read == 0 && volumes == 0 {
            return Ok(found);
        }
        let (searched, snapshots): (Vec<JobKey>, Vec<Snapshot>) = jobs
            .into_iter()
            .zip(views)
            .filter_map(|(job, view)| Some((job.key, view.snapshot?)))
            .unzip();
        let pages = tokio::task::spawn_blocking(move || {
            let snapshots: Vec<&Snapshot> = snapshots.iter().collect();
            search(&snapshots, &request)
        });
        let pages = pages
            .await
            .map_err(anyhow::Error::from)?
            .map_err(anyhow::Error::from)?;
        found.total = pages.total;
        let hits = pages
            .hits
            .into_iter()
            .filter_map(|hit| Some(Hit::of(searched.get(hit.index)?, hit)));
        found.hits = hits.collect();
        Ok(found)
    }
}

impl Search {
    fn request(&self) -> Result<Request, Refusal> {
        let mut query: Query = parse(&self.query);
        if let Some(volume) = &self.volume {
            query.filters.push(Filter {
                field: FilterField::Volume,
                value: volume.to_string(),
                is_negative: false,
            });
        }
        if query.clauses.is_empty() && query.filters.is_empty() {
            return Err(Refusal::Invalid("the text to search for is empty".to_owned()));
        }
        let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Request {
            query,
            freedom: Freedom {
                is_fuzzy: !self.exact,
                transliterate,
            },
            offset: number(self.offset),
            limit: number(self.limit),
        })
    }

    async fn jobs(&self, admin: &Admin) -> Result<Vec<Job>, Refusal> {
        if self.job.is_empty() {
            let jobs = admin.store.jobs().await?;
            admin.indexes.retain(&jobs)?;
            return Ok(jobs);
        }
        let mut jobs = Vec::new();
        for key in &self.job {
            jobs.push(find(admin, key).await?);
        }
        Ok(jobs)
    }
}

impl Hit {
    fn of(job: &JobKey, hit: parkhang_search::Hit) -> Self {
        Self {
            job: job.to_string(),
            volume: hit.volume,
            page: hit.number,
            image_name: hit.name,
            score: hit.score,
            lines: hit.lines.iter().map(HitLine::of).collect(),
        }
    }
}

impl HitLine {
    fn of(line: &parkhang_search::HitLine) -> Self {
        let mut parts = Vec::new();
        let mut push = |range: std::ops::Range<usize>, is_match| {
            let text = line.text.get(range).unwrap_or_default().to_owned();
            if !text.is_empty() {
                parts.push(TextPart { text, is_match });
            }
        };
        let mut from = 0;
        for mark in &line.marks {
            push(from..mark.start, false);
            push(mark.clone(), true);
            from = mark.end;
        }
        push(from..line.text.len(), false);
        Self {
            line: line.number,
            parts,
        }
    }

    fn text(&self) -> String {
        let parts = self.parts.iter().map(|part| {
            if part.is_match {
                format!("[{}]", part.text)
            } else {
                part.text.clone()
            }
        });
        parts.collect()
    }
}

impl Answer for Found {
    fn text(&self) -> String {
        let mut lines = Vec::new();
        for hit in &self.hits {
            for line in &hit.lines {
                lines.push(format!(
                    "{} {} {}.{}: {}",
                    hit.job,
                    hit.volume,
                    hit.page,
                    line.line,
                    line.text()
                ));
            }
        }
        let pages = pluralize(self.total, "page");
        let volumes = pluralize(self.volumes, "volume");
        lines.push(match self.total {
            0 => format!("not found in {volumes}"),
            total if total > self.hits.len() => {
                format!("the best {} of {pages} in {volumes}", self.hits.len())
            }
            _ => format!("{pages} in {volumes}"),
        });
        if self.behind > 0 {
            lines.push(format!(
                "{} not in the index yet: search again, or with --wait",
                pluralize(self.behind, "volume")
            ));
        }
        lines.extend(self.troubles.iter().cloned());
        lines.join("\n")
    }
}
