//! The region that a line of writing covers, from the core band that the segmenter finds.

use crate::line_detection::{REACH_ABOVE, REACH_BELOW};
use crate::page::geometry::{Contour, Point, bounding_rect};

/// The first and the last letter reach this many band heights beyond its ends. This number, [`REACH_ABOVE`] and [`REACH_BELOW`] were chosen
/// among two dozen sets of three on pages with outlines drawn along the ink (`tests/fixtures/outlines`), of whose area they cover 0.98.
const REACH_BEYOND: f64 = 0.3;
/// Distance between two columns at which the band is measured, in band heights.
const COLUMN_STEP: f64 = 2.0;

/// Outline of the whole line around a core contour, clockwise from the left top, following the line's curve. Empty for
/// an empty contour; not clipped to any page.
pub fn line_outline(core: &[Point]) -> Contour {
    if core.is_empty() {
        return Contour::new();
    }
    let bounds = bounding_rect(core);
    let right = bounds.x + bounds.width - 1;
    let spans = |x: i32| vertical_span(core, f64::from(x));
    // The median of some columns, as the band is thinner at its rounded ends.
    let heights = sorted(
        (0..=16)
            .filter_map(|part| spans(bounds.x + (bounds.width - 1) * part / 16))
            .map(|(t, b)| b - t),
    );
    let height = heights.get(heights.len() / 2).copied().unwrap_or(0.0).max(1.0);

    let columns = (f64::from(bounds.width) / (height * COLUMN_STEP))
        .ceil()
        // A thin contour across a page would become hundreds of points otherwise.
        .clamp(1.0, 64.0) as i32;
    let (above, beyond) = (height * REACH_ABOVE, (height * REACH_BEYOND) as i32);
    let (mut top, mut bottom) = (Contour::new(), Contour::new());
    for column in 0..=columns {
        let x = bounds.x + (bounds.width - 1) * column / columns;
        let Some((upper, lower)) = spans(x) else { continue };
        // A band that is thin here, as at its rounded ends, is given its usual height.
        let slack = (height - (lower - upper)).max(0.0) / 2.0;
        let outer = match column {
            0 => x - beyond,
            last if last == columns => right + beyond,
            _ => x,
        };
        top.push(Point::new(outer, (upper - slack - above).round() as i32));
        bottom.push(Point::new(
            outer,
            (lower + slack + height * REACH_BELOW).round() as i32,
        ));
    }
    bottom.reverse();
    top.append(&mut bottom);
    top
}

/// Highest and lowest point of a closed polygon at `x`.
fn vertical_span(polygon: &[Point], x: f64) -> Option<(f64, f64)> {
    let mut span: Option<(f64, f64)> = None;
    let next = polygon.iter().cycle().skip(1);
    for (from, to) in polygon.iter().zip(next) {
        let (from, to) = if from.x <= to.x { (from, to) } else { (to, from) };
        if x < f64::from(from.x) || x > f64::from(to.x) {
            continue;
        }
        let run = f64::from(to.x - from.x);
        let along = if run > 0.0 {
            (x - f64::from(from.x)) / run
        } else {
            0.0
        };
        let crossing = f64::from(from.y) + along * f64::from(to.y - from.y);
        // An upright edge lies at this column with all of its points.
        let ends = if run > 0.0 {
            [crossing, crossing]
        } else {
            [f64::from(from.y), f64::from(to.y)]
        };
        for y in ends {
            span = Some(span.map_or((y, y), |(upper, lower)| (upper.min(y), lower.max(y))));
        }
    }
    span
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_band_grows_on_all_sides() {
        let core = vec![
            Point::new(100, 40),
            Point::new(499, 40),
            Point::new(499, 60),
            Point::new(100, 60),
        ];
        let bounds = bounding_rect(&line_outline(&core));
        assert_eq!((bounds.x, bounds.y), (94, 26));
        assert_eq!((bounds.width, bounds.height), (412, 58));
    }

    #[test]
    fn the_outline_follows_a_slope() {
        let core = vec![
            Point::new(0, 0),
            Point::new(400, 80),
            Point::new(400, 100),
            Point::new(0, 20),
        ];
        let outline = line_outline(&core);
        let top_left = outline[0];
        let top_right = outline[outline.len() / 2 - 1];
        assert!(top_right.y - top_left.y > 70, "{top_left:?} {top_right:?}");
    }

    #[test]
    fn degenerate_contours_have_an_outline() {
        assert!(line_outline(&[]).is_empty());
        assert!(line_outline(&[Point::new(5, 5)]).len() >= 2);
    }
}
