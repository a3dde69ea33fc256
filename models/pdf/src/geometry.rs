//! Places on a page, in points of the page as it is displayed: x to the right, y down from the top left corner.

use serde::{Deserialize, Serialize};

/// Size of a page as displayed, with its crop box, rotation and user unit, in points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PageSize {
    pub width: f32,
    pub height: f32,
    /// Turn that the file asks for, clockwise: 0, 90, 180 or 270 degrees.
    pub rotation: u16,
}

/// Upright box, in points of the displayed page or in pixels of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Rect {
    pub x0: f32,
    pub y0: f32,
    pub x1: f32,
    pub y1: f32,
}

impl Rect {
    /// Box of nothing, which [`union`](Self::union) ignores.
    pub const EMPTY: Self = Self {
        x0: f32::INFINITY,
        y0: f32::INFINITY,
        x1: f32::NEG_INFINITY,
        y1: f32::NEG_INFINITY,
    };

    pub fn width(&self) -> f32 {
        (self.x1 - self.x0).max(0.0)
    }

    pub fn height(&self) -> f32 {
        (self.y1 - self.y0).max(0.0)
    }

    pub fn area(&self) -> f32 {
        self.width() * self.height()
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            x0: self.x0.min(other.x0),
            y0: self.y0.min(other.y0),
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
        }
    }

    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self {
            x0: self.x0.max(other.x0),
            y0: self.y0.max(other.y0),
            x1: self.x1.min(other.x1),
            y1: self.y1.min(other.y1),
        }
    }
}

/// Mapping between the pixels of a picture and the points of the displayed page. Pixel coordinates are those of pixel corners: the
/// picture reaches from 0 to its width.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PixelMap {
    /// Points a pixel.
    pub scale_x: f32,
    pub scale_y: f32,
    /// Place of the picture's top left corner.
    pub left: f32,
    pub top: f32,
}

impl PixelMap {
    pub fn to_points(&self, x: f32, y: f32) -> (f32, f32) {
        (x * self.scale_x + self.left, y * self.scale_y + self.top)
    }

    pub fn to_pixels(&self, x: f32, y: f32) -> (f32, f32) {
        ((x - self.left) / self.scale_x, (y - self.top) / self.scale_y)
    }

    #[must_use]
    pub fn rect_to_points(&self, pixels: Rect) -> Rect {
        let (x0, y0) = self.to_points(pixels.x0, pixels.y0);
        let (x1, y1) = self.to_points(pixels.x1, pixels.y1);
        Rect { x0, y0, x1, y1 }
    }

    #[must_use]
    pub fn rect_to_pixels(&self, points: Rect) -> Rect {
        let (x0, y0) = self.to_pixels(points.x0, points.y0);
        let (x1, y1) = self.to_pixels(points.x1, points.y1);
        Rect { x0, y0, x1, y1 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pixels_come_back_from_points(
            x in 0.0_f32..10_000.0, y in 0.0_f32..10_000.0, scale in 0.05_f32..4.0, left in -100.0_f32..100.0
        ) {
            let map = PixelMap { scale_x: scale, scale_y: scale * 1.5, left, top: -left };
            let (px, py) = map.to_points(x, y);
            let (back_x, back_y) = map.to_pixels(px, py);
            prop_assert!((back_x - x).abs() < 0.05 + x * 1e-4 && (back_y - y).abs() < 0.05 + y * 1e-4);
        }
    }
}
