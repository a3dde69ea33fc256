use std::time::Duration;

use tracing::{debug, info};

use super::catalogue::{PAGE_ERRORS, PAGE_SECONDS, PAGES};
use parkhang_core::domain::PageOutcome;

/// A stage run has finished a page. To be emitted inside the span of the assignment.
pub(crate) struct PageEnded<'a> {
    pub stage: &'a str,
    pub page: &'a str,
    pub outcome: PageOutcome,
    pub took: Duration,
    /// Category and text of the error of a page that failed.
    pub error: Option<(&'static str, &'a dyn std::fmt::Display)>,
    pub tries: u32,
}

impl PageEnded<'_> {
    pub(crate) fn emit(self) {
        let Self {
            stage, page, took, ..
        } = self;
        match self.outcome {
            PageOutcome::Skipped => {
                PAGES.add(1, [stage, "skipped"]);
                debug!(page, "page skipped: its result stands");
            }
            PageOutcome::Succeeded => {
                PAGES.add(1, [stage, "succeeded"]);
                PAGE_SECONDS.record(took.as_secs_f64(), [stage]);
                debug!(page, ?took, "page succeeded");
            }
            PageOutcome::Failed => {
                let category = self.error.map_or("unknown", |(category, _)| category);
                PAGES.add(1, [stage, "failed"]);
                PAGE_ERRORS.add(1, [stage, category]);
                PAGE_SECONDS.record(took.as_secs_f64(), [stage]);
                let error = self.error.map(|(_, error)| tracing::field::display(error));
                info!(page, category, error, tries = self.tries, "page failed");
            }
        }
    }
}
