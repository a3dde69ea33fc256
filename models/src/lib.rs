//! Reading of a page: pure functions and networks. This crate knows no async runtime, no actor and no storage; the only
//! files it opens by itself are those of a model. Images come in as bytes, rows go out as plain data.
//!
//! Conventions everywhere: x to the right, y down, pixel centres on integers; masks are 0 and 255; ink is dark;
//! angles are degrees, positive counter-clockwise as seen on screen.
//!
//! The rooms import each other in one direction. [`inference`] is the seam in the middle: traits of networks over plain
//! buffers. [`line_detection`], [`line_extraction`] and [`recognition`] are the algorithms on its one side; they never see a
//! tensor, and a test stands in for a network with a few lines. `checkpoint` (files of tensors to layers) and `networks` are
//! the other side; they never see a page. [`weights`] joins the two: a bundle says which network reads with which
//! preparation and which charset, so it may name both, and nothing below may name it. [`self_test`] stands on top.
//!
//! Geometry and decoding (`parkhang-cv`, here [`page`]) and what networks compute with (`parkhang-kernels`) are crates below
//! this one: an edit of an algorithm compiles neither of them again.

pub mod checkpoint;
pub mod inference;
pub mod line_detection;
pub mod line_extraction;
mod median;
mod networks;
pub mod recognition;
pub mod self_test;
pub mod weights;

pub use parkhang_algorithms as algorithms;
pub use parkhang_cv as page;
pub use parkhang_kernels::device;
