//! Searchable PDFs as another library reads them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod fuzz;
mod layers;
mod made;
mod pictures;
mod reader;
mod set;
