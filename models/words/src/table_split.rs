//! Tables that stand closely below each other, which the detector takes for one. Where one ends and the next one begins there are two
//! rules over the whole width with nothing but paper between them, further apart than the two lines of a double rule.

use std::ops::Range;

use image::RgbImage;

use crate::ink::ink_mask;

/// Share of the width up to which the ink of a row is specks.
const SPECKS: f32 = 0.004;
/// Share of the width that a rule covers.
const RULE: f32 = 0.85;
/// Least height of the paper between two tables, in heights of their rows of text.
const APART: f32 = 0.5;
/// Rows of text that a table has at least.
const LEAST_ROWS: usize = 2;
/// Rules of a table that does not have one below each of its rows.
const FEW_RULES: usize = 4;

/// A run of rows of a picture with ink.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    rows: Range<usize>,
    is_rule: bool,
}

impl Run {
    fn height(&self) -> usize {
        self.rows.len()
    }
}

/// The places in the picture of a table, which is upright, at which one table ends and the next one begins, from the top down.
pub(crate) fn splits(table: &RgbImage) -> Vec<u32> {
    let Some(mask) = ink_mask(table) else {
        return Vec::new();
    };
    let runs = runs(&mask, table.width() as usize);
    let mut heights: Vec<usize> = runs.iter().filter(|run| !run.is_rule).map(Run::height).collect();
    heights.sort_unstable();
    let Some(&letters) = heights.get(heights.len() / 2) else {
        return Vec::new();
    };
    let least = APART * letters as f32;
    let gap = |place: usize| runs[place].rows.start - runs[place - 1].rows.end;
    let is_apart =
        |place: &usize| runs[place - 1].is_rule && runs[*place].is_rule && gap(*place) as f32 >= least;
    let mut ends: Vec<usize> = vec![0];
    ends.extend((1..runs.len()).filter(is_apart));
    ends.push(runs.len());
    let is_end = |ends: &&[usize]| is_table(&runs[ends[0]..ends[1]]) && is_table(&runs[ends[1]..ends[2]]);
    let split = |ends: &[usize]| (runs[ends[1] - 1].rows.end + gap(ends[1]) / 2) as u32;
    ends.windows(3).filter(is_end).map(split).collect()
}

/// True for runs that may be a table by themselves. In one with a rule below each row the paper between two rules is an empty row.
fn is_table(runs: &[Run]) -> bool {
    let rules = runs.iter().filter(|run| run.is_rule).count();
    let rows = runs.len() - rules;
    rows >= LEAST_ROWS && (rules <= FEW_RULES || 2 * rules <= rows)
}

/// The runs of rows with ink, from the top down. A rule may lie a little askew, so that it is one by the columns that its rows cover together.
fn runs(mask: &[bool], width: usize) -> Vec<Run> {
    let specks = (SPECKS * width as f32).ceil() as usize;
    let rows: Vec<&[bool]> = mask.chunks_exact(width.max(1)).collect();
    let is_inked = |row: &&[bool]| row.iter().filter(|is_ink| **is_ink).count() > specks;
    let mut found: Vec<Range<usize>> = Vec::new();
    for (place, _) in rows.iter().enumerate().filter(|(_, row)| is_inked(row)) {
        match found.last_mut() {
            Some(last) if last.end == place => last.end += 1,
            _ => found.push(place..place + 1),
        }
    }
    let columns = |rows: &[&[bool]]| -> Vec<bool> {
        let mut covered = vec![false; width];
        for row in rows {
            for (covered, is_ink) in covered.iter_mut().zip(*row) {
                *covered |= is_ink;
            }
        }
        covered
    };
    let of_all = columns(&rows);
    let first = of_all.iter().position(|is_ink| *is_ink).unwrap_or(0);
    let last = of_all.iter().rposition(|is_ink| *is_ink).unwrap_or(0);
    let extent = (last + 1).saturating_sub(first) as f32;
    let tallest = found.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let run = |range: Range<usize>| {
        let covered = columns(&rows[range.clone()]);
        let share = covered.iter().filter(|is_ink| **is_ink).count() as f32 / extent.max(1.0);
        // Rows of text that cover the width are higher than a rule.
        let is_thin = 2 * range.len() <= tallest;
        Run {
            is_rule: is_thin && share >= RULE,
            rows: range,
        }
    };
    found.into_iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    const WIDTH: u32 = 600;

    /// What is drawn from the top down.
    #[derive(Clone, Copy)]
    enum Part {
        /// A row of three words.
        Row,
        Rule,
        /// So many rows of paper.
        Paper(u32),
    }
    use Part::{Paper, Row, Rule};

    /// Height of letters.
    const LETTERS: u32 = 16;

    fn picture(parts: &[Part], slope: f32) -> RgbImage {
        let height = |part: &Part| match part {
            Row => LETTERS,
            Rule => 2,
            Paper(height) => *height,
        };
        let all: u32 = parts.iter().map(height).sum();
        let mut image = RgbImage::from_pixel(WIDTH, all + 40, Rgb([250; 3]));
        let mut top = 20;
        for part in parts {
            for x in 10..WIDTH - 10 {
                let is_inked = match part {
                    Row => x % 200 < 90,
                    Rule => true,
                    Paper(_) => false,
                };
                let shift = (slope * x as f32) as u32;
                for y in (0..height(part)).filter(|_| is_inked) {
                    image.put_pixel(x, top + y + shift, Rgb([10; 3]));
                }
            }
            top += height(part);
        }
        image
    }

    /// A table with a rule above, below its head, and at its end.
    fn table(rows: usize) -> Vec<Part> {
        let mut parts = vec![Rule, Paper(6), Row, Paper(6), Rule];
        for _ in 0..rows {
            parts.extend([Paper(8), Row]);
        }
        parts.extend([Paper(6), Rule]);
        parts
    }

    #[test]
    fn two_tables_below_each_other_are_two() {
        let two = [table(4), vec![Paper(16)], table(3)].concat();
        let first: u32 = 20 + 2 + 6 + 16 + 6 + 2 + 4 * 24 + 6 + 2;
        assert_eq!(splits(&picture(&two, 0.0)), [first + 8]);
        assert_eq!(splits(&picture(&two, 0.008)).len(), 1, "askew");
        let three = [two, vec![Paper(30)], table(2)].concat();
        assert_eq!(splits(&picture(&three, 0.0)).len(), 2);
    }

    #[test]
    fn one_table_stays_one() {
        let double = [table(4), vec![Paper(3), Rule]].concat();
        let with_total = [table(4), vec![Paper(6), Row, Paper(6), Rule, Paper(3), Rule]].concat();
        let ruled: Vec<Part> = (0..8)
            .flat_map(|row| match row {
                4 => vec![Rule, Paper(28)],
                _ => vec![Rule, Paper(6), Row, Paper(6)],
            })
            .chain([Rule])
            .collect();
        let rows = [Row, Paper(30), Row, Paper(8), Row, Paper(8), Row].to_vec();
        for parts in [table(6), double, with_total, ruled, rows] {
            assert_eq!(splits(&picture(&parts, 0.0)), [0_u32; 0]);
        }
        assert!(splits(&RgbImage::new(0, 0)).is_empty());
        assert!(splits(&RgbImage::from_pixel(50, 50, Rgb([255; 3]))).is_empty());
    }
}
