//! What a mask says about a page: its line contours, its skew, and whether its lines are bent.

use image::GrayImage;

use super::DetectionConfig;
use super::curvature::{Bend, bend_of, levelling_spline, typical_bend};
use super::skew::{LineDirection, page_skew};
use super::straight::PageGeometry;
use crate::page::contours::find_contours;
use crate::page::geometry::{Contour, bounding_rect, contour_area, min_area_rect};

/// The findings, in mask pixels.
#[derive(Debug)]
pub(super) struct Findings {
    /// Line contours, turned but not flattened.
    pub contours: Vec<Contour>,
    /// What straightens the page.
    pub geometry: PageGeometry,
    /// Share of the lines that is bent; `None` when that was not asked for or there are no lines.
    pub tps_ratio: Option<f32>,
}

pub(super) fn examine(mask: &GrayImage, config: &DetectionConfig) -> Findings {
    let contours = line_contours(mask, config);
    let (width, height) = mask.dimensions();
    let directions: Vec<LineDirection> = contours.iter().map(direction).collect();
    let angle = page_skew(&directions, config);
    let mut geometry = PageGeometry::turned(width, height, angle);
    let contours = geometry.turn_contours(contours);
    if !config.use_tps || contours.is_empty() {
        return Findings {
            contours,
            geometry,
            tps_ratio: None,
        };
    }
    let bends: Vec<Bend> = contours.iter().filter_map(|contour| bend_of(contour)).collect();
    let ratio = bends.len() as f32 / contours.len() as f32;
    if ratio > config.tps_threshold
        && let Some(bend) = typical_bend(&bends, contours.len())
        // A bend that determines no spline cannot be flattened; the page is then only turned.
        && let Ok(flattened) = geometry.flattened(levelling_spline(bend, width, height, config.tps_alpha))
    {
        geometry = flattened;
    }
    Findings {
        contours,
        geometry,
        tps_ratio: Some(ratio),
    }
}

/// The contours of a mask that are large enough to be a line (`get_filtered_contours` of `ldv1`). Holes count as well.
pub(super) fn line_contours(mask: &GrayImage, config: &DetectionConfig) -> Vec<Contour> {
    let (width, height) = (f64::from(mask.width()), f64::from(mask.height()));
    let mut contours = find_contours(mask);
    contours.retain(|contour| {
        let bounds = bounding_rect(contour);
        contour_area(contour) > width * height * config.min_line_area
            && f64::from(bounds.width) >= width * config.min_line_width
            && i64::from(bounds.height) >= i64::from(config.min_line_height)
    });
    contours
}

fn direction(contour: &Contour) -> LineDirection {
    let rect = min_area_rect(contour);
    LineDirection {
        angle: rect.angle,
        width: rect.size.0,
        height: rect.size.1,
    }
}
