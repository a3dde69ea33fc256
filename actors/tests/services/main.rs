//! Rows of a table, and tasks of a pipeline, through stages of services that do what services do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod budgets;
mod entities;
mod histories;
mod leases;
mod operations;
mod service;
mod serving;
mod tasks;
mod together;
