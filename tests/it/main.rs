//! One binary for all integration tests, one module per theme: a link of this size takes seconds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code fails by panicking"
)]

mod acceptance;
mod cluster;
mod control;
mod faults;
mod flaky_store;
mod guide;
mod new_stage;
mod node_commands;
mod remote;
mod sick_device;
mod sources;
mod supervision;
mod takeover;
mod tidy;
