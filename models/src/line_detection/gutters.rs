//! Gaps between columns that stand so close that the network, which marks a line over gaps within it, goes on from one to the other.
//!
//! Most lines of such a page end at the gap all the same: by them it is found. A line that is marked across is parted where it has no ink at
//! the gap, and is left alone where it has: headings run over both columns.

use std::cell::LazyCell;
use std::ops::Range;

use image::{GrayImage, Luma};

use super::mask::{direction, ink_of_columns, line_contours, thickness};
use super::skew::page_skew;
use super::{DetectionConfig, REACH_ABOVE, REACH_BELOW};
use crate::page::geometry::{Contour, Point, Rect, bounding_rect};
use crate::page::polygon::shape_of;
use crate::page::reading_order::{Bounds, ColumnRules, Gutter, gutters};

/// Least gap in a line at a gap between columns, in heights of a line: it may reach beyond the others.
const LEAST_GAP: f32 = 0.35;
/// Least number of ink pixels in a column of a line; fewer are specks.
const LEAST_INK: u32 = 2;
/// Largest number of gaps that one line is parted at.
const MOST_GUTTERS: usize = 4;

/// Takes what lies in gaps between columns off a mask of lines, and returns their contours after that. `binarised` is the page with its
/// ink black, which is made where there may be columns.
pub(super) fn part_columns(
    mask: &mut GrayImage,
    mut contours: Vec<Contour>,
    binarised: &LazyCell<GrayImage, impl FnOnce() -> GrayImage>,
    config: &DetectionConfig,
) -> Vec<Contour> {
    if !may_have_columns(&contours) {
        return contours;
    }
    let directions: Vec<_> = contours.iter().map(direction).collect();
    let slope = f64::from(page_skew(&directions, config)).to_radians().tan() as f32;
    for _ in 0..MOST_GUTTERS {
        let lines = contours
            .iter()
            .filter_map(|contour| InkedLine::new(contour, binarised, slope));
        let lines: Vec<InkedLine> = lines.collect();
        let bounds: Vec<Bounds> = lines.iter().map(|line| line.bounds).collect();
        let mut is_parted = false;
        for (gutter, beside) in gutters(&bounds, &ColumnRules::LINES) {
            for line in beside.into_iter().map(|place| &lines[place]) {
                is_parted |= line.part_at(gutter, mask);
            }
        }
        if !is_parted {
            break;
        }
        contours = line_contours(mask, config);
    }
    contours
}

/// Returns whether enough lines end where others begin.
fn may_have_columns(contours: &[Contour]) -> bool {
    // A band that goes on beyond the ink would hide the gap.
    let inner = contours.iter().map(|contour| {
        let Rect { x, width, height, .. } = bounding_rect(contour);
        [x + height, x + width - height]
    });
    let (mut starts, mut ends): (Vec<i32>, Vec<i32>) = inner.map(|[start, end]| (start, end)).unzip();
    starts.sort_unstable_by(|one, other| other.cmp(one));
    ends.sort_unstable();
    let last = ColumnRules::LINES.least_lines - 1;
    starts
        .get(last)
        .zip(ends.get(last))
        .is_some_and(|(start, end)| end <= start)
}

/// Line with its ink.
struct InkedLine {
    /// Pixels that are marked of the line, on the mask from this corner on.
    shape: GrayImage,
    corner: Point,
    /// Columns of the line with ink in what is marked of it.
    has_ink: Vec<bool>,
    /// Bounds of its letters, from the first ink to the last, as if the page stood upright.
    bounds: Bounds,
    /// Distance by which these lie further to the right than on the page.
    shift: f32,
}

impl InkedLine {
    /// A line of a page whose lines fall by `slope` along their way; `None` where it has no ink.
    fn new(contour: &[Point], page: &GrayImage, slope: f32) -> Option<Self> {
        let (shape, bounds) = shape_of(contour);
        let counts = ink_of_columns(&shape, bounds, page);
        let Rect { x, y, height, .. } = bounds;
        let has_ink: Vec<bool> = counts.into_iter().map(|count| count >= LEAST_INK).collect();
        let first = has_ink.iter().position(|has| *has)?;
        let last = has_ink.iter().rposition(|has| *has)?;
        let thickness = thickness(contour, &bounds) as f32;
        let middle = y as f32 + height as f32 / 2.0;
        let shift = slope * (middle - page.height() as f32 / 2.0);
        Some(Self {
            bounds: [
                x as f32 + first as f32 + shift,
                y as f32 - REACH_ABOVE as f32 * thickness,
                x as f32 + last as f32 + 1.0 + shift,
                (y + height) as f32 + REACH_BELOW as f32 * thickness,
            ],
            shape,
            corner: Point::new(x, y),
            has_ink,
            shift,
        })
    }

    /// Takes off the mask what is marked of the line in a gap, if it has no ink there; returns whether there is something.
    fn part_at(&self, gutter: Gutter, mask: &mut GrayImage) -> bool {
        let middle = (gutter.middle() - self.shift).round() as i32 - self.corner.x;
        let Some(without_ink) = usize::try_from(middle)
            .ok()
            .and_then(|middle| self.gap_at(middle))
        else {
            return false;
        };
        let is_end = without_ink.start == 0 || without_ink.end == self.has_ink.len();
        if !is_end && (without_ink.len() as f32) < LEAST_GAP * gutter.line {
            return false;
        }
        for (column, row, pixel) in self.shape.enumerate_pixels() {
            if pixel.0[0] != 0 && without_ink.contains(&(column as usize)) {
                let [x, y] = [self.corner.x, self.corner.y].map(i32::unsigned_abs);
                mask.put_pixel(column + x, row + y, Luma([0]));
            }
        }
        true
    }

    /// The columns without ink about one of them; `None` where there is ink, or no line.
    fn gap_at(&self, middle: usize) -> Option<Range<usize>> {
        if *self.has_ink.get(middle)? {
            return None;
        }
        let start = self.has_ink[..middle]
            .iter()
            .rposition(|has| *has)
            .map_or(0, |last| last + 1);
        let after = self.has_ink[middle..].iter().position(|has| *has);
        Some(start..after.map_or(self.has_ink.len(), |after| middle + after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PITCH: u32 = 40;
    const THICK: u32 = 16;
    /// Columns of text, and the gap between them.
    const LEFT: Range<u32> = 100..460;
    const RIGHT: Range<u32> = 500..860;
    const HEADING: Range<u32> = 150..800;

    /// A page whose lines fall by a slope.
    struct Page {
        mask: GrayImage,
        binarised: GrayImage,
        slope: f32,
    }

    impl Page {
        fn new(slope: f32) -> Self {
            Self {
                mask: GrayImage::new(960, 640),
                binarised: GrayImage::from_pixel(960, 640, Luma([u8::MAX])),
                slope,
            }
        }

        /// Sets a line that is marked in some columns, with text in some.
        fn line(&mut self, row: u32, marked: Range<u32>, text: &[Range<u32>]) {
            let [middle, center] = [self.mask.width(), self.mask.height()].map(|side| side as f32 / 2.0);
            let mut fill = |columns: Range<u32>, image: fn(&mut Self) -> &mut GrayImage, value| {
                for (x, y) in columns.flat_map(|x| (0..THICK).map(move |y| (x, 60 + row * PITCH + y))) {
                    // Turned about the middle of the page.
                    let across = x as f32 - self.slope * (y as f32 - center);
                    let down = y as f32 + self.slope * (x as f32 - middle);
                    image(self).put_pixel(across.round() as u32, down.round() as u32, Luma([value]));
                }
            };
            fill(marked, |page| &mut page.mask, u8::MAX);
            for columns in text {
                fill(columns.clone(), |page| &mut page.binarised, 0);
            }
        }

        /// Left and right ends of what is marked once columns are parted, from the bottom up.
        fn ends(mut self) -> Vec<(i32, i32)> {
            let config = DetectionConfig::default();
            let contours = line_contours(&self.mask, &config);
            let contours = part_columns(
                &mut self.mask,
                contours,
                &LazyCell::new(|| self.binarised),
                &config,
            );
            let bounds = contours.iter().map(|line| bounding_rect(line));
            bounds.map(|line| (line.x, line.x + line.width)).collect()
        }
    }

    /// Ten rows of two columns, of which three are marked as one line, one has a tail, and the first is a heading over both.
    fn two_columns(slope: f32) -> Page {
        let mut page = Page::new(slope);
        page.line(0, 100..860, &[HEADING]);
        for row in 1..10 {
            match row {
                3 | 6 | 8 => page.line(row, 100..860, &[LEFT, RIGHT]),
                5 => {
                    page.line(row, 100..490, &[LEFT]);
                    page.line(row, RIGHT, &[RIGHT]);
                }
                _ => {
                    page.line(row, LEFT, &[LEFT]);
                    page.line(row, RIGHT, &[RIGHT]);
                }
            }
        }
        page
    }

    #[test]
    fn lines_of_two_columns_are_parted_where_they_have_no_ink() {
        let mut ends = two_columns(0.0).ends();
        assert_eq!(ends.pop(), Some((100, 860)), "a heading");
        ends.sort_unstable();
        assert_eq!(ends, [[(100, 460); 9], [(500, 860); 9]].concat());
    }

    #[test]
    fn lines_that_fall_or_rise_are_parted_along_the_gap() {
        for slope in [-0.04, 0.04] {
            assert_eq!(two_columns(slope).ends().len(), 19, "{slope}");
        }
    }

    #[test]
    fn one_column_is_left_as_it_is() {
        // Three lines have the hole of a leaf's string in them, and all have spaces.
        let mut page = Page::new(0.0);
        for row in 0..10 {
            let hole = if (4..7).contains(&row) {
                440..520
            } else {
                300 + row * 20..340 + row * 20
            };
            page.line(row, 100..860, &[100..hole.start, hole.end..860]);
        }
        assert_eq!(page.ends(), [(100, 860); 10]);
    }
}
