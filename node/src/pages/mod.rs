//! `node pages detect`: which pages of PDFs have text that can be used, and which must be read. It looks at files of this machine and
//! changes nothing.

mod report;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, Subcommand};
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use parkhang_store::pages::{FolderSource, FoundVolume, PageRef, PageSource, VolumeKind, discover_volumes};

use self::report::{Finding, Report};

#[derive(Debug, Subcommand)]
pub enum PagesCommand {
    /// Say for each page of PDFs whether its text can be used, with a score and the reason.
    ///
    /// A page is good, none (ink without text), broken (the text is not what the page shows) or blank. A file that cannot be read is
    /// named with the error, the others go on, and the exit status is 1. Example: `node pages detect filings/ --json | jq .verdict`.
    Detect(DetectArgs),
}

#[derive(Debug, Args)]
pub struct DetectArgs {
    /// PDFs, or folders of them.
    #[arg(required = true, value_name = "FILES")]
    pub files: Vec<PathBuf>,
    /// Print one line of JSON a page.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. The exit status is 1 if a file or a page cannot be read.
pub async fn run(command: PagesCommand) -> Result<ExitCode> {
    let PagesCommand::Detect(arguments) = command;
    let mut report = Report::default();
    let mut found: Vec<FoundVolume> = Vec::new();
    for file in arguments.files {
        // Each by itself: two files of one name in two folders are no conflict here.
        match discover_volumes(std::slice::from_ref(&file), None, None) {
            Ok(volumes) => found.extend(volumes.into_iter().filter(|found| found.kind == VolumeKind::Pdf)),
            Err(error) => report.failed(&file, &error),
        }
    }
    let bar = progress(found.len());
    for volume in &found {
        examine(volume, &mut report).await;
        bar.inc(1);
    }
    bar.finish_and_clear();
    if arguments.json {
        for line in report.json_lines()? {
            println!("{line}");
        }
    } else {
        println!("{}", report.table());
    }
    for failure in &report.failures {
        eprintln!("error: {failure}");
    }
    Ok(if report.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn examine(found: &FoundVolume, report: &mut Report) {
    let source: Arc<dyn PageSource> = Arc::new(FolderSource::new([found.clone()]));
    let pages = match source.pages(&found.volume).await {
        Ok(pages) => pages,
        Err(error) => return report.failed(&found.place, &error),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let verdicts = stream::iter(pages.into_iter().zip(1..))
        .map(|(page, number)| judged(source.clone(), found, page, number))
        .buffered(threads)
        .collect::<Vec<_>>();
    for verdict in verdicts.await {
        match verdict {
            Ok(finding) => report.findings.push(finding),
            Err(error) => report.failed(&found.place, &*error),
        }
    }
}

async fn judged(
    source: Arc<dyn PageSource>,
    found: &FoundVolume,
    page: PageRef,
    number: u32,
) -> Result<Finding, Box<dyn std::error::Error + Send + Sync>> {
    let scan = source.read(&found.volume, &page).await?;
    let text = tokio::task::spawn_blocking(move || scan.text()).await?;
    let named = |error: String| format!("page {number}: {error}");
    let text = text.map_err(|error| named(error.to_string()))?;
    let text = text.ok_or_else(|| named("it is an image".to_owned()))?;
    Ok(Finding {
        file: found.place.display().to_string(),
        page: number,
        verdict: text.verdict,
    })
}

/// Returns the progress bar, which is hidden unless standard error is a terminal.
fn progress(files: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(files as u64);
    match ProgressStyle::with_template("{bar:30} {pos} of {len} files, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
