//! `corrections list`: the corrections of a job's volumes, and which of them have no place in its reading.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use clap::Args;
use parkhang_core::domain::{Job, JobKey, VolumeId};
use parkhang_core::policy::correction::Correction;
use serde::Serialize;
use utoipa::ToSchema;

use super::corrected_volume;
use super::history::texts;
use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::text::{away, page, table};
use crate::admin::{Admin, Refusal, jobs};
use crate::export::Unplaced;

/// Bytes of corrections after which an answer ends.
const MOST_BYTES: usize = 8 << 20;

/// List the pages of a job that people have corrected.
///
/// A correction without a place is one of lines that the job has not found: it was made in another reading of the page. It is kept, and stands again
/// in a reading that has the line.
#[derive(Debug, Args)]
pub struct List {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// List only pages of this volume, as W-I.
    #[arg(long, value_name = "VOLUME")]
    volume: Option<VolumeId>,
    /// List only corrections without a place, with their texts.
    #[arg(long)]
    unplaced: bool,
    /// Continue where an earlier list stopped: `next` of its answer.
    #[arg(long, value_name = "VOLUME")]
    after: Option<VolumeId>,
    /// Largest number of volumes to list.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CorrectedPages {
    pages: Vec<CorrectedPage>,
    /// True if only corrections without a place are listed.
    only_unplaced: bool,
    /// Value of `after` that continues the list, if there may be more.
    next: Option<String>,
}

/// Page that people have corrected.
#[derive(Debug, Serialize, ToSchema)]
pub struct CorrectedPage {
    volume: String,
    image_name: String,
    /// Number of the page, from 1.
    page: usize,
    /// Number of edits of the page.
    revision: u32,
    /// Lines that people have written, moved or drawn.
    lines: usize,
    /// Lines that people have deleted.
    deleted: usize,
    /// Corrections of lines that the job has not found.
    unplaced: Vec<Unplaced>,
    /// Author of the last edit.
    who: Option<String>,
    /// Time of the last edit.
    at: Option<DateTime<Utc>>,
}

#[async_trait]
impl Command for List {
    const NAME: [&'static str; 2] = ["corrections", "list"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/corrections";
    type Answer = CorrectedPages;

    async fn run(self, admin: &Admin) -> Result<CorrectedPages, Refusal> {
        let job = jobs::find(admin, &self.job).await?;
        let edited = admin.store.edited_volumes().await?;
        let is_wanted = |volume: &&VolumeId| self.volume.as_ref().is_none_or(|only| *volume == only);
        let behind = |volume: &&VolumeId| self.after.as_ref().is_none_or(|after| *volume > after);
        let mut volumes = edited.keys().filter(is_wanted).filter(behind);
        let (mut pages, mut next) = (Vec::new(), None);
        let mut size = 0;
        // A volume of another job costs one query and counts too, so that an answer has an end.
        for volume in volumes.by_ref().take(self.limit as usize) {
            let listed = of_volume(admin, &job, volume).await?;
            size += listed
                .iter()
                .flat_map(|page| &page.unplaced)
                .map(size_of)
                .sum::<usize>();
            pages.extend(listed);
            next = Some(volume);
            if size >= MOST_BYTES {
                break;
            }
        }
        let next = next.filter(|_| volumes.next().is_some()).map(ToString::to_string);
        if self.unplaced {
            pages.retain(|page| !page.unplaced.is_empty());
        }
        Ok(CorrectedPages {
            pages,
            only_unplaced: self.unplaced,
            next,
        })
    }
}

/// Returns the corrected pages of a volume; none where the job has not read it.
async fn of_volume(admin: &Admin, job: &Job, volume: &VolumeId) -> Result<Vec<CorrectedPage>, Refusal> {
    let Some((_, corrected)) = corrected_volume(admin, job, volume).await? else {
        return Ok(Vec::new());
    };
    let numbered = (1..).zip(&corrected.document.pages);
    let page = |(page, document): (usize, &crate::export::document::PageDocument)| {
        let state = corrected.pages.get(&document.image_name)?;
        let changes = || {
            state
                .placed
                .iter()
                .map(|correction| (correction.who.clone(), correction.at))
        };
        let others = state
            .unplaced
            .iter()
            .map(|correction| (correction.who.clone(), correction.at));
        let (who, at) = changes().chain(others).max_by_key(|(_, at)| *at).unzip();
        Some(CorrectedPage {
            volume: volume.to_string(),
            image_name: document.image_name.clone(),
            page,
            revision: state.revision,
            lines: document
                .lines
                .iter()
                .filter(|line| line.corrected.is_some())
                .count(),
            deleted: state.placed.iter().map(deleted).sum(),
            unplaced: state.unplaced.clone(),
            who,
            at,
        })
    };
    Ok(numbered.filter_map(page).collect())
}

/// Bytes of a correction in an answer, or about as many.
fn size_of(correction: &Unplaced) -> usize {
    let lines = correction.replaces.iter().chain(&correction.lines);
    lines.map(|line| line.text.len() + 12 * line.polygon.len()).sum()
}

/// Number of lines that a correction has put nothing in the place of.
fn deleted(correction: &Correction) -> usize {
    correction
        .originals
        .len()
        .saturating_sub(correction.lines().count())
}

impl Answer for CorrectedPages {
    fn text(&self) -> String {
        let now = Utc::now();
        if self.only_unplaced {
            let rows = self.pages.iter().flat_map(|page| {
                page.unplaced.iter().map(move |correction| {
                    [
                        page.volume.clone(),
                        page.image_name.clone(),
                        texts(&correction.replaces),
                        texts(&correction.lines),
                        correction.who.clone(),
                        away(correction.at, now),
                    ]
                })
            });
            let header = ["volume", "image", "was", "is", "who", "when"];
            return page(table(header, rows, usize::MAX), self.next.as_ref());
        }
        if self.pages.is_empty() {
            return page("nobody has corrected a page of it".to_owned(), self.next.as_ref());
        }
        let header = [
            "volume",
            "image",
            "who",
            "when",
            "page",
            "lines",
            "deleted",
            "without place",
        ];
        let rows = self.pages.iter().map(|corrected| {
            [
                corrected.volume.clone(),
                corrected.image_name.clone(),
                corrected.who.clone().unwrap_or_default(),
                corrected.at.map_or_else(String::new, |at| away(at, now)),
                corrected.page.to_string(),
                corrected.lines.to_string(),
                corrected.deleted.to_string(),
                corrected.unplaced.len().to_string(),
            ]
        });
        page(table(header, rows, 4), self.next.as_ref())
    }
}
