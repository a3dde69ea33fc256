//! Pixels of a page: decoding of scans, the classic image geometry that line finding and cutting need, and the order of boxes. This crate
//! knows nothing of text, networks, files or settings: images and numbers come in, images and numbers go out.
//!
//! Conventions everywhere: x to the right, y down, pixel centres on integers; masks are 0 and 255; ink is dark; angles are
//! degrees, and each function says which way they turn.
//!
//! Nearly everything here exists in `imageproc` too, and is written anew because results are pinned. The published networks
//! were trained, and their thresholds chosen, behind OpenCV and SciPy: a border that starts at another pixel, a tie that falls
//! the other way in `min_area_rect` or a resize that rounds elsewhere changes which lines are found. Each module names the
//! function that it follows, and golden vectors made with that function hold it to the last pixel, or to a stated tolerance.
//! OpenCV itself would be a C++ library to build and ship, and `unsafe` to call.
//!
//! It is a crate of its own so that an edit of an algorithm above it does not compile it again: it is generic pixel code,
//! optimised in every profile, with the decoders behind it. [`decode`] and the geometry have only the image type in common; a
//! crate for each would save nothing, as both are used together.

pub mod contours;
pub mod decode;
pub mod geometry;
pub mod illumination;
pub mod linear;
pub mod morphology;
pub mod polygon;
pub mod reading_order;
pub mod resize;
pub mod simd;
pub mod spline;
pub mod threshold;
pub mod tone;
pub mod turn;
pub mod warp;
