//! The stage kernel: takes a plan of items and a worker, and owns everything in between: order, concurrency, retries,
//! timeouts, the error budget, resume, drain, progress and manifests. It knows no model, no stage and no store.
//!
//! All stages face the same faults (a page that hangs, a page that fails, a node that is told to stop), and none of these
//! faults has to do with what a stage computes, so they are handled here once and tested with workers of three lines. One task,
//! the kernel (`kernel.rs`), decides which item starts next, when nothing more may start, and what counts as failed. It never
//! waits for an item or for the sink. Tries run as tasks of their own, so that one that panics or hangs affects no other; the
//! delivery is a future beside the kernel, which passes outcomes on in starting order however they come in, as checkpoints and
//! manifests have to be the same in every run. A count of undelivered outcomes connects the two: with the queue it bounds how
//! many outputs are in memory. The clock of an item stands while it waits for a device or the storage, because its timeout is
//! meant to find a bad page and not a busy machine. A dry run asks the worker the same question as a run does before each item,
//! so the two cannot disagree.
//!
//! Blocking work of all stages goes to [`CpuPool`]: dropping a future or killing an actor cannot stop a blocking call, so a
//! call that hangs has to be written off with its thread, which the threads of the async runtime would not survive.

mod counts;
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

/// The message of a panic, where it has one: `panic!` carries a `&str` if there is nothing to format, else a `String`.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}
