//! What a stage run promises, one test a promise. Time is paused wherever it counts: it moves only when nothing else can.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bounds;
mod drain;
mod failure;
mod order;
mod report;
mod resume;
mod support;
