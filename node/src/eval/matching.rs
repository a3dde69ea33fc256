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

/// Matches the outlines of the running text, `truth`, with those found. Of the others that were found, those that are marginal lines
/// do not count.
pub fn match_lines(truth: &[Vec<Point>], marginal: &[Vec<Point>], found: &[Vec<Point>]) -> LineCount {
    let of_text = matches(truth, found);
    let others = found.iter().zip(&of_text).filter(|(_, of_text)| !**of_text);
    let others: Vec<&Vec<Point>> = others.map(|(outline, _)| outline).collect();
    let not_counted = matches(marginal, &others).into_iter().filter(|matched| *matched);
    LineCount {
        truth: truth.len(),
        found: found.len() - not_counted.count(),
        matched: of_text.into_iter().filter(|matched| *matched).count(),
    }
}

/// Matches outlines greedily, best overlap first; each is used once. Returns which of those found have a match.
fn matches(truth: &[Vec<Point>], found: &[impl AsRef<[Point]>]) -> Vec<bool> {
    let mut overlaps: Vec<(f64, usize, usize)> = Vec::new();
    for (t, expected) in truth.iter().enumerate() {
        for (f, outline) in found.iter().enumerate() {
            let overlap = Overlap::of(expected, outline.as_ref()).of_union();
            if overlap >= MIN_IOU {
                overlaps.push((overlap, t, f));
            }
        }
    }
    // With a threshold of a half two outlines can seldom compete for one, so the greedy order loses next to nothing to an optimal one.
    overlaps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut used_truth, mut used_found) = (vec![false; truth.len()], vec![false; found.len()]);
    for (_, t, f) in overlaps {
        if !used_truth[t] && !used_found[f] {
            (used_truth[t], used_found[f]) = (true, true);
        }
    }
    used_found
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
        let count = match_lines(&truth, &[], &found);
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

    #[test]
    fn marginal_lines_may_be_found_or_not() {
        let truth = [block(0, 0, 400, 30)];
        let marginal = [block(450, 0, 30, 30), block(0, 100, 30, 200)];
        let text = block(0, 1, 400, 30);
        let count = |found: &[Vec<Point>]| match_lines(&truth, &marginal, found);
        let right = LineCount {
            truth: 1,
            found: 1,
            matched: 1,
        };
        assert_eq!(count(std::slice::from_ref(&text)), right);
        assert_eq!(count(&[block(450, 0, 30, 29), text.clone()]), right);
        let wrong = count(&[text, block(450, 0, 30, 29), block(450, 200, 30, 30)]);
        assert_eq!(wrong, LineCount { found: 2, ..right });
    }
}
