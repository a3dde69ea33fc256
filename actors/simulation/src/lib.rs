//! A cluster in virtual time. Whatever decides in the real one decides here, unchanged: the reconciler's plan, placement,
//! the transition table, retries, and the state store's contract. What the decisions are about is simulated: nodes that
//! fail and return, stages that take as long as recorded ones did, a database that takes its time to commit. A simulation
//! reads no clock but to measure what the decisions cost, and the same seed gives the same run.

mod agenda;
mod distribution;
mod engine;
mod error;
mod metered;
mod profile;
mod settings;
#[cfg(test)]
mod tests;

pub use distribution::{Distribution, NotADistribution};
pub use engine::report::{Audit, ClassReport, Cost, Ends, SimulationReport, StageSummary};
pub use engine::simulate;
pub use error::SimulationError;
pub use metered::Traffic;
pub use profile::{Profile, ProfileError, StageProfile};
pub use settings::{Autoscaling, Faults, NodeClass, Settings, Timings};
