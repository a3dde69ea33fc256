//! The stage kernel: takes a plan of items and a worker, and owns everything in between: order, concurrency, retries,
//! timeouts, the error budget, resume, drain, progress and manifests. It knows no model, no stage and no store.

mod cpu_pool;
mod delivery;
mod hooks;
mod item_clock;
mod item_run;
mod kernel;
mod manifest;
mod options;
mod outcome;
mod plan;
mod resume;
mod tally;
mod worker;

use std::any::Any;

pub use cpu_pool::{CancelFlag, CpuPool, PoolError, PoolStats};
pub use hooks::{NoHooks, StageContext, StageHooks};
pub use item_clock::off_the_clock;
pub use kernel::{StageControls, run_stage};
pub use manifest::{ManifestRecord, ManifestSink};
pub use options::{StageOptions, StagePolicy};
pub use outcome::{ItemOutcome, ItemReport, ItemStatus, Progress, StageOutcome};
pub use plan::{InvalidPlan, StagePlan, WorkItem};
pub use resume::OutputFingerprints;
pub use worker::{ItemWorker, OutputSink};

/// What a panic said, where it said it with a string.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
