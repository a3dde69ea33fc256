use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{ItemReport, Progress, StageOutcome, WorkItem};
use crate::domain::StageName;

/// What the hooks are told about the run they are called in.
#[derive(Debug, Clone, PartialEq)]
pub struct StageContext {
    pub stage: StageName,
    /// Items of the plan.
    pub total: usize,
}

/// Watches a stage run. Hooks are called from the kernel's own task, one at a time, so they must be quick; one that panics
/// is a warning in the log.
pub trait StageHooks: Send + Sync {
    fn before_stage(&self, _context: &StageContext) {}

    fn after_stage(&self, _outcome: &StageOutcome, _context: &StageContext) {}

    /// Called when the item is given to the worker, so not for a skipped one.
    fn before_item(&self, _item: &WorkItem, _context: &StageContext) {}

    /// Called for every item that was skipped or settled, in the order of delivery.
    fn after_item(&self, _item: &WorkItem, _report: &ItemReport, _context: &StageContext) {}

    /// Called every `diagnostics_interval_s`.
    fn progress(&self, _progress: &Progress, _context: &StageContext) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl StageHooks for NoHooks {}

pub(super) fn call_hook(name: &'static str, context: &StageContext, hook: impl FnOnce(&StageContext)) {
    if catch_unwind(AssertUnwindSafe(|| hook(context))).is_err() {
        tracing::warn!(hook = name, stage = %context.stage, "stage hook panicked");
    }
}
