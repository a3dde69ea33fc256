//! The orchestrator: it compares what Postgres says with what the pools offer and closes the gap, pass after pass. A
//! message only wakes it; a pass takes no input but the store, so progress and recovery are one path. What it holds in
//! memory (which pools exist) is rebuilt by their registering again.

mod actor;
mod delivery;
mod deserted;
mod executor;
mod handle;
mod job_names;
mod markers;
mod members;
mod mirror;
mod plan;
mod reconcile;

pub use executor::{Executor, Unreachable};
pub use handle::{JobEnd, MAX_INTERRUPTIONS, OrchestratorConfig, OrchestratorHandle};
pub use markers::{MarkerError, write_markers};
pub use mirror::MAX_BATCH;
pub use mirror::{Mirror, MirrorGone};
pub use plan::{PassLimits, Plan};
pub use reconcile::release_abandoned_leases;
