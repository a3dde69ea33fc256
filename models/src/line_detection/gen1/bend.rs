//! Bent lines: as in the second generation, but each slice is measured by its largest contour, and a slice may reach
//! beyond the line's box.

use image::{GrayImage, imageops};

use super::super::curvature::{Bend, SLICE_WIDTH};
use crate::page::contours::find_contours;
use crate::page::geometry::{Contour, Point, Rect, bounding_rect, contour_area, min_area_rect};
use crate::page::polygon::shape_of;

/// Measures of one slice of a line.
struct Slice {
    center: Point,
    thickness: i32,
}

/// Samples a line of a page of this size in five slices; `None` when it is straight (`check_line_tps` of
/// `ocr-inference`).
pub(super) fn bend_of(contour: &[Point], page: (u32, u32)) -> Option<Bend> {
    // Drawn as a whole: a polygon that is clipped while it is drawn may come out a pixel different.
    let (mask, bounds) = shape_of(contour);
    let (quarter, half) = (bounds.width / 4, bounds.width / 2);
    let starts = [
        0,
        quarter - SLICE_WIDTH,
        half,
        half + quarter,
        bounds.width - SLICE_WIDTH,
    ];
    let slices = starts.map(|start| sample(&mask, bounds, bounds.x + start, page));
    let centers = slices.each_ref().map(|slice| slice.center);
    let top = centers.iter().map(|center| center.y).min()?;
    let bottom = centers.iter().map(|center| center.y).max()?;
    Bend::of(
        centers,
        bottom - top,
        slices.iter().map(|slice| slice.thickness).sum(),
    )
}

/// The columns from `start` on, as far as they are on the page. A slice that begins left of the page is empty.
fn sample(mask: &GrayImage, bounds: Rect, start: i32, (page_width, _): (u32, u32)) -> Slice {
    let end = (start + SLICE_WIDTH).min(i32::try_from(page_width).unwrap_or(i32::MAX));
    let width = if start < 0 { 0 } else { (end - start).max(0) };
    let largest = (width > 0)
        .then(|| {
            let mut slice = GrayImage::new(width.unsigned_abs(), mask.height());
            imageops::replace(&mut slice, mask, i64::from(bounds.x - start), 0);
            largest(find_contours(&slice))
        })
        .flatten();
    match largest {
        Some(part) => {
            let (x, y) = min_area_rect(&part).center;
            Slice {
                // Upstream cuts off the fraction of the centre.
                center: Point::new(start + x as i32, bounds.y + y as i32),
                thickness: bounding_rect(&part).height,
            }
        }
        None => Slice {
            center: Point::new(start + width / 2, bounds.y + bounds.height / 2),
            thickness: bounds.height,
        },
    }
}

/// The first of the largest.
fn largest(contours: Vec<Contour>) -> Option<Contour> {
    contours
        .into_iter()
        // `max_by` keeps the last of equals, so the list is turned round to keep the first as Python does.
        .rev()
        .max_by(|a, b| contour_area(a).total_cmp(&contour_area(b)))
}
