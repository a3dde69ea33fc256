//! What happens to a volume: the kernel that runs a stage, the stages, and the actors that drive them. It stands on three crates:
//! `parkhang-core` (domain and policies), `parkhang-store` (scans and artifacts) and `parkhang-state` (jobs and tasks).

pub mod cluster;
pub mod inference;
pub mod jpeg;
pub mod launcher;
pub mod orchestrator;
pub mod runner;
pub mod source;
pub mod stage;
pub mod supervisor;
pub mod telemetry;
pub mod wire;
