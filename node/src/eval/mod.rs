//! `node eval`: scores of the results for a folder of scans against its ground truth.
//!
//! It reads pages through the same session as `node ocr`, and scores what an export would read from its output folder, so a score holds for
//! the product and not for a network by itself. A page that failed or was not read counts as one without text: leaving it out
//! would reward a run for giving up on hard pages. No other room may know ground truth, and this one must not change results.

mod arguments;
mod matching;
mod report;
mod score;
mod trust;
mod truth;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parkhang_actors::stage::{OCR, Pipelines, text_score};
use parkhang_core::domain::TextEncoding;
use parkhang_models::recognition::perplexity::TextScore;
use parkhang_store::pages::{FoundVolume, discover_volumes};

use crate::config::{Loaded, job_defaults};
use crate::export::Results;
use crate::export::document::{LineDocument, PageDocument, VolumeDocument};
use crate::networks::ModelChoice;
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
    if let Some(inputs) = &arguments.trust {
        return trust::run(&arguments, inputs, &truth).await;
    }
    let report = match (&arguments.results, &arguments.job) {
        (Some(out), _) => score_results(&Results::of_folder(out).await?, &truth).await?,
        (None, Some(job)) => {
            let loaded = Loaded::read(&arguments.settings)?.validated()?;
            let results = Results::of_job(&loaded, job, false).await?;
            score_results(&results.original_if(arguments.original), &truth).await?
        }
        (None, None) => {
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
            let mut report = score_results(&Results::of_folder(&out).await?, &truth).await?;
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
    let pipeline = Pipelines::built_in().get(OCR)?.clone();
    let models = ModelChoice::of_stages(pipeline.stages());
    Ok(SessionOptions {
        out: out.to_owned(),
        job: "eval".to_owned(),
        database_url: None,
        models: ModelChoice {
            bundles: arguments.model.clone(),
            ..models
        },
        engines: Vec::new(),
        device: arguments.device.clone(),
        config,
        pipeline,
        operation: OCR.to_owned(),
        bucket: None,
    })
}

/// Makes a folder with links to the pages that have ground truth, as the folder itself may contain others.
fn stage_pages(folder: &Path, truth: &[TruePage], staged: &Path) -> Result<Vec<FoundVolume>> {
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

async fn score_results(results: &Results, truth: &[TruePage]) -> Result<Report> {
    let mut volumes = Vec::new();
    for volume in results.volumes(&[])? {
        let corrected = results.document(&volume).await?;
        volumes.extend(corrected.map(|corrected| Arc::unwrap_or_clone(corrected.document)));
    }
    // Results without any text are more likely the wrong folder than a run that read nothing.
    results.require_text(volumes.len())?;
    let pages = by_scan(volumes, truth)?;
    Ok(Report::new(
        truth
            .iter()
            .map(|page| score_page(page, pages.get(&page.image)))
            .collect(),
    ))
}

/// Returns the pages of all volumes that are to be scored, by the names of their scans.
///
/// # Errors
///
/// If two volumes have a scan of the same name: ground truth names no volumes, and so does not tell which of them it is for.
fn by_scan(volumes: Vec<VolumeDocument>, truth: &[TruePage]) -> Result<HashMap<String, PageDocument>> {
    let wanted: HashSet<&str> = truth.iter().map(|page| page.image.as_str()).collect();
    let mut pages = HashMap::new();
    for volume in volumes {
        for page in volume.pages {
            let name = page.source_name.clone();
            if wanted.contains(name.as_str()) && pages.insert(name.clone(), page).is_some() {
                bail!(
                    "{}-{} and a volume before it both have a scan {name}: score an output folder that has one of them",
                    volume.w_id,
                    volume.i_id
                );
            }
        }
    }
    Ok(pages)
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
            .as_ref()
            .map(|expected| match_lines(&expected.text, &expected.marginal, &outlines)),
        lines_expected: truth.text.as_deref().map(|text| text.trim().lines().count()),
        lines_read: outlines.len(),
        confidence: read.and_then(mean_confidence),
        perplexity: read.and_then(perplexity),
    }
}

fn mean_confidence(page: &PageDocument) -> Option<f64> {
    let lines = page.lines.iter().filter_map(|line| line.confidence);
    let confidences: Vec<f64> = lines.map(f64::from).collect();
    (!confidences.is_empty()).then(|| confidences.iter().sum::<f64>() / confidences.len() as f64)
}

fn perplexity(page: &PageDocument) -> Option<f32> {
    let score = |line: &LineDocument| text_score(&line.unicode(), TextEncoding::Unicode);
    let score: TextScore = page.lines.iter().map(score).sum();
    score.perplexity()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::scanned::Scanned;

    fn volume(i_id: &str, scans: &[&str]) -> VolumeDocument {
        let page = |scan: &&str| PageDocument {
            image_name: (*scan).to_owned(),
            source_name: (*scan).to_owned(),
            width: 1,
            height: 1,
            lines: Vec::new(),
            regions: Vec::new(),
            error: None,
            scanned: Scanned::default(),
        };
        VolumeDocument {
            w_id: "W1".to_owned(),
            i_id: i_id.to_owned(),
            pages: scans.iter().map(page).collect(),
        }
    }

    #[test]
    fn a_scan_of_two_volumes_is_scored_for_neither() {
        let truth = ["1.jpg", "2.jpg"].map(|image| TruePage {
            image: image.to_owned(),
            collection: "uchen".to_owned(),
            text: None,
            outlines: None,
        });
        // What has no ground truth may be there twice.
        let apart = vec![
            volume("I1", &["1.jpg", "cover.jpg"]),
            volume("I2", &["2.jpg", "cover.jpg"]),
        ];
        assert_eq!(by_scan(apart, &truth).unwrap().len(), 2);
        let both = vec![volume("I1", &["1.jpg"]), volume("I2", &["1.jpg"])];
        let refused = by_scan(both, &truth).unwrap_err().to_string();
        assert!(refused.starts_with("W1-I2 and a volume before it"), "{refused}");
    }
}
