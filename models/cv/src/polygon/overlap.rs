//! Areas that two polygons share, by sampling columns.

use crate::geometry::{Point, Rect, bounding_rect};

/// Columns that a polygon, and what it shares with another, is sampled at; as many as it is wide where that is less.
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
    /// zero for polygons whose upright rectangles are apart. It takes no longer for wide polygons.
    pub fn of(first: &[Point], second: &[Point]) -> Self {
        // Fewer corners have no area, and a bounding box of none does not exist.
        if first.len() < 3 || second.len() < 3 {
            return Self::default();
        }
        let (one, other) = (bounding_rect(first), bounding_rect(second));
        if Self::of_bounds(&one, &other).shared <= 0.0 {
            return Self::default();
        }
        let area = |polygon: &[Point], bounds: &Rect| {
            let places = columns(bounds.x, bounds.x + bounds.width);
            places
                .map(|(x, width)| length(&crossings(polygon, x)) * width)
                .sum()
        };
        // What is shared by columns of its own: a short line beside a long one would otherwise fall between the samples.
        let left = one.x.max(other.x);
        let right = (one.x + one.width).min(other.x + other.width);
        let both = columns(left, right);
        Self {
            shared: both
                .map(|(x, width)| shared(&crossings(first, x), &crossings(second, x)) * width)
                .sum(),
            first: area(first, &one),
            second: area(second, &other),
        }
    }

    /// Measures two upright rectangles: polygons within them share no more.
    pub fn of_bounds(first: &Rect, second: &Rect) -> Self {
        let side = |at: i32, length: i32, other: i32, other_length: i32| {
            let end = (at + length).min(other + other_length);
            f64::from((end - at.max(other)).max(0))
        };
        let area = |bounds: &Rect| f64::from(bounds.width) * f64::from(bounds.height);
        Self {
            shared: side(first.x, first.width, second.x, second.width)
                * side(first.y, first.height, second.y, second.height),
            first: area(first),
            second: area(second),
        }
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
    // What is shared may have been sampled elsewhere than the whole.
    if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
}

/// Middles of the columns from `left` to `right`, with their width.
fn columns(left: i32, right: i32) -> impl Iterator<Item = (f64, f64)> {
    let count = (right - left).clamp(0, COLUMNS);
    let width = f64::from(right - left) / f64::from(count.max(1));
    (0..count).map(move |column| (f64::from(left) + (f64::from(column) + 0.5) * width, width))
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
    fn short_and_wide_polygons_are_measured() {
        let (wide, short) = (block(0, 0, 10_000_000, 20), block(4_999_998, 5, 3, 10));
        for _ in 0..1000 {
            let overlap = Overlap::of(&short, &wide);
            assert!((overlap.of_first() - 1.0).abs() < 1e-6, "{overlap:?}");
            assert!((overlap.second / 2e8 - 1.0).abs() < 1e-6, "{overlap:?}");
        }
    }

    #[test]
    fn polygons_share_no_more_than_their_rectangles() {
        let (one, other) = (block(0, 0, 10, 10), block(6, 5, 10, 10));
        let bounds = [&one, &other].map(|polygon| bounding_rect(polygon));
        let rectangles = Overlap::of_bounds(&bounds[0], &bounds[1]);
        assert!(
            Overlap::of(&one, &other).shared <= rectangles.shared,
            "{rectangles:?}"
        );
        let apart = bounding_rect(&block(30, 0, 5, 5));
        assert!(Overlap::of_bounds(&bounds[0], &apart).shared <= 0.0);
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
