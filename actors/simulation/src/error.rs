//! Reasons for which a simulation has no result.

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
