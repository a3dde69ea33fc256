//! Rectangles in any orientation, as text stands in them.

use parkhang_cv::geometry::RotatedRect;
use serde::{Deserialize, Serialize};

/// A point between pixels: the page covers 0 to its width and 0 to its height.
pub type Position = (f32, f32);

/// Four corners, clockwise as read, from the upper left one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quad(pub [Position; 4]);

impl Quad {
    /// An upright rectangle.
    pub fn upright(x0: f32, y0: f32, x1: f32, y1: f32) -> Self {
        Self([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
    }

    /// The upright rectangle around the corners: left, top, right, bottom.
    pub fn bounds(&self) -> [f32; 4] {
        let around = [f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];
        self.0.iter().fold(around, |[x0, y0, x1, y1], &(x, y)| {
            [x0.min(x), y0.min(y), x1.max(x), y1.max(y)]
        })
    }

    /// Length along the reading direction.
    pub fn width(&self) -> f32 {
        distance(self.0[0], self.0[1])
    }

    /// Length across the reading direction.
    pub fn height(&self) -> f32 {
        distance(self.0[0], self.0[3])
    }

    /// The point at `along` of the width and `down` of the height, each between 0 and 1.
    pub fn at(&self, along: f32, down: f32) -> Position {
        let [origin, right, _, below] = self.0;
        let of = |axis: fn(Position) -> f32| {
            axis(origin) + along * (axis(right) - axis(origin)) + down * (axis(below) - axis(origin))
        };
        (of(|point| point.0), of(|point| point.1))
    }

    /// The part between two places along the width and two along the height, each between 0 and 1.
    pub fn part(&self, [from, to]: [f32; 2], [top, bottom]: [f32; 2]) -> Self {
        Self([
            self.at(from, top),
            self.at(to, top),
            self.at(to, bottom),
            self.at(from, bottom),
        ])
    }

    /// The same rectangle read in a direction that is `quarters` right angles further clockwise.
    pub fn turned(&self, quarters: usize) -> Self {
        let mut corners = self.0;
        corners.rotate_left(quarters % 4);
        Self(corners)
    }

    /// The corners after `of`.
    pub fn map(&self, of: impl Fn(Position) -> Position) -> Self {
        Self(self.0.map(of))
    }

    /// The rectangle of a contour, read in that of its four directions that is closest to from left to right. Contours go through
    /// the centres of pixels.
    pub(crate) fn from_rect(rect: &RotatedRect) -> Self {
        let corners = rect.corners().map(|(x, y)| (x + 0.5, y + 0.5));
        let quad = Self(corners);
        // Corners run clockwise, so one of the four starts is the upper left.
        let direction = |turn: usize| {
            let turned = quad.turned(turn).0;
            (turned[1].0 - turned[0].0) / distance(turned[0], turned[1]).max(1e-6)
        };
        let best = (1..4).fold(0, |best, turn| {
            if direction(turn) > direction(best) + 1e-6 {
                turn
            } else {
                best
            }
        });
        quad.turned(best)
    }
}

fn distance(from: Position, to: Position) -> f32 {
    (to.0 - from.0).hypot(to.1 - from.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rectangle_is_read_from_left_to_right() {
        for angle in [0.0, 5.0, 40.0, 50.0, 85.0, 90.0] {
            let rect = RotatedRect {
                center: (50.0, 50.0),
                size: (40.0, 10.0),
                angle,
            };
            let quad = Quad::from_rect(&rect);
            let [origin, right, _, below] = quad.0;
            assert!(right.0 - origin.0 > 0.0, "{angle}: {quad:?}");
            assert!(below.1 - origin.1 > 0.0, "{angle}: {quad:?}");
            let upright = angle < 45.0;
            assert!((quad.width() - if upright { 40.0 } else { 10.0 }).abs() < 1e-3);
        }
    }

    #[test]
    fn parts_lie_along_the_reading_direction() {
        let quad = Quad::upright(10.0, 20.0, 30.0, 24.0);
        assert_eq!(
            quad.part([0.5, 1.0], [0.0, 1.0]).bounds(),
            [20.0, 20.0, 30.0, 24.0]
        );
        let down = quad.turned(1);
        assert_eq!(down.at(0.0, 0.0), (30.0, 20.0));
        assert_eq!((down.width(), down.height()), (4.0, 20.0));
    }
}
