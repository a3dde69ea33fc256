//! Kernels: what networks compute with. Devices, chosen at run time and always named; maps of features, in host memory on a
//! processor and as tensors on a GPU; and convolutions as a processor computes them fast.
//!
//! The networks are written once, over the trait [`feature_map::FeatureMap`], and know neither of the two kinds of map. On a
//! GPU a map is a tensor of Burn's. On a processor it is not, though Burn has a backend for that: its convolutions write
//! the patches of a whole batch to memory before they multiply, which suits wide networks, and these are narrow. What Burn
//! gives here is the GPU, and the reference that the tests compare with: a build that has neither, as a release for processors, is
//! one without the cargo feature `tensors`, and so without Burn.
//!
//! This crate is apart from the networks for the time of compiling: it has the generic vector code, which is instantiated for
//! every instruction set and optimised in all profiles, and it changes least. It knows no network, no file and no page; in
//! particular it does not read weights but takes them as vectors ([`ConvolutionWeights`], [`feature_map::LstmWeights`]). Only
//! this crate names Burn. The modules depend on each other in one direction: values (`precision`,
//! `convolution`, `activation`, `error`), then [`device`] and the convolutions, then [`feature_map`].

mod activation;
mod convolution;
pub mod device;
mod error;
pub mod feature_map;
mod precision;
mod row_convolution;

pub use activation::{Activation, sigmoid, tanh};
pub use convolution::{Conv2dShape, ConvolutionWeights};
pub use error::InferenceError;
pub use precision::Precision;
