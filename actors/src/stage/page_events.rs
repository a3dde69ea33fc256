use crate::domain::PageOutcome;
use crate::runner::{ItemReport, ItemStatus, StageContext, StageHooks, WorkItem};
use crate::telemetry::PageEnded;

/// Hook that emits an event for every page a stage run has dealt with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PageEvents;

impl StageHooks for PageEvents {
    fn after_item(&self, item: &WorkItem, report: &ItemReport, context: &StageContext) {
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
}
