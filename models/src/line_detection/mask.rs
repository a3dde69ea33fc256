//! Findings in the mask of a page: its line contours, its skew, and whether its lines are bent.

use image::GrayImage;

use super::DetectionConfig;
use super::curvature::{Bend, Course, levelling_spline, typical_bend};
use super::page_bend::PageBend;
use super::short::LongLines;
use super::skew::{LineDirection, page_skew};
use super::straight::{Dewarp, PageGeometry};
use crate::page::contours::find_contours;
use crate::page::geometry::{Contour, Point, Rect, bounding_rect, contour_area, min_area_rect};

/// The findings, in mask pixels.
#[derive(Debug)]
pub(super) struct Findings {
    /// Line contours, turned but not flattened.
    pub contours: Vec<Contour>,
    /// Geometry that straightens the page.
    pub geometry: PageGeometry,
    /// Share of the lines that is bent; `None` when that was not asked for or there are no lines.
    pub tps_ratio: Option<f32>,
}

/// Examines the line contours of a mask of this size.
pub(super) fn examine(
    contours: Vec<Contour>,
    (width, height): (u32, u32),
    config: &DetectionConfig,
) -> Findings {
    let directions: Vec<LineDirection> = contours.iter().map(direction).collect();
    let angle = page_skew(&directions, config);
    let mut geometry = PageGeometry::turned(width, height, angle);
    // The contours are turned and not the mask: bends are measured on polygons, and a turned mask would cost
    // a warp and another search for contours.
    let contours = geometry.turn_contours(contours);
    if !config.use_tps || contours.is_empty() {
        return Findings {
            contours,
            geometry,
            tps_ratio: None,
        };
    }
    let courses: Vec<Course> = contours.iter().map(|contour| Course::of(contour)).collect();
    let bends: Vec<Bend> = courses.iter().filter_map(Course::bend).collect();
    let ratio = bends.len() as f32 / contours.len() as f32;
    if let Some(dewarp) = dewarp_of(&courses, &bends, ratio > config.tps_threshold, (width, height), config)
        // A bend that determines no spline cannot be flattened; the page is then only turned.
        && let Ok(flattened) = geometry.flattened(dewarp)
    {
        geometry = flattened;
    }
    Findings {
        contours,
        geometry,
        tps_ratio: Some(ratio),
    }
}

/// The dewarping of a page with lines of these courses, of which enough `are_bent` or not; `None` where the page needs none.
fn dewarp_of(
    courses: &[Course],
    bends: &[Bend],
    are_bent: bool,
    (width, height): (u32, u32),
    config: &DetectionConfig,
) -> Option<Dewarp> {
    if config.level_all_lines {
        let page = PageBend::of(courses)?;
        let is_bent = are_bent || page.parts_rows(courses);
        return is_bent.then(|| page.levelling_spline(height, config.tps_alpha));
    }
    let bend = typical_bend(bends, courses.len()).filter(|_| are_bent)?;
    Some(levelling_spline(bend, width, height, config.tps_alpha))
}

/// The contours of a mask that are large enough to be a line (`get_filtered_contours` of `ldv1`), or where `short_lines` are asked for as high
/// as those. Holes count as well.
pub(super) fn line_contours(mask: &GrayImage, config: &DetectionConfig) -> Vec<Contour> {
    let is_large = |contour: &Contour| is_large_enough(contour, mask.dimensions(), config);
    let mut contours = find_contours(mask);
    let lines = config
        .short_lines
        .then(|| LongLines::new(contours.iter().filter(|contour| is_large(contour))))
        .flatten();
    contours.retain(|contour| {
        is_large(contour) || lines.as_ref().is_some_and(|lines| lines.have_short_line(contour))
    });
    contours
}

/// Mean thickness of a line along its way, which a slope or a bend makes no larger.
pub(super) fn thickness(contour: &[Point], bounds: &Rect) -> f64 {
    contour_area(contour) / f64::from(bounds.width.max(1))
}

/// Number of ink pixels in each column of what a contour encloses: its shape, which lies where its bounds do. On the page ink is black.
pub(super) fn ink_of_columns(shape: &GrayImage, bounds: Rect, page: &GrayImage) -> Vec<u32> {
    let mut counts = vec![0; shape.width() as usize];
    for (column, row, pixel) in shape.enumerate_pixels() {
        let at = column
            .checked_add_signed(bounds.x)
            .zip(row.checked_add_signed(bounds.y));
        let seen = at.and_then(|(column, row)| page.get_pixel_checked(column, row));
        if pixel.0[0] != 0 && seen.is_some_and(|seen| seen.0[0] == 0) {
            counts[column as usize] += 1;
        }
    }
    counts
}

/// Returns whether a contour is a line for its size alone, in a frame of this size.
pub(super) fn is_large_enough(
    contour: &[Point],
    (width, height): (u32, u32),
    config: &DetectionConfig,
) -> bool {
    let (width, height) = (f64::from(width), f64::from(height));
    let bounds = bounding_rect(contour);
    contour_area(contour) > width * height * config.min_line_area
        && f64::from(bounds.width) >= width * config.min_line_width
        && i64::from(bounds.height) >= i64::from(config.min_line_height)
}

pub(super) fn direction(contour: &Contour) -> LineDirection {
    let rect = min_area_rect(contour);
    LineDirection {
        angle: rect.angle,
        width: rect.size.0,
        height: rect.size.1,
    }
}

#[cfg(test)]
mod tests {
    use image::Luma;

    use super::*;
    use crate::line_detection::ScaleLimits;
    use crate::page::resize::resize_area;

    const LINES: u32 = 45;

    /// The true line mask of a full page of a modern book: the cores of 45 lines in the middle of their rows.
    fn book_page() -> GrayImage {
        let (width, height) = (1800, 2600);
        let (margin, pitch) = (height / 12, height * 5 / 6 / LINES);
        GrayImage::from_fn(width, height, |x, y| {
            let below_margin = y.saturating_sub(margin);
            let in_text = y >= margin && below_margin / pitch < LINES && (150..1650).contains(&x);
            let in_core = below_margin % pitch < pitch * 9 / 20;
            Luma([if in_text && in_core { u8::MAX } else { 0 }])
        })
    }

    fn lines_found(config: &DetectionConfig) -> usize {
        let page = book_page();
        let limits = ScaleLimits::for_page(page.width(), page.height(), 512, config);
        let (width, height) = limits.frame_size(page.width(), page.height());
        let mut mask = resize_area(&page, width, height);
        mask.iter_mut()
            .for_each(|value| *value = if *value > 127 { u8::MAX } else { 0 });
        line_contours(&mask, config).len()
    }

    #[test]
    fn lines_of_a_tall_page_are_thick_enough_in_three_rows_of_tiles() {
        assert_eq!(lines_found(&DetectionConfig::default()), LINES as usize);
        assert_eq!(lines_found(&DetectionConfig::ldv1()), 0);
    }
}
