//! Short lines: page numbers, running heads, the last syllable of a paragraph.
//!
//! Upstream drops what is smaller than a thousandth of the page, and so do specks have to be. But a page of many lines has words that are
//! smaller. They are told from specks by the lines of the page, whose height they have. The network is surest of the middle of a line, and
//! of a short one little more is left than that; so it is taken as far as the network is in doubt, lest a digit of two be cut off.

use std::cell::LazyCell;
use std::ops::{Range, RangeInclusive};

use image::{GrayImage, Luma};

use super::DetectionConfig;
use super::mask::{ink_of_columns, is_large_enough, thickness};
use crate::median::median;
use crate::page::contours::find_contours;
use crate::page::geometry::{Contour, Point, Rect, bounding_rect, contour_area};
use crate::page::polygon::{extent_at, fill_polygon, shape_of};

/// Least number of lines that have a usual height.
const LEAST_LINES: usize = 3;
/// Heights of a short line, in usual heights: what is written with fewer signs above and below is lower, and a single letter may be higher
/// than the mean along a line.
const HEIGHTS: RangeInclusive<f64> = 0.85..=1.5;
/// Least area of a short line, in squares of the usual height.
const LEAST_AREA: f64 = 0.35;
/// Least distance from a line above or below, in usual heights: notes between lines are nearer.
const LEAST_GAP: f64 = 1.1;
/// Least area of what the network is sure of within a short line, in squares of the usual height.
const LEAST_SURE: f64 = 0.15;
/// Largest area of what is taken to a short line, in squares of the usual height: that of five letters. A word that long is large enough without.
const MOST_AREA: f64 = 4.0;

/// Least share of ink in a short line, in that of the others.
const LEAST_INK: f64 = 0.5;

/// Least probability of a pixel of a short line.
pub(super) const LEAST_PROBABILITY: f32 = 0.4;

/// A line that is one for its size alone.
#[derive(Debug, Clone, PartialEq)]
struct LongLine {
    contour: Contour,
    bounds: Rect,
}

/// The lines of a page that are lines for their size alone, in pixels of its frame.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LongLines {
    lines: Vec<LongLine>,
    /// Median of their mean heights.
    usual: f64,
    /// Columns between which they lie.
    columns: Range<i32>,
}

impl LongLines {
    /// The lines with these contours; `None` for fewer than [`LEAST_LINES`], which have no usual height.
    pub(super) fn new<'c>(lines: impl IntoIterator<Item = &'c Contour>) -> Option<Self> {
        let lines: Vec<LongLine> = lines
            .into_iter()
            .map(|contour| LongLine {
                contour: contour.clone(),
                bounds: bounding_rect(contour),
            })
            .collect();
        if lines.len() < LEAST_LINES {
            return None;
        }
        let left = lines.iter().map(|line| line.bounds.x).min()?;
        let right = lines.iter().map(|line| right_of(&line.bounds)).max()?;
        Some(Self {
            usual: median(lines.iter().map(LongLine::height))?,
            columns: left..right,
            lines,
        })
    }

    /// Returns whether a contour is a line beside these, however small it is for the page.
    pub(super) fn have_short_line(&self, contour: &[Point]) -> bool {
        self.have(&bounding_rect(contour), contour_area(contour))
    }

    /// Returns whether what has these bounds and this area is as high as these lines, within their columns, and not squeezed in between two,
    /// as notes are.
    fn have(&self, bounds: &Rect, area: f64) -> bool {
        HEIGHTS.contains(&(f64::from(bounds.height) / self.usual))
            && area >= LEAST_AREA * self.square()
            && self.columns.contains(&(bounds.x + bounds.width / 2))
            && !self
                .lines
                .iter()
                .any(|line| line.is_close(bounds, LEAST_GAP * self.usual))
    }

    /// Returns whether this may become a short line if more is added.
    fn can_grow(&self, height: i32, pixels: usize) -> bool {
        f64::from(height) <= HEIGHTS.end() * self.usual && pixels as f64 <= MOST_AREA * self.square()
    }

    fn have_core(&self, contour: &[Point]) -> bool {
        contour_area(contour) >= LEAST_SURE * self.square()
    }

    fn square(&self) -> f64 {
        self.usual * self.usual
    }
}

impl LongLine {
    /// Mean height along the line: a slope or a bend makes it no higher.
    fn height(&self) -> f64 {
        thickness(&self.contour, &self.bounds)
    }

    /// Returns whether something is above or below this line, or on it, and nearer than `gap`. Where the line slopes or bends, what counts is the part of
    /// it that is in the same columns.
    fn is_close(&self, bounds: &Rect, gap: f64) -> bool {
        let (left, right) = (
            bounds.x.max(self.bounds.x),
            right_of(bounds).min(right_of(&self.bounds)) - 1,
        );
        if left > right {
            return false;
        }
        let (top, bottom) = (f64::from(bounds.y), f64::from(bounds.y + bounds.height));
        [left, i32::midpoint(left, right), right].into_iter().any(|x| {
            extent_at(&self.contour, f64::from(x))
                .is_some_and(|(first, last)| (top - last - 1.0).max(first - bottom) < gap)
        })
    }
}

fn right_of(bounds: &Rect) -> i32 {
    bounds.x + bounds.width
}

/// Adds to a mask of lines what its short ones lack: `doubtful` has all that may be of a line.
pub(super) fn complete_short_lines(mask: &mut GrayImage, doubtful: &GrayImage, config: &DetectionConfig) {
    let contours = find_contours(mask);
    let (long, short): (Vec<_>, Vec<_>) = contours
        .iter()
        .partition(|contour| is_large_enough(contour, mask.dimensions(), config));
    let Some(lines) = LongLines::new(long) else {
        return;
    };
    let mut fill = Fill::new(doubtful, &lines);
    for core in short {
        if lines.have_core(core)
            && let Some(start) = core.first()
            && let Some(pixels) = fill.from(*start)
        {
            for Point { x, y } in pixels {
                mask.put_pixel(x as u32, y as u32, Luma([u8::MAX]));
            }
        }
    }
}

/// Takes short lines off a mask that have far less ink than the other lines: the network goes on with a line where there is none left.
/// `binarised` is the page with its ink black, which is made where there are short lines.
pub(super) fn without_blanks(
    mask: &mut GrayImage,
    contours: Vec<Contour>,
    binarised: &LazyCell<GrayImage, impl FnOnce() -> GrayImage>,
    config: &DetectionConfig,
) -> Vec<Contour> {
    let size = mask.dimensions();
    let is_long = |contour: &Contour| is_large_enough(contour, size, config);
    if contours.iter().all(is_long) {
        return contours;
    }
    let share_of = |contour: &Contour| ink_share(contour, binarised);
    let long = contours.iter().filter(|contour| is_long(contour));
    let least = LEAST_INK * median(long.map(share_of)).unwrap_or(0.0);
    let (kept, blank): (Vec<_>, Vec<_>) = contours
        .into_iter()
        .partition(|contour| is_long(contour) || share_of(contour) >= least);
    for contour in &blank {
        fill_polygon(mask, contour, 0);
    }
    kept
}

/// Share of what a contour encloses that is ink.
fn ink_share(contour: &[Point], page: &GrayImage) -> f64 {
    let (shape, bounds) = shape_of(contour);
    let ink: u32 = ink_of_columns(&shape, bounds, page).iter().sum();
    let all = shape.iter().filter(|value| **value != 0).count();
    f64::from(ink) / all.max(1) as f64
}

/// Connected parts of a mask, as far as they may be short lines.
#[derive(Debug)]
struct Fill<'m> {
    mask: &'m GrayImage,
    lines: &'m LongLines,
    /// Number of the part that each pixel was found to belong to; 0 before that.
    parts: Vec<u32>,
    part: u32,
}

impl<'m> Fill<'m> {
    fn new(mask: &'m GrayImage, lines: &'m LongLines) -> Self {
        Self {
            mask,
            lines,
            parts: vec![0; mask.len()],
            part: 0,
        }
    }

    /// The pixels of the part that holds `start`; `None` where it is no short line or was asked for before.
    fn from(&mut self, start: Point) -> Option<Vec<Point>> {
        self.part += 1;
        let (mut found, mut open) = (Vec::new(), vec![start]);
        let (mut top, mut bottom) = (start.y, start.y);
        while let Some(point) = open.pop() {
            let Some(index) = self.index_of(point) else {
                continue;
            };
            let part = &mut self.parts[index];
            if *part == self.part {
                continue;
            }
            // This part was given up, and only half of it looked at.
            if *part != 0 {
                return None;
            }
            *part = self.part;
            found.push(point);
            (top, bottom) = (top.min(point.y), bottom.max(point.y));
            if !self.lines.can_grow(bottom - top + 1, found.len()) {
                return None;
            }
            open.extend(
                [(1, 0), (-1, 0), (0, 1), (0, -1)].map(|(x, y)| Point::new(point.x + x, point.y + y)),
            );
        }
        self.lines
            .have(&bounding_rect(&found), found.len() as f64)
            .then_some(found)
    }

    /// Index of a pixel of the mask; `None` where it is paper or beyond the edge.
    fn index_of(&self, point: Point) -> Option<usize> {
        let (x, y) = (u32::try_from(point.x).ok()?, u32::try_from(point.y).ok()?);
        let is_ink = self.mask.get_pixel_checked(x, y)?.0 != [0];
        is_ink.then(|| y as usize * self.mask.width() as usize + x as usize)
    }
}

#[cfg(test)]
mod tests {
    use image::imageops::invert;
    use proptest::prelude::*;

    use super::*;
    use crate::line_detection::mask::line_contours;

    const SIZE: (u32, u32) = (900, 1536);
    /// Left, top, width and height of a rectangle in pixels.
    type Rectangle = (u32, u32, u32, u32);
    const NUMBER: Rectangle = (430, 1480, 40, 22);

    fn paint(mask: &mut GrayImage, (left, top, width, height): Rectangle) {
        for y in top..(top + height).min(mask.height()) {
            for x in left..(left + width).min(mask.width()) {
                mask.put_pixel(x, y, Luma([u8::MAX]));
            }
        }
    }

    /// Twenty lines, 24 pixels high, and what else there is on a page of a book.
    fn page(others: &[Rectangle]) -> GrayImage {
        let mut mask = GrayImage::new(SIZE.0, SIZE.1);
        for line in 0..20 {
            paint(&mut mask, (50, 40 + 70 * line, 800, 24));
        }
        for other in others {
            paint(&mut mask, *other);
        }
        mask
    }

    fn lines_beyond_twenty(mask: &GrayImage, config: &DetectionConfig) -> Vec<Rectangle> {
        let mut boxes: Vec<Rectangle> = line_contours(mask, config)
            .iter()
            .map(|contour| bounding_rect(contour))
            .map(|bounds| [bounds.x, bounds.y, bounds.width, bounds.height].map(|side| side as u32))
            .map(|[x, y, width, height]| (x, y, width, height))
            .collect();
        boxes.retain(|line| line.2 != 800);
        boxes
    }

    #[test]
    fn what_is_as_high_as_the_lines_is_a_line() {
        let config = DetectionConfig::default();
        assert_eq!(lines_beyond_twenty(&page(&[NUMBER]), &config), [NUMBER]);
        assert_eq!(
            lines_beyond_twenty(&page(&[NUMBER]), &DetectionConfig::ldv1()),
            []
        );
        // Too low, too narrow, too high, beside the lines, between two of them.
        for speck in [
            (430, 1480, 40, 12),
            (430, 1480, 6, 22),
            (430, 1420, 12, 60),
            (5, 1480, 40, 22),
            (430, 1343, 40, 22),
        ] {
            assert_eq!(lines_beyond_twenty(&page(&[speck]), &config), [], "{speck:?}");
        }
    }

    /// Twenty lines, 24 pixels high, that fall by a twentieth of their length, and what else there is.
    fn sloping_page(others: &[Rectangle]) -> GrayImage {
        let mut mask = GrayImage::new(SIZE.0, SIZE.1);
        for line in 0..20 {
            for x in 50..850 {
                paint(&mut mask, (x, 40 + 70 * line + (x - 50) / 20, 1, 24));
            }
        }
        for other in others {
            paint(&mut mask, *other);
        }
        mask
    }

    #[test]
    fn the_height_of_lines_and_what_is_near_them_do_not_depend_on_their_slope() {
        let config = DetectionConfig::default();
        let count = |other| line_contours(&sloping_page(&[other]), &config).len();
        // The last line has rows 1370 to 1394 at its left end and 1410 to 1434 at its right end.
        assert_eq!(count((60, 1430, 40, 22)), 21);
        assert_eq!(count((780, 1460, 40, 22)), 21);
        assert_eq!(count((780, 1438, 40, 22)), 20);
        // Thrice as high as a line, and lower than the box around one is.
        assert_eq!(count((60, 1430, 20, 60)), 20);
    }

    #[test]
    fn a_short_line_has_as_much_ink_as_others() {
        let config = DetectionConfig::default();
        let kept = |ink: &[Rectangle]| {
            let mut mask = page(&[NUMBER]);
            let mut binarised = GrayImage::new(SIZE.0, SIZE.1);
            let lines = (0..20).map(|line| (50, 40 + 70 * line, 800, 12));
            for written in lines.chain(ink.iter().copied()) {
                paint(&mut binarised, written);
            }
            invert(&mut binarised);
            let contours = line_contours(&mask, &config);
            let contours = without_blanks(&mut mask, contours, &LazyCell::new(|| binarised), &config);
            assert_eq!(contours, line_contours(&mask, &config));
            contours.len()
        };
        assert_eq!(kept(&[]), 20);
        assert_eq!(kept(&[(430, 1480, 40, 4)]), 20);
        assert_eq!(kept(&[(430, 1480, 40, 8)]), 21);
    }

    #[test]
    fn few_lines_have_no_usual_height() {
        let mut mask = GrayImage::new(SIZE.0, SIZE.1);
        for line in 0..2 {
            paint(&mut mask, (50, 40 + 70 * line, 800, 24));
        }
        paint(&mut mask, NUMBER);
        assert_eq!(line_contours(&mask, &DetectionConfig::default()).len(), 2);
    }

    #[test]
    fn a_short_line_is_taken_whole() {
        let config = DetectionConfig::default();
        let mut mask = page(&[(436, 1484, 12, 16)]);
        complete_short_lines(&mut mask, &page(&[NUMBER]), &config);
        assert_eq!(mask, page(&[NUMBER]));
    }

    #[test]
    fn a_frame_and_a_stain_are_no_short_lines() {
        let config = DetectionConfig::default();
        // A core of the size of a number in each.
        for doubtful in [(20, 1480, 860, 24), (400, 1430, 80, 100), (436, 1484, 14, 17)] {
            let before = page(&[(440, 1484, 10, 16)]);
            let mut mask = before.clone();
            complete_short_lines(&mut mask, &page(&[doubtful]), &config);
            assert_eq!(mask, before, "{doubtful:?}");
        }
    }

    proptest! {
        #[test]
        fn only_what_may_be_of_a_line_is_added(
            cores in prop::collection::vec((0_u32..880, 1440_u32..1530, 1_u32..60, 1_u32..40), 0..8),
            margins in prop::collection::vec((0_u32..880, 1440_u32..1530, 1_u32..90, 1_u32..60), 0..8),
        ) {
            let before = page(&cores);
            let doubtful = page(&[cores, margins].concat());
            let mut mask = before.clone();
            complete_short_lines(&mut mask, &doubtful, &DetectionConfig::default());
            for ((after, before), doubtful) in mask.iter().zip(before.iter()).zip(doubtful.iter()) {
                prop_assert!(after >= before && after <= doubtful);
            }
        }
    }
}
