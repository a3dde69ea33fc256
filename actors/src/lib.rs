//! What happens to a volume: the domain, the policies that decide, the kernel that runs a stage, and the actors and
//! services they need. Dependencies go one way: `domain` ← `policy` ← everything else; `domain` and `policy` are pure.

pub mod artifact;
pub mod cluster;
pub mod domain;
pub mod failpoint;
pub mod inference;
pub mod jpeg;
pub mod launcher;
pub mod orchestrator;
pub mod pages;
pub mod policy;
pub mod runner;
pub mod simulation;
pub mod source;
pub mod stage;
pub mod state;
pub mod storage;
pub mod supervisor;
pub mod telemetry;
pub mod wire;
