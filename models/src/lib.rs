//! What reads a page: pure functions and networks. This crate knows no async runtime, no actor and no storage; the only
//! file it opens by itself is a model's weights. Images come in as bytes, rows go out as plain data.
//!
//! Conventions everywhere: x to the right, y down, pixel centres on whole numbers; masks are 0 and 255; ink is dark;
//! angles are degrees, positive counter-clockwise as seen on screen.

mod activation;
pub mod algorithms;
pub mod device;
mod feature_map;
pub mod inference;
pub mod line_detection;
pub mod line_extraction;
pub mod page;
pub mod recognition;
mod row_convolution;
pub mod weights;
