//! Reading order of the lines that were found on a page, which may lie askew in its picture.

use parkhang_cv::reading_order::{Bounds, reading_order};

use crate::quad::Quad;

/// Ratio of width to height from which the direction of a box is that of its line.
const LONG: f32 = 3.0;
/// Steepest slope of a page that is askew; a steeper line stands by itself.
const STEEPEST: f32 = 0.25;

/// Line with its words on a page.
#[derive(Debug)]
pub(crate) struct PlacedLine {
    /// Box of the detector.
    pub(crate) quad: Quad,
    pub(crate) words: Vec<Quad>,
}

/// The places of lines in reading order. A line is as large as its words: boxes of the detector are wider, and close gaps.
pub(crate) fn order_of_lines(lines: &[PlacedLine]) -> Vec<usize> {
    let slope = skew(lines);
    let level = |(x, y)| (x + slope * y, y - slope * x);
    let around = |line: &PlacedLine| -> Bounds {
        let words = line.words.iter().map(|word| word.map(level).bounds());
        words
            .reduce(|one, other| {
                [
                    one[0].min(other[0]),
                    one[1].min(other[1]),
                    one[2].max(other[2]),
                    one[3].max(other[3]),
                ]
            })
            .unwrap_or_else(|| line.quad.map(level).bounds())
    };
    let bounds: Vec<Bounds> = lines.iter().map(around).collect();
    reading_order(&bounds)
}

/// Slope of the lines of a page, downwards to the right: that of which as much of their length has a greater one as a lesser one.
fn skew(lines: &[PlacedLine]) -> f32 {
    let mut slopes: Vec<(f32, f32)> = lines
        .iter()
        .filter(|line| line.quad.width() > LONG * line.quad.height())
        .filter_map(|line| Some((slope(&line.quad)?, line.quad.width())))
        .collect();
    slopes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = slopes.iter().map(|(_, length)| length).sum::<f32>() / 2.0;
    let mut length = 0.0;
    let at_half = slopes.iter().find(|(_, of_line)| {
        length += of_line;
        length >= half
    });
    at_half.map_or(0.0, |(slope, _)| *slope)
}

fn slope(quad: &Quad) -> Option<f32> {
    let [from, to, ..] = quad.0;
    let slope = (to.1 - from.1) / (to.0 - from.0);
    (to.0 > from.0 && slope.abs() <= STEEPEST).then_some(slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line of two words from a place to the right, on a page whose lines fall by `slope`.
    fn line(x: f32, y: f32, width: f32, slope: f32) -> PlacedLine {
        let on_page = |(x, y)| (x - slope * y, y + slope * x);
        let word = |from: f32, to: f32| Quad::upright(from, y, to, y + 10.0).map(on_page);
        PlacedLine {
            words: vec![word(x, x + 0.4 * width), word(x + 0.5 * width, x + width)],
            quad: Quad::upright(x - 5.0, y - 3.0, x + width + 5.0, y + 13.0).map(on_page),
        }
    }

    #[test]
    fn a_page_askew_is_read_line_by_line() {
        for slope in [-0.1, -0.03, 0.0, 0.03, 0.1] {
            let mut lines: Vec<PlacedLine> = (0..8)
                .map(|row| line(0.0, row as f32 * 13.0, 480.0, slope))
                .collect();
            lines[1] = line(0.0, 13.0, 40.0, slope);
            let expected: Vec<usize> = (0..8).collect();
            assert_eq!(order_of_lines(&lines), expected, "{slope}");
        }
    }

    #[test]
    fn narrow_gaps_between_columns_are_seen() {
        let lines: Vec<PlacedLine> = (0..20)
            .map(|row| line((row % 2) as f32 * 240.0, (row / 2) as f32 * 12.0, 228.0, 0.01))
            .collect();
        let expected: Vec<usize> = (0..20).step_by(2).chain((1..20).step_by(2)).collect();
        assert_eq!(order_of_lines(&lines), expected);
    }
}
