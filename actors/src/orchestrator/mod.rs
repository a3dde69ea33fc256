//! The orchestrator: compares the tasks in the state store with the slots that pools offer, and hands out leases, pass after
//! pass.
//!
//! A message only wakes it; a pass takes no input but the store, so progress and recovery are one path, and a message that is
//! lost costs time and nothing else. The pass itself (`reconcile`) is short: `plan` reads and decides, with the pure functions of
//! `policy::placement`, and the simulation runs the same plan. All that the orchestrator holds in memory is which pools exist
//! (`members`), and they register again after a takeover. Nothing has to start a job either: its tasks are rows, and the next pass
//! finds them.
//!
//! A lease is written through the `committer` before it is offered to a pool (`delivery`), so a worker that nobody knows of cannot
//! exist. A free slot is derived from the leases anew with each pass and never counted up and down, as a count would drift with
//! every fault between two of its steps. Every write is fenced by the task's stage, attempt and generation, and the store's epoch
//! fences the whole orchestrator, so that one which was frozen, and does not know that it was replaced, changes nothing.
//!
//! The room knows pools as [`Executor`]s, and neither sockets nor nodes: whether a pool is in this process or behind a
//! connection makes no difference here. No handler of an actor waits for the database; the work is spawned, and its end comes
//! back as a message.

mod actor;
mod committer;
mod delivery;
mod executor;
mod handle;
mod job_names;
mod markers;
mod members;
mod plan;
mod reconcile;
mod unserved;

pub use committer::MAX_BATCH;
pub use committer::{GroupCommitter, GroupCommitterGone};
pub use executor::{Executor, Unreachable};
pub(crate) use handle::spend_in;
pub use handle::{JobEnd, MAX_INTERRUPTIONS, OrchestratorConfig, OrchestratorHandle, WallClock};
pub use markers::{MarkerError, write_markers};
pub use plan::{PassLimits, Plan};
pub use reconcile::release_abandoned_leases;
