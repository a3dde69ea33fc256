//! From a page to its text lines: scale, binarise, tile, segment, stitch, contours, skew, dewarping. The network is behind
//! [`crate::inference::Segmenter`]; this room does not know which one answers.

mod config;
mod curvature;
pub(crate) mod deeplab;
mod frame;
pub(crate) mod gen1;
#[cfg(test)]
pub(crate) mod golden;
mod layout;
mod mask;
pub mod network;
mod passes;
mod scale;
mod skew;
mod straight;
mod strip;
mod tiling;

pub use config::DetectionConfig;
pub use frame::{Frame, prepare};
pub use layout::{Region, RegionKind};
pub use passes::{PageLines, Pass1, detect_lines, finish};
pub use scale::ScaleLimits;
pub use straight::{ControlPoint, DegenerateDewarp, Dewarp, PageGeometry, straighten, straighten_onto};
pub use tiling::{Plane, TileGrid};
