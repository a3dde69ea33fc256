//! A page image as pixels: decoding, and the image geometry that line finding and cutting need. This room knows nothing
//! of text, networks or files.

pub mod contours;
pub mod decode;
pub mod geometry;
pub mod illumination;
pub mod morphology;
pub mod polygon;
pub mod resize;
pub(crate) mod simd;
pub mod spline;
pub mod threshold;
pub mod tone;
pub mod warp;
