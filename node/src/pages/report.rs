//! Report about pages, as a table and as JSON lines.

use std::fmt::Display;
use std::path::Path;

use parkhang_pdf::Verdict;
use serde_json::json;

use crate::admin::text::table;

/// Number of columns, none of which is aligned to the right.
const COLUMNS: usize = 5;

/// Verdict about a page of a file.
#[derive(Debug)]
pub struct Finding {
    pub file: String,
    /// Number from 1.
    pub page: u32,
    pub verdict: Verdict,
}

/// Verdicts about pages, and what cannot be read.
#[derive(Debug, Default)]
pub struct Report {
    pub findings: Vec<Finding>,
    pub failures: Vec<String>,
}

impl Report {
    /// Adds a file, or a page of it, that cannot be read.
    pub fn failed(&mut self, file: &Path, error: &(impl Display + ?Sized)) {
        let (file, error) = (file.display().to_string(), error.to_string());
        self.failures.push(if error.contains(&file) {
            error
        } else {
            format!("{file}: {error}")
        });
    }

    pub fn json_lines(&self) -> serde_json::Result<Vec<String>> {
        self.findings
            .iter()
            .map(|found| {
                serde_json::to_string(&json!({
                    "file": found.file,
                    "page": found.page,
                    "verdict": found.verdict.kind,
                    "score": found.verdict.score,
                    "reason": found.verdict.reason.as_str(),
                }))
            })
            .collect()
    }

    pub fn table(&self) -> String {
        let rows = self.findings.iter().map(|found| {
            [
                found.file.clone(),
                found.page.to_string(),
                found.verdict.kind.to_string(),
                format!("{:.2}", found.verdict.score),
                found.verdict.reason.to_string(),
            ]
        });
        table(["file", "page", "verdict", "score", "reason"], rows, COLUMNS)
    }
}
