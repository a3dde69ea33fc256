//! Matching of lines: pairs of detected and true outlines whose intersection over union is at least one half.

use parkhang_models::page::geometry::Point;
use parkhang_models::page::polygon::Overlap;
use serde::Serialize;

const MIN_IOU: f64 = 0.5;

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
            let overlap = Overlap::of(expected, outline).of_union();
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
