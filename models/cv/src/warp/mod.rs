//! Images resampled at mapped positions.
//!
//! All maps are backward: for each pixel of the output they say where it lies in the source, so that every pixel gets one value
//! and none is left open. There are two ways because upstream has two, and they round differently: affine maps as OpenCV's
//! `warpAffine` does them, in steps of 1/32 pixel with integer weights, which also makes them fast; and positions as SciPy's
//! `map_coordinates` takes them, in floats, for splines. Neither could stand in for the other without moving pixels.

mod affine;
mod map_coordinates;

pub use affine::{Affine, rotation_matrix, warp_affine};
pub(crate) use map_coordinates::Sampler;
pub use map_coordinates::{Interpolation, map_coordinates};
