//! `node eval`: scores of the results for a folder of scans against its ground truth.
//!
//! It reads pages through the same session as `node ocr`, and scores what an export would read from its output folder, so a score holds for
//! the product and not for a network by itself. A page that failed or was not read counts as one without text: leaving it out
//! would reward a run for giving up on hard pages. No other room may know ground truth, and this one must not change results.

mod arguments;
mod matching;
mod page_xml;
mod report;
mod score;
mod truth;

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use parkhang_actors::stage::{OCR, Pipelines};
use parkhang_store::pages::{VolumeFolder, discover_volumes};

use crate::config::job_defaults;
use crate::export::document::PageDocument;
use crate::export::{Results, load_volume};
use crate::ocr::{Input, Session, SessionOptions};
pub use arguments::EvalArgs;
use matching::match_lines;
use report::{PageScore, Report};
use score::{character_errors, word_errors};
use truth::{TruePage, read_truth};

pub async fn run(arguments: EvalArgs) -> Result<ExitCode> {
    let mut truth = read_truth(&arguments.folder)?;
    if let Some(limit) = arguments.limit {
        // The pages are sorted by name, so a limit means the same pages in every run.
        truth.truncate(limit);
    }
    let report = match &arguments.results {
        Some(out) => score_folder(out, &truth).await?,
        None => {
            // The artifacts of an evaluation are of no further use, and go with this folder.
            let staging = tempfile::tempdir().context("cannot make a temporary folder")?;
            let volume = stage_pages(&arguments.folder, &truth, &staging.path().join("eval-pages"))?;
            let out = staging.path().join("out");
            let summary = Session::open(options(&arguments, &out)?, Input::in_folders(volume))
                .await?
                .run()
                .await?;
            // Pages that were not read yet would count as empty and make the score worthless.
            anyhow::ensure!(!summary.interrupted, "interrupted");
            let mut report = score_folder(&out, &truth).await?;
            report.cpu_s = Some(summary.cpu_s);
            report.wall_s = Some(summary.wall_s);
            report.failed_pages = summary
                .volumes
                .into_iter()
                .flat_map(|volume| volume.failed_pages)
                .collect();
            report
        }
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.table(arguments.pages));
    }
    Ok(ExitCode::SUCCESS)
}

fn options(arguments: &EvalArgs, out: &Path) -> Result<SessionOptions> {
    let config = job_defaults()?.with_overrides(arguments.config.iter().map(String::as_str))?;
    Ok(SessionOptions {
        out: out.to_owned(),
        job: "eval".to_owned(),
        database_url: None,
        models: arguments.model.clone(),
        device: arguments.device.clone(),
        config,
        pipeline: Pipelines::built_in().get(OCR)?.clone(),
        bucket: None,
    })
}

/// Makes a folder with links to the pages that have ground truth, as the folder itself may contain others.
fn stage_pages(folder: &Path, truth: &[TruePage], staged: &Path) -> Result<Vec<VolumeFolder>> {
    std::fs::create_dir_all(staged).with_context(|| format!("cannot make {}", staged.display()))?;
    let folder = folder
        .canonicalize()
        .with_context(|| format!("cannot read {}", folder.display()))?;
    for page in truth {
        // Links and not copies: scans are large, and only read.
        std::os::unix::fs::symlink(folder.join(&page.image), staged.join(&page.image))
            .with_context(|| format!("cannot link {}", page.image))?;
    }
    Ok(discover_volumes(
        &[staged.to_owned()],
        Some("eval"),
        Some("pages"),
    )?)
}

async fn score_folder(out: &Path, truth: &[TruePage]) -> Result<Report> {
    let results = Results::of_folder(out).await?;
    let mut pages: HashMap<String, PageDocument> = HashMap::new();
    let mut volumes_with_text = 0;
    for volume in results.volumes(&[])? {
        if let Some(document) = load_volume(results.store(), &volume).await? {
            volumes_with_text += 1;
            pages.extend(
                document
                    .pages
                    .into_iter()
                    .map(|page| (page.source_name.clone(), page)),
            );
        }
    }
    // Results without any text are more likely the wrong folder than a run that read nothing.
    results.require_text(volumes_with_text)?;
    Ok(Report::new(
        truth
            .iter()
            .map(|page| score_page(page, pages.get(&page.image)))
            .collect(),
    ))
}

/// Scores a page; one that was not read counts as empty.
fn score_page(truth: &TruePage, read: Option<&PageDocument>) -> PageScore {
    let text = read.map(PageDocument::text).unwrap_or_default();
    let outlines: Vec<_> = read
        .map(|page| page.lines.iter().map(|line| line.polygon.clone()).collect())
        .unwrap_or_default();
    PageScore {
        image: truth.image.clone(),
        collection: truth.collection.clone(),
        characters: truth
            .text
            .as_deref()
            .map(|expected| character_errors(expected, &text)),
        words: truth.text.as_deref().map(|expected| word_errors(expected, &text)),
        lines: truth
            .outlines
            .as_deref()
            .map(|expected| match_lines(expected, &outlines)),
        lines_expected: truth.text.as_deref().map(|text| text.trim().lines().count()),
        lines_read: outlines.len(),
    }
}
