//! Lines that slant or are bent on their page, made level by moving each of their columns up or down.
//!
//! The page as a whole has been straightened by then, by one surface for all of its lines. What is left is what a line has of its own: a hand
//! that rises, a column that was printed askew, a fold. The image of such a line would be as high as its box, so that the writing gets small in
//! it and parts of its neighbours come in. Columns are moved by whole pixels, so that a page of black and white stays one.

use std::ops::{Range, RangeInclusive};

use image::{GrayImage, Luma};

use super::Background;
use crate::median::median;
use crate::page::geometry::{Contour, Point, Rect, bounding_rect};
use crate::page::polygon::extent_at;

/// Distance of the places at which a line's middle is measured, in its thicknesses.
const STEP: f64 = 0.5;
/// Largest number of these places.
const MOST_PLACES: usize = 512;
/// Number of places at which the thickness is measured.
const THICKNESS_PLACES: usize = 33;
/// Reach of the places that tell the height of one of them, to either side and in thicknesses. Chosen among 6, 12 and 20:
/// nearer ones follow single letters, farther ones cut off bends.
const REACH: f64 = 12.0;
/// Least rise of a line that is levelled, in its thicknesses.
const LEAST_RISE: f64 = 0.25;
/// Least length of a line that is levelled, in its thicknesses.
const LEAST_LENGTH: f64 = 6.0;
/// Extent of a line at a place that tells its middle, in its thicknesses: where there is more or less, something hangs on to it, or it ends.
const EXTENT: RangeInclusive<f64> = 0.6..=1.5;

/// Course of a line: the heights of its middle along its way, in pixels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Course {
    /// Column and height of the middle at each place, from left to right.
    middles: Vec<(f64, f64)>,
    thickness: f64,
}

impl Course {
    /// Measures the course of a line with this contour; without any middle for one that is no area.
    pub(super) fn of(contour: &[Point]) -> Self {
        let bounds = bounding_rect(contour);
        let extents = |count| places(bounds, count).filter_map(|x| Some((x, extent_at(contour, x)?)));
        let thickness = median(extents(THICKNESS_PLACES).map(|(_, (top, bottom))| bottom - top));
        let thickness = thickness.unwrap_or(0.0).max(1.0);
        let count = (f64::from(bounds.width) / (STEP * thickness)) as usize;
        let middles = extents(count.clamp(1, MOST_PLACES))
            .filter(|(_, (top, bottom))| EXTENT.contains(&((bottom - top) / thickness)))
            .map(|(x, (top, bottom))| (x, f64::midpoint(top, bottom)));
        Self {
            middles: middles.collect(),
            thickness,
        }
    }

    /// The course of a line of which these are the parts.
    pub(super) fn joined<'a>(parts: impl IntoIterator<Item = &'a Self> + Clone) -> Self {
        let thickness = median(parts.clone().into_iter().map(|part| part.thickness));
        let mut middles: Vec<(f64, f64)> = parts
            .into_iter()
            .flat_map(|part| &part.middles)
            .copied()
            .collect();
        middles.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Self {
            middles,
            thickness: thickness.unwrap_or(1.0),
        }
    }

    /// The levelling of the line; `None` where it is level, or too short to tell.
    pub(super) fn levelling(&self) -> Option<Levelling> {
        let ((first, _), (last, _)) = self.middles.first().zip(self.middles.last())?;
        if last - first < LEAST_LENGTH * self.thickness {
            return None;
        }
        let smooth = |(x, _): &(f64, f64)| Some((*x, height_at(*x, &self.middles, REACH * self.thickness)?));
        let course: Vec<(f64, f64)> = self.middles.iter().filter_map(smooth).collect();
        let heights = || course.iter().map(|(_, height)| *height);
        let (highest, lowest) = (
            heights().fold(f64::MAX, f64::min),
            heights().fold(f64::MIN, f64::max),
        );
        if lowest - highest < LEAST_RISE * self.thickness {
            return None;
        }
        let mean = heights().sum::<f64>() / course.len() as f64;
        let (left, right) = (first.floor() as i32, last.ceil() as i32);
        let shift = |x| (between(&course, f64::from(x)) - mean).round() as i32;
        Some(Levelling {
            left,
            shifts: (left..=right).map(shift).collect(),
        })
    }
}

/// Movement of the columns of a line that makes it level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levelling {
    /// First column that is moved by itself.
    left: i32,
    /// Rows by which each column lies too low; less than 0 for those too high.
    shifts: Vec<i32>,
}

impl Levelling {
    /// The levelling of a line with this contour; `None` where it is level, or too short to tell.
    pub fn of(contour: &[Point]) -> Option<Self> {
        Course::of(contour).levelling()
    }

    /// Number of rows by which the line lies too low at column `x`; beyond its ends, as many as at the end.
    pub fn shift(&self, x: i32) -> i32 {
        let last = self.shifts.len().saturating_sub(1);
        let column = usize::try_from(i64::from(x) - i64::from(self.left));
        self.shifts
            .get(column.unwrap_or(0).min(last))
            .copied()
            .unwrap_or(0)
    }

    /// Least and largest number of rows by which the line lies too low at some columns; 0 for none.
    pub fn shifts(&self, columns: Range<i32>) -> (i32, i32) {
        let shifts = || columns.clone().map(|x| self.shift(x));
        (shifts().min().unwrap_or(0), shifts().max().unwrap_or(0))
    }

    /// The contour as it is with its columns moved.
    pub(super) fn levelled(&self, contour: &[Point]) -> Contour {
        let moved = |point: &Point| Point::new(point.x, point.y.saturating_sub(self.shift(point.x)));
        contour.iter().map(moved).collect()
    }

    /// The part of a page that lies within `area` once its columns are moved; `background` where the page has no pixels. The columns of the area
    /// are on the page.
    pub(super) fn part(&self, page: &GrayImage, area: Rect, background: Background) -> GrayImage {
        let size = [area.width, area.height].map(i32::unsigned_abs);
        let mut part = GrayImage::from_pixel(size[0], size[1], Luma([background.grey()]));
        let shifts: Vec<i32> = (0..area.width)
            .map(|column| self.shift(area.x + column))
            .collect();
        for (y, row) in (area.y..).zip(part.chunks_exact_mut(shifts.len().max(1))) {
            for ((x, pixel), shift) in (area.x as u32..).zip(row).zip(&shifts) {
                let level = u32::try_from(y + shift)
                    .ok()
                    .and_then(|y| page.get_pixel_checked(x, y));
                if let Some(Luma([level])) = level {
                    *pixel = *level;
                }
            }
        }
        part
    }
}

/// Middles of so many equal parts of the way along a box.
fn places(bounds: Rect, count: usize) -> impl Iterator<Item = f64> {
    let part = f64::from(bounds.width) / count as f64;
    (0..count).map(move |number| f64::from(bounds.x) + (number as f64 + 0.5) * part)
}

/// Height at `x` of the straight line through the middles within `reach`, the nearest of which count most (Cleveland, "Robust locally weighted
/// regression and smoothing scatterplots", 1979, without its second round); `None` where there are none.
fn height_at(x: f64, middles: &[(f64, f64)], reach: f64) -> Option<f64> {
    let first = middles.partition_point(|(at, _)| *at <= x - reach);
    let near = middles[first..].iter().take_while(|(at, _)| *at < x + reach);
    let (mut weights, mut along, mut down, mut squares, mut products) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (at, height) in near {
        let distance = at - x;
        let weight = (1.0 - (distance.abs() / reach).powi(3)).powi(3);
        weights += weight;
        along += weight * distance;
        down += weight * height;
        squares += weight * distance * distance;
        products += weight * distance * height;
    }
    let spread = weights * squares - along * along;
    if spread > f64::EPSILON * weights * squares {
        Some((squares * down - along * products) / spread)
    } else {
        // One place has a height and no slope.
        (weights > 0.0).then(|| down / weights)
    }
}

/// Height at `x` between the places of a course; beyond its ends, that of the end, and 0 without any.
fn between(course: &[(f64, f64)], x: f64) -> f64 {
    let after = course.partition_point(|(at, _)| *at < x);
    let before = after.checked_sub(1).and_then(|before| course.get(before));
    match (before, course.get(after)) {
        (Some((from, start)), Some((to, end))) => start + (x - from) / (to - from) * (end - start),
        (Some((_, height)), None) | (None, Some((_, height))) => *height,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line of this thickness whose middle is at these heights.
    fn band(ends: (i32, i32), thickness: i32, middle: impl Fn(i32) -> i32) -> Contour {
        let above = (ends.0..=ends.1).map(|x| Point::new(x, middle(x) - thickness / 2));
        let below = (ends.0..=ends.1)
            .rev()
            .map(|x| Point::new(x, middle(x) + thickness / 2));
        above.chain(below).collect()
    }

    fn height(contour: &[Point]) -> i32 {
        bounding_rect(contour).height
    }

    #[test]
    fn level_and_short_lines_stay() {
        let wavy = |x: i32| 100 + x / 9 % 2;
        assert_eq!(Levelling::of(&band((0, 800), 20, wavy)), None);
        assert_eq!(Levelling::of(&band((0, 90), 20, |x| 100 + x / 2)), None);
        for nothing in [&[][..], &[Point::new(5, 5)]] {
            assert_eq!(Levelling::of(nothing), None);
        }
    }

    #[test]
    fn what_hangs_on_to_a_line_does_not_move_it() {
        let mut line = band((0, 800), 20, |x| 100 + x / 20);
        let level = Levelling::of(&line).unwrap();
        let at = line
            .iter()
            .position(|point| *point == Point::new(400, 110))
            .unwrap();
        let hook = [(400, 40), (440, 40), (440, 112)].map(|(x, y)| Point::new(x, y));
        line.splice(at + 1..at + 41, hook);
        let hooked = Levelling::of(&line).unwrap();
        assert!((0..=800).all(|x| (hooked.shift(x) - level.shift(x)).abs() <= 1));
    }

    #[test]
    fn parts_have_one_course() {
        let arch = |x: i32| 100 + (x - 400) * (x - 400) / 4000;
        let parts = [(500, 800), (0, 250)].map(|ends| Course::of(&band(ends, 20, arch)));
        let joined = Course::joined(&parts).levelling().unwrap();
        let whole = Levelling::of(&band((0, 800), 20, arch)).unwrap();
        assert!(joined.shift(0) >= 15 && joined.shift(400) < 0, "{joined:?}");
        let moved = |x| joined.shift(x) - joined.shift(0) - (whole.shift(x) - whole.shift(0));
        assert!((0..=800).all(|x| moved(x).abs() <= 4), "{joined:?}");
    }

    #[test]
    fn a_part_of_the_page_is_moved_with_its_columns() {
        let line = band((0, 399), 20, |x| 60 + x / 10);
        let levelling = Levelling::of(&line).unwrap();
        let page = GrayImage::from_fn(400, 160, |x, y| Luma([if y == 60 + x / 10 { 0 } else { 200 }]));
        let area = Rect {
            x: 10,
            y: 70,
            width: 380,
            height: 20,
        };
        let part = levelling.part(&page, area, Background::Paper);
        let row = |x: u32| (0..20).find(|&y| part.get_pixel(x, y).0[0] == 0).unwrap();
        assert!((0..380).all(|x| row(x).abs_diff(row(190)) <= 1));
        // The line rises by 40 rows, half of them to either side; beyond row 159 there is no page.
        let below = Rect { y: 150, ..area };
        let part = levelling.part(&page, below, Background::Paper);
        let last = |x| part.get_pixel(x, 19).0[0];
        assert_eq!((last(0), last(379)), (200, 255));
    }

    proptest! {
        /// Straight within a pixel of rounding up and down, and what a straight line over twelve thicknesses differs from the bend.
        #[test]
        fn lines_that_slant_or_are_bent_are_levelled(slope in -0.1..0.1f64, bend in -40.0..40.0f64, thickness in 12..30) {
            let middle = |x: i32| {
                let along = f64::from(x - 500) / 500.0;
                (300.0 + slope * f64::from(x) + bend * along * along).round() as i32
            };
            let line = band((0, 1000), thickness, middle);
            if let Some(levelling) = Levelling::of(&line) {
                let levelled = levelling.levelled(&line);
                prop_assert!(height(&levelled) <= thickness + 10, "{} of {}", height(&levelled), height(&line));
            } else {
                prop_assert!(height(&line) <= thickness + thickness / 4 + 4);
            }
        }
    }
}
