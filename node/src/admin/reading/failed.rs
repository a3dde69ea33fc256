//! `pages failed`: the failed pages of a job, a bounded part at a time.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use parkhang_core::domain::{Job, JobKey, StageName, TaskId};
use parkhang_state::VolumeWithFailedPages;
use parkhang_store::artifact::{ErrorRow, failed_pages};
use parkhang_store::storage::ArtifactStore;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::command::{Access, Answer, Command, Verb};
use crate::admin::jobs::find;
use crate::admin::text::{page, table};
use crate::admin::{Admin, Library, Refusal};

/// Volumes read from the database in one query.
const BATCH: u32 = 32;
/// Volumes whose tables of errors are read concurrently.
const READS: usize = 8;

/// List the pages of a job that failed, with the reasons, volume by volume.
///
/// Only finished volumes are listed.
#[derive(Debug, Args)]
pub struct Failed {
    /// Name of the job.
    #[arg(value_name = "JOB")]
    job: JobKey,
    /// Continue where an earlier list stopped: `next` of its answer.
    #[arg(long, value_name = "PLACE")]
    after: Option<Place>,
    /// Largest number of pages to list.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// Position in the list: all pages of the volumes up to a task, and a number of pages of the volume after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    task: i64,
    pages: usize,
}

/// Failed pages.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailedPages {
    pages: Vec<FailedPage>,
    /// Value of `after` that continues the list, if there may be more.
    next: Option<String>,
}

/// Failed page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FailedPage {
    volume: String,
    /// Number of the page, from 1.
    page: i64,
    image_name: String,
    /// Stage at which it failed.
    stage: String,
    category: &'static str,
    message: String,
    /// Number of tries.
    attempts: i32,
}

#[async_trait]
impl Command for Failed {
    const NAME: [&'static str; 2] = ["pages", "failed"];
    const ACCESS: Access = Access::Read;
    const VERB: Verb = Verb::Get;
    const PATH: &'static str = "/jobs/{job}/failed-pages";
    type Answer = FailedPages;

    async fn run(self, admin: &Admin) -> Result<FailedPages, Refusal> {
        let job = find(admin, &self.job).await?;
        let store = admin.library.store().await?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let (mut pages, mut place) = (Vec::new(), self.after.unwrap_or_default());
        // A volume that is being read again may have no failed page any more, so the volumes are bounded as well as the pages: without
        // that a list of nothing could walk through the whole job.
        let mut volumes_left = self.limit;
        while volumes_left > 0 {
            let batch = BATCH.min(volumes_left);
            let volumes = admin
                .store
                .volumes_with_failed_pages(job.id, Some(TaskId(place.task)), batch)
                .await?;
            // Fewer than asked for means the end of the job, which saves a query that would return nothing.
            let has_more = volumes.len() >= batch as usize;
            let mut reads = stream::iter(volumes)
                .map(|volume| of_volume(store, &job, volume))
                // In order, unlike `buffer_unordered`: `next` is a place in the sequence of volumes.
                .buffered(READS);
            while let Some((task, failed)) = reads.try_next().await? {
                // `take(room)` below never lets the list grow over the limit, so this cannot underflow.
                let room = limit - pages.len();
                // A rerun may have repaired pages since the earlier list, so there may be fewer than were
                // skipped to.
                let left = failed.len().saturating_sub(place.pages);
                pages.extend(failed.into_iter().skip(place.pages).take(room));
                if left > room {
                    place.pages += room;
                    return Ok(FailedPages {
                        pages,
                        next: Some(place.to_string()),
                    });
                }
                place = Place {
                    task: task.0,
                    pages: 0,
                };
            }
            if !has_more {
                return Ok(FailedPages { pages, next: None });
            }
            volumes_left -= batch;
        }
        Ok(FailedPages {
            pages,
            next: Some(place.to_string()),
        })
    }
}

/// Returns the failed pages of a volume in the order of its stages and of its pages.
async fn of_volume(
    store: &Arc<dyn ArtifactStore>,
    job: &Job,
    volume: VolumeWithFailedPages,
) -> Result<(TaskId, Vec<FailedPage>), Refusal> {
    let layout = Library::layout(job, &volume.volume);
    let failed = failed_pages(&**store, &layout, job.pipeline.stages()).await;
    let mut failed = failed.map_err(anyhow::Error::from)?;
    let place = |stage: &StageName| job.pipeline.to_go(stage);
    failed.sort_by_key(|(stage, row)| (std::cmp::Reverse(place(stage)), row.page_index));
    let name = volume.volume.to_string();
    let pages = failed
        .into_iter()
        .map(|(stage, row)| FailedPage::new(name.clone(), &stage, row));
    Ok((volume.task, pages.collect()))
}

impl FailedPage {
    fn new(volume: String, stage: &StageName, row: ErrorRow) -> Self {
        Self {
            volume,
            page: i64::from(row.page_index) + 1,
            image_name: row.image_name,
            stage: stage.to_string(),
            category: row.category.as_str(),
            message: row.message,
            attempts: row.attempts,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task, self.pages)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let (task, pages) = text.split_once('.')?;
            Some(Self {
                task: task.parse().ok()?,
                pages: pages.parse().ok()?,
            })
        };
        parsed().ok_or_else(|| "must be the `next` of an earlier answer".to_owned())
    }
}

impl Answer for FailedPages {
    fn text(&self) -> String {
        if self.pages.is_empty() {
            return "no page of a finished volume failed".to_owned();
        }
        let header = ["volume", "image", "stage", "kind", "why", "page", "tries"];
        let rows = self.pages.iter().map(|failed| {
            [
                failed.volume.clone(),
                failed.image_name.clone(),
                failed.stage.clone(),
                failed.category.to_owned(),
                failed.message.clone(),
                failed.page.to_string(),
                failed.attempts.to_string(),
            ]
        });
        page(table(header, rows, 5), self.next.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        let place = Place { task: 12, pages: 300 };
        assert_eq!(place.to_string().parse(), Ok(place));
        for wrong in ["", "12", "12.", "a.1", "1.-1"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
