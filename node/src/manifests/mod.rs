//! `node manifests`: questions to the records of pages, which runs keep below their output folder or the state folder of their node.
//!
//! A record says what became of a page in a run, and how long it took; the tables say what is valid. The room must only read records.

mod docparse;
mod errors;
mod records;
mod slow;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use parkhang_core::domain::{JobKey, StageName};
use serde::Serialize;

use self::docparse::DocparseArgs;
use self::errors::ErrorsArgs;
use self::slow::SlowArgs;
use crate::terminal::shown;

#[derive(Debug, Subcommand)]
pub enum ManifestsCommand {
    /// List the pages that took long, the slowest first.
    Slow(SlowArgs),
    /// Count the pages that failed at last, by stage and kind of error.
    Errors(ErrorsArgs),
    /// Write the records as one file for each stage: Data/Manifests/docparse.STAGE.manifest.jsonl below DIR.
    Docparse(DocparseArgs),
}

/// Records that a command looks at.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Output folder of `node ocr`, or state folder of a node.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Only those of a job.
    #[arg(long, value_name = "NAME")]
    pub job: Option<JobKey>,
    /// Only those of a stage.
    #[arg(long, value_name = "STAGE")]
    pub stage: Option<StageName>,
}

/// Runs the command.
///
/// # Errors
///
/// If there are no records, or they cannot be read.
pub fn run(command: &ManifestsCommand) -> Result<ExitCode> {
    match command {
        ManifestsCommand::Slow(arguments) => slow::run(arguments),
        ManifestsCommand::Errors(arguments) => errors::run(arguments),
        ManifestsCommand::Docparse(arguments) => docparse::run(arguments),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn print(answer: &impl Serialize, text: &str, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(answer)?);
    } else {
        println!("{}", shown(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
