//! Where the ink of a line image is: its columns say where words end more closely than the recogniser's frames do.

use std::ops::Range;

use image::RgbImage;

/// Share of the largest contrast from which a pixel is ink.
const CONTRAST: f32 = 0.35;
/// Share of the row with the most ink up to which a row has hardly any.
const FAINT: f64 = 0.03;
/// Share of the width from which the ink of a row is a rule.
const RULE: f64 = 0.7;
/// Pixels of a column that may be a speck.
const SPECK: u16 = 1;
/// Contrast below which a line image has no ink at all, in grey levels.
const LEAST_CONTRAST: f32 = 24.0;

/// The pixels that are far from the paper, row by row. The paper is the middle of all values, as print covers less than half of a line or
/// a table. `None` where there is no ink.
pub(crate) fn ink_mask(image: &RgbImage) -> Option<Vec<bool>> {
    let (pixels, _) = image.as_raw().as_chunks::<3>();
    let grey: Vec<u8> = pixels
        .iter()
        .map(|&[red, green, blue]| {
            ((u32::from(red) * 77 + u32::from(green) * 150 + u32::from(blue) * 29) >> 8) as u8
        })
        .collect();
    let mut counts = [0_usize; 256];
    for &value in &grey {
        counts[usize::from(value)] += 1;
    }
    let paper = quantile(&counts, grey.len() / 2);
    let far = |rank: usize| f32::from(quantile(&counts, rank).abs_diff(paper));
    // A hundredth of the pixels at either end may be specks.
    let specks = grey.len() / 100;
    let contrast = far(specks).max(far((grey.len() - specks).saturating_sub(1)));
    if contrast < LEAST_CONTRAST {
        return None;
    }
    let threshold = CONTRAST * contrast;
    let is_ink = |value: &u8| f32::from(value.abs_diff(paper)) > threshold;
    Some(grey.iter().map(is_ink).collect())
}

/// Pixels of ink in each column and in each row of a line image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ink {
    pub(crate) columns: Vec<u16>,
    pub(crate) rows: Vec<u32>,
}

impl Ink {
    /// Counts the pixels of ink.
    pub(crate) fn of(image: &RgbImage) -> Self {
        let width = image.width() as usize;
        let mut ink = Self {
            columns: vec![0; width],
            rows: vec![0; image.height() as usize],
        };
        let Some(mask) = ink_mask(image) else {
            return ink;
        };
        for (row, total) in mask.chunks_exact(width.max(1)).zip(&mut ink.rows) {
            *total = row.iter().filter(|is_ink| **is_ink).count() as u32;
        }
        // Above and below the line itself are its neighbours.
        let body = ink.body().unwrap_or_default();
        for row in mask.chunks_exact(width.max(1)).take(body.end).skip(body.start) {
            for (is_ink, count) in row.iter().zip(&mut ink.columns) {
                *count += u16::from(*is_ink);
            }
        }
        ink
    }

    /// Returns whether there is more in a column than a speck.
    fn is_inked(&self, column: usize) -> bool {
        self.columns[column] > SPECK
    }

    /// The place to which ink goes on from `start` without a gap of `gap` columns, to the right or to the left.
    pub(crate) fn reach(&self, start: usize, gap: usize, to_the_right: bool) -> Option<usize> {
        let end = self.columns.len();
        let start = start.min(end);
        let count = if to_the_right { end - start } else { start };
        let (mut last, mut free) = (None, 0);
        for step in 0..count {
            let column = if to_the_right {
                start + step
            } else {
                start - 1 - step
            };
            if self.is_inked(column) {
                (last, free) = (Some(column), 0);
            } else {
                free += 1;
                if free > gap {
                    break;
                }
            }
        }
        last
    }

    /// The rows of the line itself: the run of rows with the most ink in all. Rows with hardly any part it from its neighbours
    /// above and below, and so do rules, which cross nearly the whole image.
    pub(crate) fn body(&self) -> Option<Range<usize>> {
        let rule = self.columns.len() as f64 * RULE;
        let is_rule = |count: u32| f64::from(count) > rule;
        let most = self.rows.iter().copied().filter(|&count| !is_rule(count)).max()?;
        let in_line = |count: u32| !is_rule(count) && f64::from(count) > f64::from(most) * FAINT;
        let (mut best, mut best_ink) = (None, 0);
        let mut start = 0;
        for run in self.rows.chunk_by(|&one, &other| in_line(one) == in_line(other)) {
            let ink: u32 = run.iter().sum();
            if in_line(run[0]) && ink > best_ink {
                (best, best_ink) = (Some(start..start + run.len()), ink);
            }
            start += run.len();
        }
        best
    }

    /// The longest run of columns without ink between two places.
    pub(crate) fn widest_gap(&self, between: Range<usize>) -> Option<Range<usize>> {
        let mut widest: Option<Range<usize>> = None;
        let mut start = None;
        let end = between.end.min(self.columns.len());
        for column in between.start..=end {
            let free = column < end && !self.is_inked(column);
            match (free, start) {
                (true, None) => start = Some(column),
                (false, Some(first)) => {
                    if widest.as_ref().is_none_or(|widest| column - first > widest.len()) {
                        widest = Some(first..column);
                    }
                    start = None;
                }
                _ => {}
            }
        }
        widest
    }

    /// The column with the least ink between two places.
    pub(crate) fn thinnest(&self, between: Range<usize>) -> Option<usize> {
        between
            .filter(|&column| column < self.columns.len())
            .min_by_key(|&column| self.columns[column])
    }
}

/// The value below which `rank` of the counted ones are.
fn quantile(counts: &[usize; 256], rank: usize) -> u8 {
    let mut seen = 0;
    for (value, count) in counts.iter().enumerate() {
        seen += count;
        if seen > rank {
            return value as u8;
        }
    }
    u8::MAX
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    fn image(inked: &[Range<u32>], ink: u8, paper: u8) -> RgbImage {
        RgbImage::from_fn(100, 48, |x, y| {
            let is_ink = (10..30).contains(&y) && inked.iter().any(|range| range.contains(&x));
            Rgb([if is_ink { ink } else { paper }; 3])
        })
    }

    #[test]
    fn a_rule_above_a_line_is_none_of_its_rows() {
        let page = RgbImage::from_fn(100, 48, |x, y| {
            let letters = (15..35).contains(&y) && (20..60).contains(&x) && x % 4 < 2;
            Rgb([if letters || y == 5 { 0 } else { 255 }; 3])
        });
        assert_eq!(Ink::of(&page).body(), Some(15..35));
    }

    #[test]
    fn ink_is_what_is_far_from_the_paper_whichever_is_darker() {
        for (ink, paper) in [(0, 255), (255, 0), (90, 160)] {
            let found = Ink::of(&image(&[10..20, 40..50], ink, paper));
            assert_eq!(found.reach(45, 3, true), Some(49));
            assert_eq!(found.reach(45, 3, false), Some(40));
            assert_eq!(found.reach(45, 30, false), Some(10));
            assert_eq!(found.widest_gap(15..45), Some(20..40));
            assert_eq!(found.body(), Some(10..30));
        }
        assert_eq!(
            Ink::of(&image(std::slice::from_ref(&(10..20)), 120, 130)).reach(0, 100, true),
            None
        );
        assert_eq!(Ink::of(&RgbImage::new(0, 0)).columns, Vec::<u16>::new());
    }
}
