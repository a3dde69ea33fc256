//! A cluster in virtual time. Whatever decides in the real one decides here, unchanged: the reconciler's plan, placement,
//! the transition table, retries, and the state store's contract. What the decisions are about is simulated: nodes that
//! fail and return, stages that take as long as recorded ones did, a database that takes its time to commit. A simulation
//! reads no clock but to measure what the decisions cost, and the same seed gives the same run.

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

/// Why a simulation has no result.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error("nothing to simulate: {0}")]
    Empty(&'static str),
    #[error("no node of the fleet runs {stage}, which needs hardware {hardware}")]
    Unserved { stage: String, hardware: &'static str },
    #[error("an autoscaled fleet has one class of nodes for each hardware")]
    TwoClasses,
    #[error(transparent)]
    Pipeline(#[from] InvalidPipeline),
    #[error(transparent)]
    State(#[from] StateError),
    /// The work did not end within the horizon: too few nodes, or a fault in the decisions.
    #[error("{unfinished} volumes were not finished after {days} simulated days")]
    Unfinished { unfinished: usize, days: i64 },
}
