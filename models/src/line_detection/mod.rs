//! Lines of a page: scale, binarise, tile, segment, stitch, contours, skew, dewarping. The network is behind
//! [`crate::inference::Segmenter`]; this room does not know which one answers.
//!
//! Detection is cut into functions where a network is asked ([`prepare`] gives tiles, [`finish`] takes their probabilities)
//! and does not call one itself, because the caller joins the tiles of several pages into batches and runs geometry and
//! network on different threads. A page that lies askew needs two passes; [`Pass1`] says whether there is a second one and
//! carries what it needs, so that no state is kept between calls.
//!
//! Coordinates change on the way: of the frame that the network sees, of the page as scanned, of the straightened page.
//! [`PageGeometry`] is the one map between them, and [`PageLines`] is in pixels of the straightened page at its original
//! resolution. The first generation of algorithms is a folder of its own, `gen1`: it differs in every step, and a branch
//! in each would hide both.

mod beside;
mod config;
mod curvature;
mod frame;
pub(crate) mod gen1;
#[cfg(test)]
pub(crate) mod golden;
mod gutters;
mod layout;
mod mask;
mod negative;
mod page_bend;
mod passes;
mod scale;
mod short;
mod skew;
mod straight;
mod strip;
mod tiling;
mod turned;

/// Reach of vowel signs above the band that the network marks of a line, in heights of the band, which goes from just above the head line to
/// the middle of the letters and is about 0.4 of the line pitch high.
pub(crate) const REACH_ABOVE: f64 = 0.7;
/// Reach of the lower halves of letters and the stacks below them, in heights of the band.
pub(crate) const REACH_BELOW: f64 = 1.15;

pub use config::DetectionConfig;
pub use frame::{Frame, prepare};
pub use layout::{Region, RegionKind};
pub use passes::{PageLines, Pass1, finish};
pub use scale::ScaleLimits;
pub use straight::{ControlPoint, DegenerateDewarp, Dewarp, PageGeometry, straighten, straighten_onto};
pub(crate) use tiling::TileGrid;
pub use turned::Certainty;
