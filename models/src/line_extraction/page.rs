//! The page that the vectors of upstream cut lines from: it straightens in the step that cuts, here the stage before does.

use image::GrayImage;

use super::ExtractionConfig;
use crate::line_detection::{PageGeometry, straighten_onto};
use crate::page::geometry::{Contour, Point};
use crate::page::illumination::even_light;
use crate::page::resize::resize_area;
use crate::page::tone::linearise;

/// A scale this near to 1 is taken as 1.
const SCALE_TOLERANCE: f64 = 0.001;

/// A straightened page in linear light, shrunk when it was very large.
#[derive(Debug, Clone)]
pub(super) struct StraightPage {
    pub(super) image: GrayImage,
    /// Pixels of `image` per pixel of the page's original resolution, at most 1.
    pub(super) scale: f64,
}

impl StraightPage {
    /// Contours in original resolution as pixels of `image`.
    pub(super) fn contours(&self, contours: &[Contour]) -> Vec<Contour> {
        if self.scale == 1.0 {
            return contours.to_vec();
        }
        let scale = |value: i32| (f64::from(value) * self.scale) as i32;
        let scaled = |contour: &Contour| {
            contour
                .iter()
                .map(|p| Point::new(scale(p.x), scale(p.y)))
                .collect()
        };
        contours.iter().map(scaled).collect()
    }
}

/// Makes a page ready for cutting: shrinks it to the configured size, lights it evenly and linearises it unless it is bilevel,
/// and straightens it.
pub(super) fn straight_page(
    page: GrayImage,
    bilevel: bool,
    geometry: &PageGeometry,
    config: &ExtractionConfig,
) -> StraightPage {
    let (width, height) = page.dimensions();
    let fit = (f64::from(config.max_width) / f64::from(width))
        .min(f64::from(config.max_height) / f64::from(height));
    let (mut image, scale) = if fit < 1.0 {
        shrink(&page, fit)
    } else {
        (page, 1.0)
    };
    if config.even_light && !bilevel {
        even_light(&mut image, 0);
    }
    if !bilevel || scale != 1.0 {
        linearise(&mut image);
    }
    if !geometry.is_identity() {
        image = straighten_onto(&image, geometry, config.background.grey());
    }
    StraightPage { image, scale }
}

fn shrink(page: &GrayImage, factor: f64) -> (GrayImage, f64) {
    let side = |length: u32| ((f64::from(length) * factor) as u32).max(1);
    let (width, height) = (side(page.width()), side(page.height()));
    let scale = |to: u32, from: u32| f64::from(to) / f64::from(from);
    let (x, y) = (scale(width, page.width()), scale(height, page.height()));
    let whole = (x - 1.0).abs() <= SCALE_TOLERANCE && (y - 1.0).abs() <= SCALE_TOLERANCE;
    (
        resize_area(page, width, height),
        if whole { 1.0 } else { x.min(y) },
    )
}
