//! Report about pages, as a table or as JSON lines.

use std::io::Write;

use anyhow::Result;
use serde_json::json;

use super::filing::Place;
use super::judge::PageVerdict;
use crate::admin::text::table;

/// Number of columns, none of which is aligned to the right.
const COLUMNS: usize = 5;

/// Writer of verdicts on standard output: a line of JSON for each page as it is judged, or tables.
#[derive(Debug)]
pub struct Report {
    json: bool,
    rows: Vec<[String; COLUMNS]>,
}

impl Report {
    pub fn new(json: bool) -> Self {
        let rows = Vec::new();
        Self { json, rows }
    }

    /// Adds the pages of a PDF.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written.
    pub fn add(&mut self, place: &Place, pages: &[PageVerdict]) -> Result<()> {
        let file = place.to_string();
        if !self.json {
            self.rows.extend(pages.iter().map(|found| row(&file, found)));
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        for found in pages {
            writeln!(out, "{}", line(&file, found)?)?;
        }
        Ok(out.flush()?)
    }

    /// Prints the table of the pages that were added since the last one.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written.
    pub fn end_table(&mut self) -> Result<()> {
        if self.json {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let header = ["file", "page", "verdict", "score", "reason"];
        writeln!(std::io::stdout().lock(), "{}", table(header, rows, COLUMNS))?;
        Ok(())
    }
}

fn line(file: &str, found: &PageVerdict) -> serde_json::Result<String> {
    serde_json::to_string(&json!({
        "file": file,
        "page": found.page,
        "verdict": found.verdict.kind,
        "score": found.verdict.score,
        "reason": found.verdict.reason.as_str(),
    }))
}

fn row(file: &str, found: &PageVerdict) -> [String; COLUMNS] {
    [
        file.to_owned(),
        found.page.to_string(),
        found.verdict.kind.to_string(),
        format!("{:.2}", found.verdict.score),
        found.verdict.reason.to_string(),
    ]
}
