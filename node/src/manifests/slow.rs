//! `manifests slow`: pages that took long.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::records::files;
use super::{RecordArgs, print};
use crate::admin::text::table;

#[derive(Debug, Args)]
pub struct SlowArgs {
    #[command(flatten)]
    pub records: RecordArgs,
    /// Time that a page took at least, its tries and the delays between them together.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub slower_than: Duration,
    /// Largest number of pages to list.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Print the answer as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Pages that took long.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowPages {
    /// Number of all of them.
    pub total: u64,
    pub pages: Vec<SlowPage>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowPage {
    pub job: String,
    pub volume: String,
    pub stage: String,
    pub page: String,
    pub duration_s: f64,
    pub attempts: u32,
}

pub fn run(arguments: &SlowArgs) -> Result<()> {
    let found = find(arguments)?;
    print(&found, &text(&found), arguments.json)
}

/// The slowest pages, those of one duration in the order of their files.
pub fn find(arguments: &SlowArgs) -> Result<SlowPages> {
    let least = arguments.slower_than.as_secs_f64();
    let limit = arguments.limit as usize;
    let mut found = SlowPages {
        total: 0,
        pages: Vec::new(),
    };
    for file in files(&arguments.records)? {
        file.read(|record| {
            if record.duration_s <= least {
                return Ok(());
            }
            found.total += 1;
            let place = found
                .pages
                .partition_point(|page| page.duration_s >= record.duration_s);
            if place < limit {
                found.pages.truncate(limit - 1);
                let page = SlowPage {
                    job: file.job.clone(),
                    volume: file.volume.clone(),
                    stage: record.stage.to_string(),
                    page: record.doc_id,
                    duration_s: record.duration_s,
                    attempts: record.attempts,
                };
                found.pages.insert(place, page);
            }
            Ok(())
        })?;
    }
    Ok(found)
}

fn text(found: &SlowPages) -> String {
    if found.pages.is_empty() {
        return "no page took so long".to_owned();
    }
    let header = ["job", "volume", "stage", "page", "seconds", "tries"];
    let rows = found.pages.iter().map(|page| {
        [
            page.job.clone(),
            page.volume.clone(),
            page.stage.clone(),
            page.page.clone(),
            format!("{:.1}", page.duration_s),
            page.attempts.to_string(),
        ]
    });
    let mut text = table(header, rows, 4);
    let more = found.total - found.pages.len() as u64;
    if more > 0 {
        text.push_str(&format!("\nand {more} more"));
    }
    text
}
