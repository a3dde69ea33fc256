//! From a page to boxes of text: the detector's input, and the boxes in its answer (DB, Liao et al. 2020).

use std::num::NonZeroU32;

use image::{GrayImage, Luma, RgbImage};
use parkhang_cv::contours::find_contours;
use parkhang_cv::geometry::{Point, RotatedRect, bounding_rect, min_area_rect};
use parkhang_cv::morphology::dilate_rect;
use parkhang_cv::polygon::fill_polygon_at;
use parkhang_cv::resize::{resize_area, resize_linear};

use crate::inference::ImageBatch;
use crate::quad::Quad;

/// Number that the sides of the detector's input are multiples of.
const MULTIPLE: u32 = 32;
/// Long side to which small pictures are enlarged.
const LEAST_SIDE: u32 = 736;
/// Probability from which a pixel counts as text.
const THRESHOLD: f32 = 0.3;
/// Mean probability that a box has at least.
const LEAST_SCORE: f32 = 0.5;
/// Short side that a box has at least, before it is grown and after, in pixels of the input.
const LEAST_SIDES: [f32; 2] = [3.0, 5.0];
/// Ratio of area to perimeter by which boxes grow: the network was trained on shrunk ones.
const GROWTH: f32 = 1.6;
/// Largest number of contours that are looked at.
const MAX_CONTOURS: usize = 4000;

/// A box of text on the page that was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TextBox {
    pub(crate) quad: Quad,
}

/// The input of the detector.
pub(crate) fn input(page: &RgbImage, long_side: u32) -> ImageBatch {
    let (width, height) = page.dimensions();
    let long = width.max(height).max(1);
    let side = long.clamp(LEAST_SIDE.min(long_side), long_side);
    let rounded = |length: u32| {
        let length = f64::from(length) * f64::from(side) / f64::from(long);
        let multiples = (length / f64::from(MULTIPLE)).round() as u32;
        multiples.max(1) * MULTIPLE
    };
    let (columns, rows) = (rounded(width), rounded(height));
    let small = if columns < width && rows < height {
        resize_area(page, columns, rows)
    } else {
        resize_linear(page, columns, rows)
    };
    let (pixels, _) = small.as_raw().as_chunks::<3>();
    let mut values = Vec::with_capacity(3 * pixels.len());
    for channel in [2, 1, 0] {
        values.extend(pixels.iter().map(|pixel| f32::from(pixel[channel]) / 127.5 - 1.0));
    }
    ImageBatch {
        count: 1,
        height: rows as usize,
        width: columns as usize,
        values,
    }
}

/// The boxes in a map of probabilities, `[height][width]`, of a page of `page` columns and rows.
pub(crate) fn boxes(probabilities: &[f32], (width, height): (u32, u32), page: (u32, u32)) -> Vec<TextBox> {
    let mask = GrayImage::from_fn(width, height, |x, y| {
        let inside = probabilities[(y * width + x) as usize] > THRESHOLD;
        Luma([if inside { 255 } else { 0 }])
    });
    let two = NonZeroU32::MIN.saturating_add(1);
    let mask = dilate_rect(&mask, two, two);
    let scale = (
        page.0 as f32 / width.max(1) as f32,
        page.1 as f32 / height.max(1) as f32,
    );
    let mut boxes = Vec::new();
    for contour in find_contours(&mask).iter().take(MAX_CONTOURS) {
        let rect = min_area_rect(contour);
        if rect.size.0.min(rect.size.1) < LEAST_SIDES[0] {
            continue;
        }
        if mean_inside(probabilities, (width, height), &rect) < LEAST_SCORE {
            continue;
        }
        let rect = grown(rect);
        if rect.size.0.min(rect.size.1) < LEAST_SIDES[1] {
            continue;
        }
        let clipped = |(x, y): (f32, f32)| {
            (
                (x * scale.0).clamp(0.0, page.0 as f32),
                (y * scale.1).clamp(0.0, page.1 as f32),
            )
        };
        boxes.push(TextBox {
            quad: Quad::from_rect(&rect).map(clipped),
        });
    }
    boxes
}

/// A rectangle whose sides are moved out.
fn grown(rect: RotatedRect) -> RotatedRect {
    // Contours go through the centres of pixels, text to their edges.
    let (width, height) = (rect.size.0 + 1.0, rect.size.1 + 1.0);
    let by = width * height * GROWTH / (2.0 * (width + height)).max(f32::MIN_POSITIVE);
    RotatedRect {
        size: (width + 2.0 * by, height + 2.0 * by),
        ..rect
    }
}

/// Mean of the map inside a rectangle.
fn mean_inside(probabilities: &[f32], (width, height): (u32, u32), rect: &RotatedRect) -> f32 {
    let corners = rect
        .corners()
        .map(|(x, y)| Point::new(x.round() as i32, y.round() as i32));
    let around = bounding_rect(&corners);
    let (left, top) = (around.x.max(0), around.y.max(0));
    let right = (around.x + around.width).min(width as i32);
    let bottom = (around.y + around.height).min(height as i32);
    if right <= left || bottom <= top {
        return 0.0;
    }
    let mut inside = GrayImage::new((right - left) as u32, (bottom - top) as u32);
    fill_polygon_at(&mut inside, &corners, Point::new(left, top), 1);
    let (mut sum, mut count) = (0.0, 0_u32);
    for (x, y, pixel) in inside.enumerate_pixels() {
        if pixel.0[0] > 0 {
            let place = (y + top as u32) * width + x + left as u32;
            sum += probabilities[place as usize];
            count += 1;
        }
    }
    sum / count.max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map with likely text in the given rectangles: left, top, right, bottom.
    fn map(width: u32, height: u32, texts: &[[u32; 4]], probability: f32) -> Vec<f32> {
        (0..width * height)
            .map(|place| {
                let (x, y) = (place % width, place / width);
                let inside =
                    |text: &[u32; 4]| (text[0]..text[2]).contains(&x) && (text[1]..text[3]).contains(&y);
                if texts.iter().any(inside) {
                    probability
                } else {
                    0.0
                }
            })
            .collect()
    }

    #[test]
    fn boxes_are_those_of_the_map_grown_and_on_the_page() {
        let map = map(128, 96, &[[20, 20, 100, 30], [20, 60, 60, 70]], 0.9);
        let mut found = boxes(&map, (128, 96), (256, 192));
        found.sort_by(|one, other| one.quad.0[0].1.total_cmp(&other.quad.0[0].1));
        assert_eq!(found.len(), 2);
        let [x0, y0, x1, y1] = found[0].quad.bounds();
        assert!(x0 < 40.0 && y0 < 40.0 && x1 > 200.0 && y1 > 60.0);
        assert!(x0 > 20.0 && y0 > 20.0 && x1 < 220.0 && y1 < 80.0);
    }

    #[test]
    fn unlikely_and_tiny_boxes_are_left_out() {
        assert!(boxes(&map(64, 64, &[[10, 10, 50, 30]], 0.4), (64, 64), (64, 64)).is_empty());
        assert!(boxes(&map(64, 64, &[[10, 10, 50, 11]], 0.9), (64, 64), (64, 64)).is_empty());
        assert!(boxes(&[], (0, 0), (0, 0)).is_empty());
    }

    #[test]
    fn the_input_has_sides_that_are_multiples_and_no_more_than_the_long_side() {
        for (width, height) in [(1, 1), (3000, 10), (2550, 3300), (200, 100)] {
            let input = input(&RgbImage::new(width, height), 960);
            assert!(input.width.is_multiple_of(32) && input.height.is_multiple_of(32));
            assert!(input.width.max(input.height) <= 960);
            assert_eq!(input.values.len(), 3 * input.width * input.height);
        }
    }
}
