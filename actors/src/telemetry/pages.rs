use std::time::Duration;

use tracing::{debug, info};

use super::catalogue::{PAGE_ERRORS, PAGE_SECONDS, PAGES};
use crate::runner::{ItemReport, ItemStatus, Progress, Redo, RunContext, StageHooks, StageOutcome, WorkItem};

/// Metrics and log lines about the pages of a stage run. They lie within the span of the run, which names the volume.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageEvents;

impl StageHooks for PageEvents {
    fn before_stage(&self, context: &RunContext) {
        debug!(pages = context.total, "pages planned");
    }

    fn after_stage(&self, outcome: &StageOutcome, _: &RunContext) {
        debug!(
            succeeded = outcome.succeeded,
            skipped = outcome.skipped,
            failed = outcome.failed,
            unfinished = outcome.unfinished(),
            "no more pages are started"
        );
    }

    fn before_item(&self, item: &WorkItem, reason: Redo, _: &RunContext) {
        debug!(page = item.item_id, reason = reason.as_str(), "page started");
    }

    fn after_item(&self, item: &WorkItem, report: &ItemReport, context: &RunContext) {
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

    fn progress(&self, progress: &Progress, _: &RunContext) {
        info!(
            pages = progress.total,
            done = progress.skipped + progress.succeeded,
            failed = progress.failed,
            in_work = progress.in_flight,
            left = progress.remaining.map(tracing::field::debug),
            p50_ms = progress.exec_p50_ms,
            p95_ms = progress.exec_p95_ms,
            "stage goes on"
        );
    }
}

fn timed(stage: &str, took: Duration) {
    PAGE_SECONDS.record(took.as_secs_f64(), [stage]);
}
