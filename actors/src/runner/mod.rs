//! The stage kernel: takes a plan of items and a worker, and owns everything in between: order, concurrency, retries,
//! timeouts, the error budget, resume, drain, progress and manifests. It knows no model, no stage and no store.
//!
//! All stages have the same troubles (a page that hangs, a page that fails, a node that is told to stop), and none of them
//! belongs to what a stage is about, so they are solved here once and tested with workers of three lines. One task, the
//! kernel (`kernel.rs`), decides: which item starts next, when nothing more may start, what counts as failed. It never waits for
//! an item or for the sink. Tries run as tasks of their own, so that one that panics or hangs takes nothing with it; the
//! delivery is a future beside the kernel, which hands outcomes on in starting order however they come in, as checkpoints and
//! manifests have to be the same in every run. Between the two goes a count of what is not delivered yet: with the queue it
//! bounds how many outputs are in memory. The clock of an item stands while it waits for a device or the storage, because
//! its timeout is there to find a bad page and not a busy machine. A dry run asks the worker the same question as a run does
//! before each item, so that it cannot say anything else.

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
mod preview;
mod tally;
mod worker;

use std::any::Any;

pub use cpu_pool::{CancelFlag, CpuPool, PoolError, PoolStats};
pub use hooks::{NoHooks, RunContext, StageHooks};
pub use item_clock::off_the_clock;
pub use kernel::{StageControls, run_stage};
pub use manifest::{ManifestRecord, ManifestSink};
pub use options::StageOptions;
pub use outcome::{ItemOutcome, ItemReport, ItemStatus, Progress, StageOutcome};
pub use plan::{InvalidPlan, StagePlan, WorkItem};
pub use preview::{ItemPreview, Redo, preview_stage};
pub use worker::{ItemWorker, OutputSink};

/// The message of a panic, where it has one.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
