use std::time::Duration;

use tracing::{debug, info};

use super::catalogue::{PAGE_ERRORS, PAGE_SECONDS, PAGES};
use crate::runner::{ItemReport, ItemStatus, StageContext, StageHooks, WorkItem};

/// Tells of every page that a stage run has dealt with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageEvents;

impl StageHooks for PageEvents {
    fn after_item(&self, item: &WorkItem, report: &ItemReport, context: &StageContext) {
        let (stage, page) = (context.stage.as_str(), item.item_id.as_str());
        match (&report.status, &report.error) {
            (ItemStatus::Skip, _) => {
                PAGES.add(1, [stage, "skipped"]);
                debug!(page, "page skipped: its result stands");
            }
            (ItemStatus::Success, _) => {
                PAGES.add(1, [stage, "succeeded"]);
                timed(stage, report.duration);
                debug!(page, took = ?report.duration, "page succeeded");
            }
            (ItemStatus::Failure, error) => {
                let category = error.as_ref().map_or("unknown", |error| error.category.as_str());
                PAGES.add(1, [stage, "failed"]);
                PAGE_ERRORS.add(1, [stage, category]);
                timed(stage, report.duration);
                let error = error.as_ref().map(tracing::field::display);
                info!(page, category, error, tries = report.attempts, "page failed");
            }
        }
    }
}

fn timed(stage: &str, took: Duration) {
    PAGE_SECONDS.record(took.as_secs_f64(), [stage]);
}
