//! `node pages detect`: which pages of PDFs have text that can be used, and which must be read.
//!
//! PDFs that are named and nothing more are looked at. Those of an exchange, filings, have an id: the list of their pages that must be
//! read goes to the database of the program that has the filings, and then requests for these pages go to a queue, whose other end is
//! the standing job `page_ocr` of a cluster. The room decides nothing about pages, and reads none but with the session of `node ocr`. A
//! filing that cannot be dealt with never holds up the others.

mod arguments;
mod chunks;
mod detect;
mod effects;
mod filing;
mod inline;
mod journal;
mod judge;
mod manifest;
mod progress;
mod publish;
mod record;
mod report;
mod settings;
mod sources;
mod work;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

pub use self::arguments::DetectArgs;

#[derive(Debug, Subcommand)]
pub enum PagesCommand {
    /// Say for each page of PDFs whether its text can be used, with a score and the reason.
    ///
    /// A page is good, none (ink without text), broken (the text is not what the page shows) or blank. A file that cannot be read is
    /// named with the error, the others go on, and the exit status is 1. Example: `node pages detect filings/ --json | jq .verdict`.
    ///
    /// With an exchange, the pages that have to be read, none or broken, are written to the column broken_pages of the table filings in
    /// the database of DATABASE_URL, and requests for them are sent to the queue of OCR_QUEUE_URL; see docs/filings.md. Example:
    /// `node pages detect --manifest-bucket lists --manifest-key hkex.jsonl --exchange HKEX --queue URL`.
    Detect(Box<DetectArgs>),
}

/// Runs the command. The exit status is 1 if a file or a page cannot be read.
///
/// # Errors
///
/// If the run cannot begin, or this machine fails.
pub async fn run(command: PagesCommand) -> Result<ExitCode> {
    let PagesCommand::Detect(arguments) = command;
    detect::run(*arguments).await
}
