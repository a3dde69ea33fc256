use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{ItemReport, Progress, Redo, StageOutcome, WorkItem};
use parkhang_core::domain::StageName;

/// The stage run that a hook is called in.
#[derive(Debug, Clone, PartialEq)]
pub struct RunContext {
    pub stage: StageName,
    /// Items of the plan.
    pub total: usize,
}

/// Observer of a stage run. Hooks are called from the kernel's own task, one at a time, so they must be quick; one that panics
/// is a warning in the log.
pub trait StageHooks: Send + Sync {
    /// Called before the first item.
    fn before_stage(&self, _context: &RunContext) {}

    /// Called after the last item was delivered; not for a run that ended with an error of its sink.
    fn after_stage(&self, _outcome: &StageOutcome, _context: &RunContext) {}

    /// Called when the item is given to the worker, so not for a skipped one.
    fn before_item(&self, _item: &WorkItem, _reason: Redo, _context: &RunContext) {}

    /// Called for every item that was skipped or settled, in the order of delivery.
    fn after_item(&self, _item: &WorkItem, _report: &ItemReport, _context: &RunContext) {}

    /// Called every `diagnostics_interval_s`.
    fn progress(&self, _progress: &Progress, _context: &RunContext) {}
}

/// Observer that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl StageHooks for NoHooks {}

/// Calls a hook. A panic in it is caught: an observer must not end the run that it observes.
pub(super) fn call_hook(name: &'static str, context: &RunContext, hook: impl FnOnce(&RunContext)) {
    if catch_unwind(AssertUnwindSafe(|| hook(context))).is_err() {
        tracing::warn!(hook = name, stage = %context.stage, "stage hook panicked");
    }
}
