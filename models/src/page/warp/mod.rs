//! Images resampled at mapped positions.

mod affine;
mod map_coordinates;

pub use affine::{Affine, rotation_matrix, warp_affine};
pub(crate) use map_coordinates::Sampler;
pub use map_coordinates::{Interpolation, map_coordinates};
