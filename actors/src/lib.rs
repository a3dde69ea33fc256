//! The runtime: the kernel that runs a stage, the stages themselves, and the actors that drive them, on one machine or in a
//! cluster.
//!
//! It stands on three crates: `parkhang-core` (domain and policies), `parkhang-store` (scans and artifacts) and `parkhang-state`
//! (jobs and tasks). The decisions are all there, as pure functions with time as an argument; this crate carries them out, and
//! holds what cannot be pure: threads, sockets, timers. `stage` and `runner` know nothing of leases; `supervisor`, `orchestrator`
//! and `source` know stages by what they offer and not by what they do; `cluster` and `wire` carry their messages, and
//! `telemetry` is told of everything and decides nothing. So a volume is read by the same code on a laptop and in an archive.

pub mod cluster;
mod detached;
pub mod engines;
pub mod entity;
pub mod external;
pub mod inference;
pub mod intake;
pub mod jpeg;
pub mod launcher;
pub mod orchestrator;
pub mod runner;
pub mod search;
pub mod services;
pub mod source;
pub mod stage;
pub mod supervisor;
pub mod telemetry;
pub mod wire;
