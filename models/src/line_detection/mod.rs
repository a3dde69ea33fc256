//! From a page to its text lines: scale, binarise, tile, segment, stitch, contours, skew, dewarping. The network is behind
//! [`crate::inference::Segmenter`]; this room does not know which one answers.

mod config;
mod curvature;
pub(crate) mod deeplab;
mod frame;
#[cfg(test)]
pub(crate) mod golden;
mod mask;
pub mod network;
mod passes;
mod scale;
mod skew;
mod straight;
mod tiling;

pub use config::DetectionConfig;
pub use frame::{Frame, prepare};
pub use passes::{PageLines, Pass1, detect_lines, finish};
pub use scale::ScaleLimits;
pub(crate) use straight::straighten_onto;
pub use straight::{ControlPoint, DegenerateDewarp, Dewarp, PageGeometry, straighten};
pub use tiling::TileGrid;
