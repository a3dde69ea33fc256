//! Points, boxes and the measures of polygons.

use serde::{Deserialize, Serialize};

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
