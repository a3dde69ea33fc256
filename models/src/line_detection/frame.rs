//! A page made ready for the network.

use image::GrayImage;

use super::scale::ScaleLimits;
use super::straight::{PageGeometry, straighten};
use super::tiling::TileGrid;
use super::{DetectionConfig, gen1};
use crate::algorithms::Algorithms;
use crate::inference::TileBatch;
use crate::page::illumination::even_light;
use crate::page::resize::resize_area;
use crate::page::threshold::adaptive_gaussian;
use crate::page::tone::linearise;

/// Grey level that the paper of a dim page is brightened to. Darker paper leaves ink too few levels to stand out by.
const LEAST_PAPER: u8 = 215;

/// A page at the size the network sees, cut into tiles.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Tiles for the network. A caller may move them out to batch the tiles of several pages.
    pub tiles: TileBatch,
    pub(super) grid: TileGrid,
    /// The frame before binarisation, for a second pass.
    pub(super) grey: GrayImage,
    pub(super) page_size: (u32, u32),
    /// Straightening of the page after the first pass; `None` before it.
    pub(super) straightening: Option<Straightening>,
}

/// Straightening of a frame.
#[derive(Debug, Clone)]
pub(super) struct Straightening {
    /// Geometry in frame pixels.
    pub geometry: PageGeometry,
    pub tps_ratio: Option<f32>,
}

impl Frame {
    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        self.grey.dimensions()
    }

    /// The frame of the second pass: straightened, and always binarised anew because turning leaves greys.
    pub(super) fn straightened(self, straightening: Straightening, config: &DetectionConfig) -> Self {
        let grey = straighten(&self.grey, &straightening.geometry);
        let tiles = self.grid.cut(&binarise(&grey, config));
        Self {
            tiles,
            grey,
            straightening: Some(straightening),
            ..self
        }
    }
}

/// Shrinks, lights evenly, linearises, binarises and tiles a page for a network with square tiles of side `tile_size`.
///
/// `bilevel` says that the page has only ink and paper; such a page is never lit, and is neither linearised nor binarised again unless it
/// had to be shrunk, which makes it grey. The first generation does not ask and binarises every page.
pub fn prepare(page: &GrayImage, bilevel: bool, tile_size: usize, config: &DetectionConfig) -> Frame {
    if config.algorithms == Algorithms::Gen1 {
        return gen1::prepare(page, tile_size, config);
    }
    let (width, height) = page.dimensions();
    let tile = u32::try_from(tile_size).unwrap_or(u32::MAX);
    // Shrunk first: light, tone and threshold are then worked out on what the network sees, and for fewer
    // pixels.
    let frame_size = ScaleLimits::for_page(width, height, tile, config).frame_size(width, height);
    let shrunk = frame_size != (width, height);
    let mut grey = if shrunk {
        resize_area(page, frame_size.0, frame_size.1)
    } else {
        page.clone()
    };

    let grid = TileGrid::new(frame_size.0, frame_size.1, tile_size);
    if config.even_light && !bilevel {
        // In sRGB and before linear light, where shadows have too few levels left to be brightened.
        even_light(&mut grey, LEAST_PAPER);
    }
    let tiles = if bilevel && !shrunk {
        grid.cut(&grey)
    } else {
        linearise(&mut grey);
        grid.cut(&binarise(&grey, config))
    };
    Frame {
        tiles,
        grid,
        grey,
        page_size: (width, height),
        straightening: None,
    }
}

pub(super) fn binarise(grey: &GrayImage, config: &DetectionConfig) -> GrayImage {
    adaptive_gaussian(grey, config.binarise_block, config.binarise_c)
}
