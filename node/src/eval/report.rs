//! Scores per page and per collection, as a table and as JSON.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;

use super::matching::LineCount;
use super::score::ErrorCount;
use crate::ocr::FailedPage;
use crate::words::pluralize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageScore {
    pub image: String,
    pub collection: String,
    pub characters: Option<ErrorCount>,
    pub words: Option<ErrorCount>,
    /// Counts of lines, if the ground truth has outlines.
    pub lines: Option<LineCount>,
    pub lines_expected: Option<usize>,
    pub lines_read: usize,
    /// Mean confidence of the lines, from 0 to 1.
    pub confidence: Option<f64>,
    /// Perplexity of the text that was read; absent if little of it is Tibetan.
    pub perplexity: Option<f32>,
}

/// Scores of several pages together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GroupScore {
    pub pages: usize,
    /// Error rates; absent where no page has a text.
    pub cer: Option<f64>,
    pub wer: Option<f64>,
    pub line_recall: Option<f64>,
    pub line_precision: Option<f64>,
    /// Pages with the same number of lines as the ground truth.
    pub line_count_right: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub overall: GroupScore,
    pub collections: BTreeMap<String, GroupScore>,
    pub pages: Vec<PageScore>,
    /// CPU time of reading, in seconds, if the pages were read now.
    pub cpu_s: Option<f64>,
    /// Wall time of reading, in seconds, if the pages were read now.
    pub wall_s: Option<f64>,
    /// Pages that failed, if they were read now; they count as pages without text.
    pub failed_pages: Vec<FailedPage>,
}

/// Largest number of failed pages that the table lists; JSON has all.
const NAMED_FAILURES: usize = 20;

impl Report {
    pub fn new(pages: Vec<PageScore>) -> Self {
        let mut groups: BTreeMap<String, Vec<&PageScore>> = BTreeMap::new();
        for page in &pages {
            groups.entry(page.collection.clone()).or_default().push(page);
        }
        let collections = groups
            .iter()
            .map(|(name, pages)| (name.clone(), sum(pages.iter().copied())))
            .collect();
        Self {
            overall: sum(&pages),
            collections,
            pages,
            cpu_s: None,
            wall_s: None,
            failed_pages: Vec::new(),
        }
    }

    pub fn table(&self, with_pages: bool) -> String {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        table.set_header([
            "collection",
            "pages",
            "CER",
            "WER",
            "line recall",
            "line precision",
            "line count right",
        ]);
        if with_pages {
            for page in &self.pages {
                table.add_row(cells(&page.image, &sum([page])));
            }
        }
        for (name, score) in &self.collections {
            table.add_row(cells(name, score));
        }
        table.add_row(cells("all", &self.overall));
        let mut text = format!("{table}\n");
        if !self.failed_pages.is_empty() {
            let failed = pluralize(self.failed_pages.len(), "page");
            text += &format!("failed, and counted as pages without text: {failed}\n");
        }
        for FailedPage { page, stage, error } in self.failed_pages.iter().take(NAMED_FAILURES) {
            text += &format!("{page}, {stage}: {error}\n");
        }
        if let (Some(cpu), Some(wall)) = (self.cpu_s, self.wall_s) {
            // A report without pages has no rate, and dividing by zero would print one.
            let pages = self.pages.len().max(1) as f64;
            text += &format!("{:.2} CPU s and {:.2} s a page\n", cpu / pages, wall / pages);
        }
        text
    }
}

fn sum<'a>(pages: impl IntoIterator<Item = &'a PageScore>) -> GroupScore {
    let (mut characters, mut words, mut lines) = (None, None, None);
    let mut group = GroupScore::default();
    for page in pages {
        group.pages += 1;
        add(&mut characters, page.characters);
        add(&mut words, page.words);
        add(&mut lines, page.lines);
        group.line_count_right += usize::from(page.lines_expected == Some(page.lines_read));
    }
    GroupScore {
        cer: characters.as_ref().map(ErrorCount::rate),
        wer: words.as_ref().map(ErrorCount::rate),
        line_recall: lines.as_ref().map(LineCount::recall),
        line_precision: lines.as_ref().map(LineCount::precision),
        ..group
    }
}

/// Adds a count to a sum. Pages without a text or outlines must not count as pages without letters or lines.
fn add<C: Default + AddAssign>(sum: &mut Option<C>, count: Option<C>) {
    if let Some(count) = count {
        *sum.get_or_insert_default() += count;
    }
}

fn cells(name: &str, score: &GroupScore) -> Vec<Cell> {
    let rounded = |value: Option<f64>, digits| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let numbers = [
        score.pages.to_string(),
        rounded(score.cer, 4),
        rounded(score.wer, 4),
        rounded(score.line_recall, 3),
        rounded(score.line_precision, 3),
        match score.cer {
            Some(_) => format!("{}/{}", score.line_count_right, score.pages),
            None => "-".to_owned(),
        },
    ];
    let numbers = numbers.map(|number| Cell::new(number).set_alignment(CellAlignment::Right));
    std::iter::once(Cell::new(name)).chain(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_failed_are_named_up_to_a_limit() {
        let failed = |number| FailedPage {
            page: format!("page{number}"),
            stage: "ocr".to_owned(),
            error: "network failed".to_owned(),
        };
        let mut report = Report::new(Vec::new());
        assert!(!report.table(false).contains("not read"));
        report.failed_pages = (0..=NAMED_FAILURES).map(failed).collect();
        let reported = report.table(false);
        assert!(
            reported.contains("counted as pages without text: 21 pages\n"),
            "{reported}"
        );
        assert!(reported.contains("page19, ocr: network failed\n"), "{reported}");
        assert!(!reported.contains("page20"), "{reported}");
    }
}
