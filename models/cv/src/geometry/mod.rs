//! Points, boxes and the measures of polygons.
//!
//! Coordinates count pixels, x to the right and y down; a pixel's position is its centre. Points are integers, because
//! contours are made of pixels; what lies between pixels, such as corners of rotated rectangles, is a pair of floats and never
//! a [`Point`]. Measures compute in the precision of the OpenCV function that they follow, `f32` where that has `f32`: a
//! threshold on a measure decides whether a contour is a line, and the decision has to fall as it fell in training.

use serde::{Deserialize, Serialize};

mod hull;
mod rotated_rect;
mod simplify;

pub use hull::convex_hull;
pub use rotated_rect::{RotatedRect, min_area_rect};
pub use simplify::simplify;

/// A pixel position. Coordinates are `i32` everywhere: scrolls of more than 32,767 pixels exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    pub x: i32,
    pub y: i32,
}

impl Point {
    pub const fn new(x: i32, y: i32) -> Self {
        Self { x, y }
    }
}

/// The last pixel of a picture of this width and height; -1 along a side without any.
pub fn last_pixel((width, height): (u32, u32)) -> Point {
    let last = |side: u32| i32::try_from(side).unwrap_or(i32::MAX) - 1;
    Point::new(last(width), last(height))
}

/// An upright box: `width` and `height` count pixels, so a single point has a 1 x 1 box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rect {
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
}

/// A closed polygon of pixel centres.
pub type Contour = Vec<Point>;

/// Area enclosed by the polygon through the pixel centres (shoelace formula), so a block of `w` x `h` pixels has
/// `(w - 1) * (h - 1)`.
pub fn contour_area(contour: &[Point]) -> f64 {
    doubled_area(contour).abs() as f64 / 2.0
}

/// Returns whether the polygon runs clockwise on screen, as the border of a hole does.
pub fn is_clockwise(contour: &[Point]) -> bool {
    doubled_area(contour) > 0
}

/// Positive for a polygon that runs clockwise on screen.
fn doubled_area(contour: &[Point]) -> i64 {
    edges(contour)
        .map(|(from, to)| i64::from(from.x) * i64::from(to.y) - i64::from(from.y) * i64::from(to.x))
        .sum()
}

/// The smallest upright box that covers all points; the box of no points has neither width nor height.
pub fn bounding_rect(points: &[Point]) -> Rect {
    let Some(&first) = points.first() else {
        return Rect {
            x: 0,
            y: 0,
            width: 0,
            height: 0,
        };
    };
    let (low, high) = points.iter().fold((first, first), |(low, high), point| {
        (
            Point::new(low.x.min(point.x), low.y.min(point.y)),
            Point::new(high.x.max(point.x), high.y.max(point.y)),
        )
    });
    Rect {
        x: low.x,
        y: low.y,
        width: high.x - low.x + 1,
        height: high.y - low.y + 1,
    }
}

/// Perimeter of the closed polygon. Lengths of single edges are rounded to `f32`, as in OpenCV's `arcLength`.
pub fn arc_length(contour: &[Point]) -> f64 {
    edges(contour)
        .map(|(from, to)| {
            let (dx, dy) = ((to.x - from.x) as f32, (to.y - from.y) as f32);
            f64::from((dx * dx + dy * dy).sqrt())
        })
        .sum()
}

/// The edges of the closed polygon; the first one leads from the last point to the first.
fn edges(contour: &[Point]) -> impl Iterator<Item = (Point, Point)> {
    let ends = contour.iter().copied();
    contour.last().copied().into_iter().chain(ends.clone()).zip(ends)
}
