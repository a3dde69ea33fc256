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
mod audit;
mod cluster;
mod distribution;
mod engine;
mod group_commit;
mod metered;
mod profile;
mod report;
mod scaling;
mod settings;
#[cfg(test)]
mod tests;
mod work;

pub use distribution::{Distribution, NotADistribution};
pub use engine::simulate;
pub use metered::Traffic;
pub use profile::{Profile, ProfileError, StageProfile};
pub use report::{Audit, ClassReport, Cost, Ends, SimulationReport, StageSummary};
pub use settings::{Autoscaling, Faults, NodeClass, Settings, Timings};

use parkhang_core::domain::InvalidPipeline;
use parkhang_state::StateError;

/// Reason why a simulation has no result.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// There are no volumes or no stages.
    #[error("nothing to simulate: {0}")]
    Empty(&'static str),
    /// A stage has no nodes.
    #[error("no node of the fleet runs {stage}, which needs hardware {hardware}")]
    Unserved { stage: String, hardware: &'static str },
    /// An autoscaled hardware has several classes of nodes.
    #[error("an autoscaled fleet has one class of nodes for each hardware")]
    TwoClasses,
    /// The stages of the profile are no pipeline.
    #[error(transparent)]
    Pipeline(#[from] InvalidPipeline),
    /// The store refused something.
    #[error(transparent)]
    State(#[from] StateError),
    /// The work did not end within the horizon: too few nodes, or a fault in the decisions.
    #[error("{unfinished} volumes were not finished after {days} simulated days")]
    Unfinished { unfinished: usize, days: i64 },
}
