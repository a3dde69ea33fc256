//! Polygons: their filling, as OpenCV's `drawContours` fills them, and the area that two of them share ([`Overlap`]).
//!
//! A filled polygon is what the scan lines cover between its edges ([`scanline`]) together with the edges drawn as lines
//! ([`line`]): OpenCV does both, and the lines are what makes a contour come back as the mask it was found in, with the pixels
//! of the border that lie on no scan line's inside. Edges are followed in fixed point with the same number of bits, for the
//! same pixels on steep and on shallow edges. Polygons may leave the image and cross themselves; holes follow the even-odd
//! rule. [`fill_polygon_at`] is the one that the program uses: a mask of the size of the page for each of its lines would be
//! memory traffic for nothing.

use image::GrayImage;

use super::geometry::{Point, Rect, bounding_rect};

mod line;
mod overlap;
mod scanline;

pub use overlap::{Overlap, extent_at};

/// Sets the interior of the polygon (even-odd rule) and its boundary to `value`, the parts inside the image at least.
///
/// The result of OpenCV's `drawContours` with a negative thickness.
pub fn fill_polygon(image: &mut GrayImage, contour: &[Point], value: u8) {
    fill_polygon_at(image, contour, Point::new(0, 0), value);
}

/// A filled polygon, 255 on 0, in a picture of the size of its bounding box, and that box.
pub fn shape_of(contour: &[Point]) -> (GrayImage, Rect) {
    let bounds = bounding_rect(contour);
    let mut shape = GrayImage::new(bounds.width.unsigned_abs(), bounds.height.unsigned_abs());
    fill_polygon_at(&mut shape, contour, Point::new(bounds.x, bounds.y), u8::MAX);
    (shape, bounds)
}

/// Fills a polygon like [`fill_polygon`], where the image is the part of a page whose first pixel is at `origin`, and the
/// polygon is in page coordinates. With `origin` and size of the polygon's bounding box this needs no mask of the page's size.
pub fn fill_polygon_at(image: &mut GrayImage, contour: &[Point], origin: Point, value: u8) {
    let bounds = line::Bounds::of(image);
    let Some(&last) = contour.last() else {
        return;
    };
    let mut edges = Vec::new();
    let mut from = line::Position::relative(last, origin);
    for &corner in contour {
        let to = line::Position::relative(corner, origin);
        let clipped = line::clip(from, to, bounds);
        if let Some((from, to)) = clipped.visible {
            line::draw(image, from, to, value);
        }
        edges.extend(scanline::Edge::new(from, to, clipped.ends));
        from = to;
    }
    scanline::fill(image, edges, value);
}
