//! Bend of a page: how far its lines rise and fall along their way, as one shape that all of them share.
//!
//! Upstream levels one line and keeps the corners of the page where they are, so that a line is levelled the less the farther it is from
//! that one; on a page that is bent as a whole, lines at the other end stay as they were, and are cut with parts of their neighbours.
//! Lines of a page are bent alike, or change their bend gradually from the first to the last. So the bend at a place along the lines is a
//! straight line over their heights, and as a blob may pass for a line, it is one that does not follow outliers (Theil, "A rank-invariant
//! method of linear and polynomial regression analysis", 1950; Sen, "Estimates of the regression coefficient based on Kendall's tau",
//! 1968).

use super::curvature::Course;
use super::straight::{ControlPoint, Dewarp};
use crate::median::median;

/// Share of the upper quartile of widths from which on a line has a say. Shorter ones show a part of the bend, in slices that are elsewhere.
const WIDE: f64 = 0.75;
/// Least number of lines that tell how the bend changes from line to line.
const LEAST_LINES: usize = 4;
/// Share of the height of all lines that two lines are apart at least, whose bends are compared.
const APART: f64 = 0.25;

/// The bend of a page, in pixels of its frame.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PageBend([LocalBend; 5]);

/// Bend of the lines at one place along them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LocalBend {
    x: f64,
    /// Height of a line above or below its mean height: `at_zero + per_row * height`.
    at_zero: f64,
    per_row: f64,
}

impl PageBend {
    /// The bend of lines of these courses; `None` without lines.
    pub(super) fn of(courses: &[Course]) -> Option<Self> {
        let mut widths: Vec<f64> = courses.iter().map(width_of).collect();
        widths.sort_unstable_by(f64::total_cmp);
        let least = WIDE * widths.get(widths.len() * 3 / 4)?;
        let wide: Vec<&Course> = courses
            .iter()
            .filter(|course| width_of(course) >= least)
            .collect();
        let heights: Vec<f64> = wide.iter().map(|course| mean_height(course)).collect();
        let first = heights.iter().copied().reduce(f64::min)?;
        let last = heights.iter().copied().reduce(f64::max)?;
        Some(Self([0, 1, 2, 3, 4].map(|slice| {
            let shift =
                |(course, &height): (&&Course, &f64)| (height, f64::from(course.centers[slice].y) - height);
            let shifts: Vec<(f64, f64)> = wide.iter().zip(&heights).map(shift).collect();
            let (at_zero, per_row) = robust_line(&shifts, APART * (last - first));
            let x = median(wide.iter().map(|course| f64::from(course.centers[slice].x)));
            LocalBend {
                x: x.unwrap_or(0.0),
                at_zero,
                per_row,
            }
        })))
    }

    /// The spline that levels the lines of a page of this height.
    pub(super) fn levelling_spline(&self, height: u32, alpha: f32) -> Dewarp {
        let bottom = f64::from(height) - 1.0;
        let rows = [0.0, bottom / 2.0, bottom];
        let points = self.0.iter().flat_map(|bend| {
            rows.map(|row| ControlPoint {
                source: [bend.x, row + bend.at_zero + bend.per_row * row],
                target: [bend.x, row],
            })
        });
        Dewarp {
            control_points: points.collect(),
            alpha,
        }
    }
}

fn width_of(course: &Course) -> f64 {
    let [first, .., last] = &course.centers;
    f64::from(last.x - first.x)
}

fn mean_height(course: &Course) -> f64 {
    course
        .centers
        .iter()
        .map(|center| f64::from(center.y))
        .sum::<f64>()
        / course.centers.len() as f64
}

/// Value at zero and slope of the line through most of these points: the median slope of pairs that are at least so far apart, and the
/// median of what is left. Few points have no slope.
fn robust_line(points: &[(f64, f64)], apart: f64) -> (f64, f64) {
    let mut slopes = Vec::new();
    if points.len() >= LEAST_LINES {
        for (index, (x, y)) in points.iter().enumerate() {
            let far = points[index + 1..]
                .iter()
                .filter(|other| (other.0 - x).abs() > apart);
            slopes.extend(far.map(|other| (other.1 - y) / (other.0 - x)));
        }
    }
    let slope = median(slopes).unwrap_or(0.0);
    let rest = points.iter().map(|(x, y)| y - slope * x);
    (median(rest).unwrap_or(0.0), slope)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::line_detection::straight::PageGeometry;
    use crate::page::geometry::{Contour, Point};

    const WIDTH: i32 = 1400;
    const HEIGHT: u32 = 600;

    /// Middle of a line that is level at `height`, on a page that is bent so far at its top and at its bottom.
    fn bent(x: i32, height: i32, top: f64, bottom: f64) -> f64 {
        let share = f64::from(height) / f64::from(HEIGHT);
        let wave = (f64::from(x) / f64::from(WIDTH) * 5.0).sin();
        f64::from(height) + wave * (top * (1.0 - share) + bottom * share)
    }

    fn band(height: i32, (left, right): (i32, i32), top: f64, bottom: f64) -> Contour {
        let middle = |x| bent(x, height, top, bottom) as i32;
        let above = (left..right).map(|x| Point::new(x, middle(x) - 6));
        let below = (left..right).rev().map(|x| Point::new(x, middle(x) + 6));
        above.chain(below).collect()
    }

    /// Largest difference of heights along a line after flattening by these courses.
    fn unevenness(courses: &[Course], lines: &[Contour]) -> i32 {
        let dewarp = PageBend::of(courses).unwrap().levelling_spline(HEIGHT, 0.5);
        let geometry = PageGeometry::turned(WIDTH as u32, HEIGHT, 0.0)
            .flattened(dewarp)
            .unwrap();
        let levelled = lines.iter().map(|line| {
            let moved: Contour = line.iter().map(|&point| geometry.from_page(point)).collect();
            let heights = Course::of(&moved).centers.map(|center| center.y);
            heights.iter().max().unwrap() - heights.iter().min().unwrap()
        });
        levelled.max().unwrap()
    }

    fn page(top: f64, bottom: f64) -> Vec<Contour> {
        (1..9)
            .map(|row| band(row * 60 + 20, (60, WIDTH - 60), top, bottom))
            .collect()
    }

    fn courses(lines: &[Contour]) -> Vec<Course> {
        lines.iter().map(|line| Course::of(line)).collect()
    }

    #[test]
    fn what_is_no_line_changes_nothing() {
        let lines = page(40.0, 40.0);
        let mut all = lines.clone();
        all.insert(0, band(30, (0, WIDTH), -90.0, -90.0));
        all.push(band(590, (700, 900), 0.0, 90.0));
        assert!(unevenness(&courses(&all), &lines) <= 4);
    }

    #[test]
    fn one_line_tells_the_bend_of_a_page_and_none_does_not() {
        let lines = page(30.0, 30.0);
        assert!(unevenness(&courses(&lines[4..5]), &lines) <= 4);
        assert_eq!(PageBend::of(&[]), None);
    }

    proptest! {
        /// Wherever the lines are, and whether they are bent alike or more and more.
        #[test]
        fn all_lines_of_a_bent_page_are_levelled(top in -50.0..50.0f64, bottom in -50.0..50.0f64) {
            let lines = page(top, bottom);
            // Between five places along a line the spline follows a wave to within an eighth of its height.
            let wave = 2.0 * top.abs().max(bottom.abs());
            prop_assert!(f64::from(unevenness(&courses(&lines), &lines)) <= 4.0 + wave / 8.0);
        }
    }
}
