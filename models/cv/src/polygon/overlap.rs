//! Areas that two polygons share, by sampling columns.

use crate::geometry::{Point, bounding_rect};

/// Columns that the narrower of two polygons is sampled at.
const COLUMNS: i32 = 192;

/// Areas of two polygons, in pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overlap {
    pub shared: f64,
    pub first: f64,
    pub second: f64,
}

impl Overlap {
    /// Measures two polygons of at least three corners each (even-odd rule). The areas are those of the columns that were sampled; they are
    /// zero for polygons whose upright rectangles are apart.
    pub fn of(first: &[Point], second: &[Point]) -> Self {
        // Fewer corners have no area, and a bounding box of none does not exist.
        if first.len() < 3 || second.len() < 3 {
            return Self::default();
        }
        let (one, other) = (bounding_rect(first), bounding_rect(second));
        let left = one.x.min(other.x);
        let right = (one.x + one.width).max(other.x + other.width);
        let apart = one.x + one.width <= other.x
            || other.x + other.width <= one.x
            || one.y + one.height <= other.y
            || other.y + other.height <= one.y;
        if apart {
            return Self::default();
        }
        // By the narrower of the two: a short line beside a long one would otherwise fall between the samples.
        let step = (one.width.min(other.width) / COLUMNS).max(1);
        let mut areas = Self::default();
        let mut x = left;
        while x < right {
            let column = f64::from(x) + f64::from(step) / 2.0;
            let (one, other) = (crossings(first, column), crossings(second, column));
            areas.shared += shared(&one, &other) * f64::from(step);
            areas.first += length(&one) * f64::from(step);
            areas.second += length(&other) * f64::from(step);
            x += step;
        }
        areas
    }

    /// Share of both together that is in both, from 0 to 1: the intersection over the union.
    pub fn of_union(&self) -> f64 {
        share(self.shared, self.first + self.second - self.shared)
    }

    /// Share of the first that is in the second, from 0 to 1.
    pub fn of_first(&self) -> f64 {
        share(self.shared, self.first)
    }
}

/// Returns the first and the last place of a polygon along the vertical line at `x`; `None` where it is not.
pub fn extent_at(polygon: &[Point], x: f64) -> Option<(f64, f64)> {
    let crossings = crossings(polygon, x);
    Some((*crossings.first()?, *crossings.last()?))
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Returns the inside of a polygon along the vertical line at `x`, as sorted pairs of entry and exit (even-odd rule).
fn crossings(polygon: &[Point], x: f64) -> Vec<f64> {
    let mut ys = Vec::new();
    for (index, from) in polygon.iter().enumerate() {
        let to = polygon[(index + 1) % polygon.len()];
        let (x0, x1) = (f64::from(from.x), f64::from(to.x));
        // An edge includes one of its ends and not the other, so that a corner on the line is counted once and entries and exits stay
        // in pairs.
        if (x0 <= x) != (x1 <= x) {
            ys.push(f64::from(from.y) + (x - x0) / (x1 - x0) * (f64::from(to.y) - f64::from(from.y)));
        }
    }
    // Sorted, so that each pair is an entry and the exit behind it, also for concave outlines.
    ys.sort_by(f64::total_cmp);
    ys
}

fn length(spans: &[f64]) -> f64 {
    spans.chunks_exact(2).map(|span| span[1] - span[0]).sum()
}

fn shared(first: &[f64], second: &[f64]) -> f64 {
    first
        .chunks_exact(2)
        .flat_map(|one| second.chunks_exact(2).map(move |other| (one, other)))
        .map(|(one, other)| (one[1].min(other[1]) - one[0].max(other[0])).max(0.0))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(x: i32, y: i32, width: i32, height: i32) -> Vec<Point> {
        [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
            .map(|(x, y)| Point::new(x, y))
            .to_vec()
    }

    #[test]
    fn overlap_of_blocks() {
        let shares = |a: &[Point], b: &[Point]| {
            let overlap = Overlap::of(a, b);
            [overlap.of_union(), overlap.of_first()].map(|share| (share * 100.0).round() / 100.0)
        };
        assert_eq!(shares(&block(0, 0, 100, 20), &block(0, 0, 100, 20)), [1.0, 1.0]);
        assert_eq!(shares(&block(0, 0, 100, 20), &block(0, 10, 100, 20)), [0.33, 0.5]);
        assert_eq!(shares(&block(0, 0, 100, 20), &block(0, 30, 100, 20)), [0.0, 0.0]);
        assert_eq!(shares(&block(0, 0, 100, 20), &block(50, 0, 50, 20)), [0.5, 0.5]);
        assert_eq!(shares(&block(40, 5, 10, 10), &block(0, 0, 100, 20)), [0.05, 1.0]);
        assert_eq!(
            shares(&block(0, 0, 100, 20)[..2], &block(0, 0, 100, 20)),
            [0.0, 0.0]
        );
    }
}
