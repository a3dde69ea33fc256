//! Matching of lines: pairs of detected and true outlines whose intersection over union is at least one half.

use parkhang_models::page::geometry::{Point, bounding_rect};
use serde::Serialize;

const MIN_IOU: f64 = 0.5;
/// Resolution of area measurements: the narrower of two lines is sampled at about eight times this many columns.
const CELLS: i32 = 24;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LineCount {
    pub truth: usize,
    pub found: usize,
    pub matched: usize,
}

impl LineCount {
    pub fn recall(&self) -> f64 {
        if self.truth == 0 {
            1.0
        } else {
            self.matched as f64 / self.truth as f64
        }
    }

    pub fn precision(&self) -> f64 {
        if self.found == 0 {
            1.0
        } else {
            self.matched as f64 / self.found as f64
        }
    }
}

impl std::ops::AddAssign for LineCount {
    fn add_assign(&mut self, other: Self) {
        self.truth += other.truth;
        self.found += other.found;
        self.matched += other.matched;
    }
}

/// Matches outlines greedily, best overlap first; each is used once.
pub fn match_lines(truth: &[Vec<Point>], found: &[Vec<Point>]) -> LineCount {
    let mut overlaps: Vec<(f64, usize, usize)> = Vec::new();
    for (t, expected) in truth.iter().enumerate() {
        for (f, outline) in found.iter().enumerate() {
            let overlap = intersection_over_union(expected, outline);
            if overlap >= MIN_IOU {
                overlaps.push((overlap, t, f));
            }
        }
    }
    // With a threshold of a half two outlines can seldom compete for one, so the greedy order loses next to nothing to an optimal one.
    overlaps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut used_truth, mut used_found) = (vec![false; truth.len()], vec![false; found.len()]);
    let mut matched = 0;
    for (_, t, f) in overlaps {
        if !used_truth[t] && !used_found[f] {
            (used_truth[t], used_found[f]) = (true, true);
            matched += 1;
        }
    }
    LineCount {
        truth: truth.len(),
        found: found.len(),
        matched,
    }
}

/// Computes the intersection over union of two polygons by sampling columns; 0 if either is empty or they do not touch.
pub fn intersection_over_union(a: &[Point], b: &[Point]) -> f64 {
    // Fewer corners have no area, and a bounding box of none does not exist.
    if a.len() < 3 || b.len() < 3 {
        return 0.0;
    }
    let (first, second) = (bounding_rect(a), bounding_rect(b));
    let left = first.x.min(second.x);
    let right = (first.x + first.width).max(second.x + second.width);
    let apart = first.x + first.width <= second.x
        || second.x + second.width <= first.x
        || first.y + first.height <= second.y
        || second.y + second.height <= first.y;
    if apart {
        return 0.0;
    }
    // By the narrower of the two: a short line beside a long one would otherwise fall between the samples.
    let step = (first.width.min(second.width) / (CELLS * 8)).max(1);
    let (mut shared, mut total) = (0.0, 0.0);
    let mut x = left;
    while x < right {
        let column = f64::from(x) + f64::from(step) / 2.0;
        let (one, other) = (crossings(a, column), crossings(b, column));
        let both = overlap(&one, &other);
        shared += both;
        total += length(&one) + length(&other) - both;
        x += step;
    }
    if total > 0.0 { shared / total } else { 0.0 }
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
            ys.push(f64::from(from.y) + (x - x0) / (x1 - x0) * f64::from(to.y - from.y));
        }
    }
    // Sorted, so that each pair is an entry and the exit behind it, also for concave outlines.
    ys.sort_by(f64::total_cmp);
    ys
}

fn length(spans: &[f64]) -> f64 {
    spans.chunks_exact(2).map(|span| span[1] - span[0]).sum()
}

fn overlap(a: &[f64], b: &[f64]) -> f64 {
    a.chunks_exact(2)
        .flat_map(|one| b.chunks_exact(2).map(move |other| (one, other)))
        .map(|(one, other)| (one[1].min(other[1]) - one[0].max(other[0])).max(0.0))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(x: i32, y: i32, width: i32, height: i32) -> Vec<Point> {
        vec![
            Point::new(x, y),
            Point::new(x + width, y),
            Point::new(x + width, y + height),
            Point::new(x, y + height),
        ]
    }

    #[test]
    fn overlap_of_blocks() {
        let iou = |a: &[Point], b: &[Point]| (intersection_over_union(a, b) * 100.0).round() / 100.0;
        assert_eq!(iou(&block(0, 0, 100, 20), &block(0, 0, 100, 20)), 1.0);
        assert_eq!(iou(&block(0, 0, 100, 20), &block(0, 10, 100, 20)), 0.33);
        assert_eq!(iou(&block(0, 0, 100, 20), &block(0, 30, 100, 20)), 0.0);
        assert_eq!(iou(&block(0, 0, 100, 20), &block(50, 0, 50, 20)), 0.5);
    }

    #[test]
    fn each_line_is_matched_once() {
        let truth = [block(0, 0, 400, 30), block(0, 40, 400, 30)];
        let found = [block(2, 1, 396, 30), block(0, 2, 400, 28), block(0, 200, 400, 30)];
        let count = match_lines(&truth, &found);
        assert_eq!(
            count,
            LineCount {
                truth: 2,
                found: 3,
                matched: 1
            }
        );
        assert_eq!((count.recall(), count.precision()), (0.5, 1.0 / 3.0));
    }
}
