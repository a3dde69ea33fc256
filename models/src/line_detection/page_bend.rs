//! Bend of a page: how far its lines rise and fall along their way, as one surface that all of them share.
//!
//! Upstream levels one line and keeps the corners of the page where they are, so that a line is levelled the less the farther it is from
//! that one; on a page that is bent as a whole, lines at the other end stay as they were, and are cut with parts of their neighbours.
//! Lines of a page are bent alike, or change their bend gradually from the first to the last. So the surface is a polynomial along the lines,
//! whose coefficients change evenly from line to line. Each line has a height besides, which nobody knows: only how its middles differ from
//! their mean counts. That leaves parts of lines their say, between holes and in columns, about the part of the page where they lie.
//! A blob may pass for a line. So the sum of what the lines are off is least, and not that of its squares, by weighting them anew
//! (Holland and Welsch, "Robust regression using iteratively reweighted least-squares", 1977).

use super::curvature::{Course, mean_height};
use super::straight::{ControlPoint, Dewarp};
use crate::median::median;
use crate::page::linear::solve;

/// Degree of the polynomial along the lines.
const DEGREE: usize = 4;
/// Number of coefficients: of each power, and of how that changes down the page.
const TERMS: usize = 2 * DEGREE;
/// Least number of lines that tell how the bend changes from line to line.
const LEAST_LINES: usize = 4;
/// Number of times that lines are weighted anew.
const ROUNDS: usize = 12;
/// Root mean square, in pixels, of what a line deviates below which it counts no more than others.
const EXACT: f64 = 1.0;
/// Weight against any bend, in shares of that of the lines: where they tell nothing, there is none.
const STIFFNESS: f64 = 1e-3;
/// Share of places at either end that may be outliers.
const ENDS: f64 = 0.05;
/// Number of columns of control points.
const COLUMNS: usize = 7;
/// Largest rise of a line that leaves its parts in one row, in thicknesses of what the network marks of it, which is 0.4 of the distance
/// between lines.
const MOST_RISE: f64 = 1.5;
/// Place up and down the page to which the bend goes on to change, in halves of the height of all lines.
const FARTHEST: f64 = 1.5;

/// The bend of a page, in pixels of its frame.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PageBend {
    along: Extent,
    down: Extent,
    coefficients: [f64; TERMS],
}

/// Range of places, from -1 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Extent {
    middle: f64,
    half: f64,
}

impl Extent {
    fn of(places: impl Iterator<Item = f64>) -> Option<Self> {
        let mut places: Vec<f64> = places.collect();
        places.sort_unstable_by(f64::total_cmp);
        let outside = (ENDS * places.len() as f64) as usize;
        let (first, last) = (*places.get(outside)?, *places.iter().nth_back(outside)?);
        Some(Self {
            middle: (first + last) / 2.0,
            half: ((last - first) / 2.0).max(1.0),
        })
    }

    fn relative(&self, place: f64) -> f64 {
        (place - self.middle) / self.half
    }

    fn absolute(&self, relative: f64) -> f64 {
        self.middle + self.half * relative
    }
}

/// Line as differences to its means: at each of its middles, of all terms and of the height.
type Differences = [([f64; TERMS], f64); 5];

impl PageBend {
    /// The bend of lines of these courses; `None` without lines.
    pub(super) fn of(courses: &[Course]) -> Option<Self> {
        let centers = courses.iter().flat_map(|course| &course.centers);
        let along = Extent::of(centers.map(|center| f64::from(center.x)))?;
        let down = Extent::of(courses.iter().map(|course| mean_height(&course.centers)))?;
        let changes = courses.len() >= LEAST_LINES;
        let differences = |course: &Course| {
            let height = mean_height(&course.centers);
            let row = if changes { down.relative(height) } else { 0.0 };
            let at = course.centers.each_ref().map(|center| {
                (
                    terms(along.relative(f64::from(center.x)), row),
                    f64::from(center.y) - height,
                )
            });
            let mean: [f64; TERMS] =
                std::array::from_fn(|term| at.iter().map(|(terms, _)| terms[term]).sum::<f64>() / 5.0);
            at.map(|(terms, height)| (std::array::from_fn(|term| terms[term] - mean[term]), height))
        };
        let lines: Vec<Differences> = courses.iter().map(differences).collect();
        let mut coefficients = [0.0; TERMS];
        let mut weights = vec![1.0; lines.len()];
        for _ in 0..ROUNDS {
            coefficients = fitted(&lines, &weights)?;
            for (weight, line) in weights.iter_mut().zip(&lines) {
                *weight = 1.0 / deviation(line, &coefficients).max(EXACT);
            }
        }
        Some(Self {
            along,
            down,
            coefficients,
        })
    }

    /// Distance below its mean height of a line that is at `x` on its way, and at `y` in the mean.
    fn shift(&self, x: f64, y: f64) -> f64 {
        let row = self.down.relative(y).clamp(-FARTHEST, FARTHEST);
        product(&terms(self.along.relative(x), row), &self.coefficients)
    }

    /// Returns whether lines rise or fall so far on their way along the page that their parts no longer lie in one row, however
    /// straight each of them is.
    pub(super) fn parts_rows(&self, courses: &[Course]) -> bool {
        let thickness = median(courses.iter().map(|course| f64::from(course.thickness) / 5.0));
        let far = thickness.map_or(f64::INFINITY, |thickness| MOST_RISE * thickness);
        courses.len() >= LEAST_LINES
            && [-1.0, 0.0, 1.0].iter().any(|&row| {
                let y = self.down.absolute(row);
                let shifts = || columns().map(|column| self.shift(self.along.absolute(column), y));
                shifts().fold(f64::MIN, f64::max) - shifts().fold(f64::MAX, f64::min) > far
            })
    }

    /// The spline that levels the lines of a page of this height.
    pub(super) fn levelling_spline(&self, height: u32, alpha: f32) -> Dewarp {
        let bottom = f64::from(height) - 1.0;
        let points = columns().flat_map(|column| {
            let x = self.along.absolute(column);
            [0.0, bottom / 2.0, bottom].map(|row| ControlPoint {
                source: [x, row + self.shift(x, row)],
                target: [x, row],
            })
        });
        Dewarp {
            control_points: points.collect(),
            alpha,
        }
    }
}

/// Places of the control points along the lines.
fn columns() -> impl Iterator<Item = f64> {
    (0..COLUMNS).map(|column| 2.0 * column as f64 / (COLUMNS - 1) as f64 - 1.0)
}

/// Legendre polynomials of a place along the lines but for the constant one, and the same times a place down the page.
fn terms(along: f64, down: f64) -> [f64; TERMS] {
    let mut polynomials = [1.0, along, 0.0, 0.0, 0.0];
    for degree in 2..=DEGREE {
        let n = degree as f64;
        polynomials[degree] =
            ((2.0 * n - 1.0) * along * polynomials[degree - 1] - (n - 1.0) * polynomials[degree - 2]) / n;
    }
    std::array::from_fn(|term| polynomials[1 + term % DEGREE] * if term < DEGREE { 1.0 } else { down })
}

fn product(one: &[f64; TERMS], other: &[f64; TERMS]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Root mean square of what a line deviates from the bend.
fn deviation(line: &Differences, coefficients: &[f64; TERMS]) -> f64 {
    let squares = line
        .iter()
        .map(|(terms, height)| (height - product(terms, coefficients)).powi(2));
    (squares.sum::<f64>() / line.len() as f64).sqrt()
}

/// Coefficients of least squares.
fn fitted(lines: &[Differences], weights: &[f64]) -> Option<[f64; TERMS]> {
    let mut matrix = vec![vec![0.0; TERMS]; TERMS];
    let mut values = [[0.0]; TERMS];
    for (line, weight) in lines.iter().zip(weights) {
        for (terms, height) in line {
            for (row, (equation, value)) in matrix.iter_mut().zip(&mut values).enumerate() {
                let factor = weight * terms[row];
                for (coefficient, term) in equation.iter_mut().zip(terms) {
                    *coefficient += factor * term;
                }
                value[0] += factor * height;
            }
        }
    }
    let stiffness = STIFFNESS * weights.iter().sum::<f64>();
    for (row, equation) in matrix.iter_mut().enumerate() {
        equation[row] += stiffness;
    }
    solve(&mut matrix, &mut values)?;
    Some(values.map(|[value]| value))
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

    /// Lines of two columns, which lie at other heights, and are cut by a hole besides.
    #[test]
    fn parts_of_lines_tell_the_bend_of_their_part_of_the_page() {
        let parts = [(60, 400), (480, 660), (740, 1340)];
        let column =
            |(number, part)| (1..9).map(move |row| band(row * 60 + 20 + 9 * number, part, 40.0, -30.0));
        let lines: Vec<Contour> = (0..).zip(parts).flat_map(column).collect();
        assert!(unevenness(&courses(&lines), &lines) <= 8);
    }

    #[test]
    fn lines_that_rise_part_their_rows_where_each_is_straight() {
        let stairs = |rise: i32| {
            let parts = (0..5).map(move |part| (part, (60 + part * 260, 300 + part * 260)));
            let lines = parts
                .flat_map(|(part, ends)| (1..9).map(move |row| band(row * 60 + rise * part, ends, 0.0, 0.0)));
            courses(&lines.collect::<Vec<_>>())
        };
        // Steps have no slope, and a line that is cut has no height.
        assert!(!PageBend::of(&stairs(8)).unwrap().parts_rows(&stairs(8)));
        let slope = |rise: f64| {
            let lines = (1..9).map(|row| band(row * 60 + 20, (60, WIDTH - 60), rise, rise));
            courses(&lines.collect::<Vec<_>>())
        };
        for (rise, parts) in [(2.0, false), (30.0, true)] {
            assert_eq!(
                PageBend::of(&slope(rise)).unwrap().parts_rows(&slope(rise)),
                parts
            );
        }
        assert!(
            !PageBend::of(&slope(30.0)[..3])
                .unwrap()
                .parts_rows(&slope(30.0)[..3])
        );
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
