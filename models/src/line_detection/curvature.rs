//! Bent lines: which line is bent, and in upstream's programs which one stands for the whole page.

use image::GrayImage;

use super::straight::{ControlPoint, Dewarp};
use crate::page::geometry::{Point, Rect};
use crate::page::polygon::shape_of;

/// Width of the five vertical slices in which a line's height is sampled, in frame pixels.
pub(super) const SLICE_WIDTH: i32 = 40;

/// A line whose middle rises or falls by more than its own thickness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bend {
    /// Middle of the line in each slice, from left to right.
    pub centers: [Point; 5],
    /// The row that the middles are moved to.
    pub level: i32,
    /// Difference between the highest and the lowest middle, in pixels.
    pub rise: i32,
}

impl Bend {
    /// The bend of a line whose middles differ by `rise` and whose slices are `thickness` thick together; `None` when it
    /// is straight.
    pub(super) fn of(centers: [Point; 5], rise: i32, thickness: i32) -> Option<Self> {
        // The mean thickness of five slices, without the division.
        if 5 * rise <= thickness {
            return None;
        }
        Some(Self {
            centers,
            // Python rounds half to even.
            level: mean_height(&centers).round_ties_even() as i32,
            rise,
        })
    }
}

/// Mean height of the middles of a line.
pub(super) fn mean_height(centers: &[Point; 5]) -> f64 {
    centers.iter().map(|center| f64::from(center.y)).sum::<f64>() / 5.0
}

/// Course of a line: its middle in five slices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Course {
    /// Middle of the line in each slice, from left to right.
    pub centers: [Point; 5],
    /// Thicknesses of the slices together, in pixels.
    pub thickness: i32,
}

impl Course {
    /// Samples a line in five slices (`_check_line_tps_optimized` of `ldv1`).
    pub(super) fn of(contour: &[Point]) -> Self {
        let (mask, bounds) = shape_of(contour);
        let slices = slice_ranges(bounds.width).map(|(start, end)| sample(&mask, bounds, start, end));
        Self {
            centers: slices.each_ref().map(|slice| slice.center),
            thickness: slices.iter().map(|slice| slice.thickness).sum(),
        }
    }

    /// The bend of the line; `None` when it is straight.
    pub(super) fn bend(&self) -> Option<Bend> {
        let heights = self.centers.map(|center| center.y);
        let rise = heights.iter().max()? - heights.iter().min()?;
        Bend::of(self.centers, rise, self.thickness)
    }
}

/// Measures of one slice of a line.
struct Slice {
    center: Point,
    thickness: i32,
}

/// Columns `start..end` of the five slices, relative to the line's box and clamped to it.
fn slice_ranges(width: i32) -> [(i32, i32); 5] {
    let (quarter, half) = (width / 4, width / 2);
    let starts = [
        0,
        quarter - SLICE_WIDTH,
        half,
        half + quarter,
        width - SLICE_WIDTH,
    ];
    // In a line narrower than 160 pixels some slices begin before it. `ldv1` clamps them; in the first
    // generation Python counted such indices from the other end.
    starts.map(|start| (start.clamp(0, width), (start + SLICE_WIDTH).clamp(0, width)))
}

fn sample(mask: &GrayImage, bounds: Rect, start: i32, end: i32) -> Slice {
    let has_ink = |&y: &i32| (start..end).any(|x| mask.get_pixel(x as u32, y as u32).0[0] != 0);
    let first = (0..bounds.height).find(has_ink);
    let last = (0..bounds.height).rev().find(has_ink);
    let middle = if end > start {
        (end - start) / 2
    } else {
        SLICE_WIDTH / 2
    };
    let (row, thickness) = match first.zip(last) {
        Some((first, last)) => ((first + last) / 2, last - first + 1),
        // A slice without ink must not look like a bend: the middle of the box, and as thick as that.
        None => (bounds.height / 2, bounds.height),
    };
    Slice {
        center: Point::new(bounds.x + start + middle, bounds.y + row),
        thickness,
    }
}

/// The bend that stands for a page: the one whose rise is nearest to the mean rise of all `line_count` lines, straight
/// ones counting as 0.
pub(super) fn typical_bend(bends: &[Bend], line_count: usize) -> Option<&Bend> {
    let mean = bends.iter().map(|bend| f64::from(bend.rise)).sum::<f64>() / line_count.max(1) as f64;
    let distance = |bend: &Bend| (mean - f64::from(bend.rise)).abs();
    // `min_by` keeps the first of equals, as upstream does.
    bends.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// The spline that levels `bend` on a page of this size and keeps the four corners where they are. Without the corners
/// the targets lie on one straight line and the spline is not determined.
pub(super) fn levelling_spline(bend: &Bend, width: u32, height: u32, alpha: f32) -> Dewarp {
    let (right, bottom) = (f64::from(width) - 1.0, f64::from(height) - 1.0);
    let middles = bend.centers.iter().map(|center| {
        let x = f64::from(center.x);
        ControlPoint {
            source: [x, f64::from(center.y)],
            target: [x, f64::from(bend.level)],
        }
    });
    let corners = [[0.0, 0.0], [right, 0.0], [0.0, bottom], [right, bottom]];
    let fixed = corners.map(|corner| ControlPoint {
        source: corner,
        target: corner,
    });
    Dewarp {
        control_points: middles.chain(fixed).collect(),
        alpha,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(middle: impl Fn(i32) -> i32, width: i32) -> Vec<Point> {
        let top = (0..width).map(|x| Point::new(x, middle(x) - 10));
        let bottom = (0..width).rev().map(|x| Point::new(x, middle(x) + 10));
        top.chain(bottom).collect()
    }

    #[test]
    fn a_level_line_is_straight() {
        assert_eq!(Course::of(&band(|_| 50, 800)).bend(), None);
    }

    #[test]
    fn an_arch_is_bent_and_levelled_to_its_mean() {
        let bend = Course::of(&band(|x| 100 - (x - 400) * (x - 400) / 2000, 800))
            .bend()
            .unwrap();
        assert!((60..=90).contains(&bend.rise), "{bend:?}");
        let lowest = bend.centers.iter().map(|center| center.y).min().unwrap();
        let highest = bend.centers.iter().map(|center| center.y).max().unwrap();
        assert!(lowest < bend.level && bend.level < highest);
    }

    #[test]
    fn the_typical_bend_is_nearest_to_the_mean_over_all_lines() {
        let bend = |rise| Bend {
            centers: [Point::new(0, 0); 5],
            level: 0,
            rise,
        };
        let bends = [bend(90), bend(40), bend(60)];
        assert_eq!(typical_bend(&bends, 3).unwrap().rise, 60);
        assert_eq!(typical_bend(&bends, 9).unwrap().rise, 40);
        assert_eq!(typical_bend(&[], 5), None);
    }

    #[test]
    fn one_pixel_is_not_bent() {
        assert_eq!(Course::of(&[Point::new(5, 5)]).bend(), None);
        assert_eq!(Course::of(&[]).bend(), None);
    }
}
