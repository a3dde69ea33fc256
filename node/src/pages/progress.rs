//! Progress of a run, on standard error.

use std::fmt;

use indicatif::ProgressBar;

use super::filing::Place;
use crate::bar::bar;
use crate::words::pluralize;

/// Numbers of a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub filings: usize,
    /// Filings of which something could not be done.
    pub failed: usize,
    pub pages: usize,
    /// Pages that have to be read.
    pub broken: usize,
    pub requests: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} failed; {}, {} to be read; {}",
            pluralize(self.filings, "filing"),
            self.failed,
            pluralize(self.pages, "page"),
            self.broken,
            pluralize(self.requests, "request")
        )
    }
}

/// Bar with the remaining time, which is hidden unless standard error is a terminal.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    is_chunk: bool,
}

impl Bar {
    /// Bar of so many filings, those of a chunk or those that the command line names.
    pub fn new(filings: usize, chunk: Option<&str>) -> Self {
        let prefix = chunk.map(|chunk| format!("{chunk}: ")).unwrap_or_default();
        Self {
            bar: bar(filings, "{prefix}{bar:30} {pos} of {len} files, {eta} left").with_prefix(prefix),
            is_chunk: chunk.is_some(),
        }
    }

    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Takes the bar off the terminal while something else is written.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Tells what was found of a filing that the command line names; those of a chunk are told together.
    pub fn filing(&self, place: &Place, pages: usize, broken: usize, requests: usize) {
        if self.is_chunk {
            return;
        }
        let (pages, requests) = (pluralize(pages, "page"), pluralize(requests, "request"));
        self.aside(|| eprintln!("{place}: {pages}, {broken} to be read; {requests}"));
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
