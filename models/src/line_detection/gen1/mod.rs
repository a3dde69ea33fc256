//! Line detection of the first generation: the page clamped in size, each tile binarised by itself, and the mask brought
//! back to the size of the page and turned as an image.
//!
//! It is kept because recognisers were trained on line images that it found, and to compare results. Types are those of the
//! second generation, so that callers know one; of the algorithms contours, thresholds and the levelling spline are shared, the
//! rest is not: the generations round, order and turn differently, and tests hold this one to vectors of `ocr-inference`.
//!
//! Where upstream is at fault it is not followed: a page is turned in either direction (`ocr-inference` only turns
//! counter-clockwise), its grey levels are those of its colours (upstream exchanges red and blue), and a page without
//! lines is a success.

mod bend;
#[cfg(test)]
pub(super) mod golden;
mod scale;
mod skew;

use image::GrayImage;

use self::bend::bend_of;
use self::scale::frame_size;
use self::skew::page_skew;
use super::DetectionConfig;
use super::curvature::{Bend, levelling_spline, typical_bend};
use super::frame::Frame;
use super::straight::{Dewarp, PageGeometry, straighten_onto};
use super::tiling::TileGrid;
use crate::page::contours::find_contours;
use crate::page::geometry::{Contour, bounding_rect, contour_area};
use crate::page::resize::resize_linear;
use crate::page::threshold::adaptive_gaussian;
use crate::page::warp::{rotation_matrix, warp_affine};

/// Area in pixels below which a contour is a speck.
const MIN_CONTOUR_AREA: f64 = 10.0;

/// Clamps, tiles and binarises a page; see [`super::prepare`].
pub(super) fn prepare(page: &GrayImage, tile_size: usize, config: &DetectionConfig) -> Frame {
    let (width, height) = frame_size(page.dimensions(), tile_size, config);
    let grey = resize_linear(page, width, height);
    let grid = TileGrid::new(width, height, tile_size);
    let tiles = grid.cut_mapped(&grey, |tile| {
        adaptive_gaussian(tile, config.binarise_block, config.binarise_c)
    });
    Frame {
        tiles,
        grid,
        grey,
        page_size: page.dimensions(),
        straightening: None,
    }
}

/// Findings in a mask of the page's own size.
#[derive(Debug)]
pub(super) struct Findings {
    pub angle: f32,
    pub dewarp: Option<Dewarp>,
    pub tps_ratio: Option<f32>,
    /// The straightened mask, 0 and 255.
    pub mask: GrayImage,
    pub contours: Vec<Contour>,
}

/// Turns the mask and reads lines off it (`build_lines` and `apply_dewarping` of `ocr-inference`).
pub(super) fn examine(mask: GrayImage, config: &DetectionConfig) -> Findings {
    let (width, height) = mask.dimensions();
    let angle = page_skew(&find_contours(&mask), (width, height), config);
    // In double precision, which `ocr-inference` turns with; the second generation rounds the matrix to
    // single.
    let mask = turned(mask, angle);
    let contours = line_contours(&mask, config);
    let angle = angle as f32;
    let straight = Findings {
        angle,
        dewarp: None,
        tps_ratio: None,
        mask,
        contours,
    };
    if !config.use_tps || straight.contours.is_empty() {
        return straight;
    }
    let bends: Vec<Bend> = straight
        .contours
        .iter()
        .filter_map(|contour| bend_of(contour, (width, height)))
        .collect();
    let ratio = bends.len() as f32 / straight.contours.len() as f32;
    let straight = Findings {
        tps_ratio: Some(ratio),
        ..straight
    };
    if ratio > config.tps_threshold
        && let Some(bend) = typical_bend(&bends, straight.contours.len())
        // A bend that determines no spline cannot be flattened; the page is then only turned.
        // The mask has been turned already, so the spline is fitted to a page without a turn.
        && let Ok(geometry) = PageGeometry::turned(width, height, 0.0)
            .flattened(levelling_spline(bend, width, height, config.tps_alpha))
    {
        let mask = any_ink(straighten_onto(&straight.mask, &geometry, 0));
        return Findings {
            contours: line_contours(&mask, config),
            dewarp: geometry.dewarp().cloned(),
            mask,
            ..straight
        };
    }
    straight
}

fn turned(mask: GrayImage, angle: f64) -> GrayImage {
    if angle == 0.0 {
        return mask;
    }
    let center = (f64::from(mask.width()) / 2.0, f64::from(mask.height()) / 2.0);
    any_ink(warp_affine(&mask, &rotation_matrix(center, angle, 1.0), 0))
}

/// The greys that turning leaves at the edges count as ink.
fn any_ink(mut mask: GrayImage) -> GrayImage {
    for value in mask.iter_mut() {
        *value = if *value > 0 { u8::MAX } else { 0 };
    }
    mask
}

/// The contours of a mask that are large enough to be a line. Holes count as well.
fn line_contours(mask: &GrayImage, config: &DetectionConfig) -> Vec<Contour> {
    let width = f64::from(mask.width());
    let mut contours = find_contours(mask);
    contours.retain(|contour| {
        let bounds = bounding_rect(contour);
        contour_area(contour) > MIN_CONTOUR_AREA
            && f64::from(bounds.width) > width * config.min_line_width
            && i64::from(bounds.height) > i64::from(config.min_line_height)
    });
    contours
}
