use tracing::{debug, info};

use crate::runner::{ItemReport, ItemStatus, Progress, Redo, RunContext, StageHooks, StageOutcome, WorkItem};
use crate::telemetry::PageEnded;
use parkhang_core::domain::PageOutcome;

/// Hooks that emit the metrics and log lines about the pages of a stage run. They are called within the span of the run, which
/// names the volume.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PageEvents;

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
        let error = report.error.as_ref();
        PageEnded {
            stage: context.stage.as_str(),
            page: &item.item_id,
            outcome: match report.status {
                ItemStatus::Skip => PageOutcome::Skipped,
                ItemStatus::Success => PageOutcome::Succeeded,
                ItemStatus::Failure => PageOutcome::Failed,
            },
            took: report.duration,
            error: error.map(|error| (error.category.as_str(), error as &dyn std::fmt::Display)),
            tries: report.attempts,
        }
        .emit();
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
            "stage in progress"
        );
    }
}
