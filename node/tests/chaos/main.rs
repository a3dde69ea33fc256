//! A cluster of real processes on one machine, and everything that can happen to one. Whatever happens, in the end every
//! task is finished or set aside with its reason, every result is recorded once, and the artifacts are, byte by byte,
//! those of a run that nothing happened to.
//!
//! Each test has a cluster of its own, and three run at once: they wait most of the time. Those whose bars are seconds run alone. `scripts/chaos` runs them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code fails by panicking"
)]

mod cluster;
mod database;
mod deaths;
mod drain;
mod failpoints;
mod freezes;
mod intake;
mod journal;
mod kills;
mod library;
mod link;
mod partitions;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "shared with the tests of single processes")]
mod process;
mod queues;
mod random;
mod recorded;
mod rows;
mod service;
mod services;
mod settled;
#[path = "../it/site.rs"]
mod site;
mod stages;
mod standby;
mod storage;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "shared with the tests of single processes")]
mod support;
mod upgrade;
