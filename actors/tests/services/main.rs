//! Rows of a table, and tasks of a pipeline, through stages of services that do what services do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod budgets;
mod distant;
mod entities;
mod google;
mod here;
mod histories;
mod leases;
mod news;
mod operations;
mod service;
mod serving;
mod shut;
mod tasks;
mod together;
mod unheard;
