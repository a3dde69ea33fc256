//! A cluster in virtual time, to see how a fleet of hundreds of nodes works through an archive without having either.
//!
//! Whatever decides in the real cluster decides here, unchanged: the reconciler's plan, placement, the transition table,
//! retries, the autoscaler, and the state store's contract; only so do its results hold for the program. The surroundings
//! of the decisions are simulated: nodes that fail and return, stages that take as long as recorded ones did, a database that
//! takes its time to commit. What the real orchestrator does around its plan (waking, committing in batches, ending leases)
//! is done again here (`engine`, `cluster`), since there it is spread over actors and timers.
//!
//! A simulation reads no clock but to measure what the decisions cost, and the same seed gives the same run. It is a crate of its
//! own above the actors, so that nothing of them can depend on it.

mod agenda;
mod distribution;
mod engine;
mod error;
mod metered;
mod prices;
mod profile;
mod settings;
#[cfg(test)]
mod tests;

pub use distribution::{Distribution, NotADistribution};
pub use engine::report::{
    Audit, ClassReport, Cost, DeviceFaults, Ends, QueueUse, SimulationReport, StageSummary,
};
pub use engine::simulate;
pub use error::SimulationError;
pub use metered::Traffic;
pub use prices::{BILLED_BYTES, FIFO_PRICE, FREE_REQUESTS, MESSAGE_BYTES, QueueRequests, STANDARD_PRICE};
pub use profile::{Profile, ProfileError, StageProfile};
pub use settings::{Autoscaling, Faults, NodeClass, Polling, Settings, SickDevices, Sickness, Timings};
