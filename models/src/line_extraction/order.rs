//! Text lines in reading order, made of contours.

use image::GrayImage;

use super::columns::columns;
use super::level::Course;
use super::running_rows::{half_pitch, running_rows};
use super::{ExtractionConfig, TextLine};
use crate::median::median;
use crate::page::geometry::{Contour, arc_length, convex_hull, simplify};

/// Share of the median line height within which two parts belong to one row.
const ROW_SHARE: f64 = 0.5;

/// Grouping of parts of lines into rows.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// Grouping by the heights of the parts, as BDRC's `ocrv1` does, or by `merge_threshold`.
    ByHeight,
    /// Grouping by the line mask of the page and the order of the contours, as `ocr-inference` does. The mask has the resolution
    /// of the contours, and these are in the order of [`find_contours`](crate::page::contours::find_contours).
    ByMask(&'a GrayImage),
}

/// Builds text lines: simplifies contours, joins those in one row (unless the configuration says otherwise), and orders
/// them top to bottom, then left to right. Empty contours are dropped.
///
/// Columns of text side by side come one after the other if they are split; otherwise they are joined too, as rows are all that is looked at
/// then (BDRC's programs do the same).
pub fn build_lines(contours: Vec<Contour>, rows: Rows<'_>, config: &ExtractionConfig) -> Vec<TextLine> {
    let parts: Vec<TextLine> = contours
        .into_iter()
        .filter_map(|contour| {
            let course = Course::of(&contour);
            TextLine::with_course(0, simplified(contour, config.simplify), course)
        })
        .collect();
    let blocks = if config.split_columns {
        columns(parts)
    } else {
        vec![parts]
    };
    let half_pitch = match rows {
        Rows::ByHeight => None,
        Rows::ByMask(mask) => Some(half_pitch(mask)),
    };
    let rows = blocks.into_iter().flat_map(|block| match half_pitch {
        None => rows_by_height(block, config.merge_threshold),
        Some(half_pitch) => running_rows(block, half_pitch),
    });
    let mut lines: Vec<TextLine> = if config.merge_lines {
        rows.filter_map(joined).collect()
    } else {
        rows.flatten().collect()
    };
    for (index, line) in lines.iter_mut().enumerate() {
        line.index = index;
    }
    lines
}

fn simplified(contour: Contour, share: f64) -> Contour {
    if share <= 0.0 {
        return contour;
    }
    simplify(&contour, share * arc_length(&contour))
}

/// Parts in rows from top to bottom, each row from left to right. A part belongs to the current row while its middle is
/// within `threshold` of the middle of the row's first part.
fn rows_by_height(mut parts: Vec<TextLine>, threshold: Option<f64>) -> Vec<Vec<TextLine>> {
    let threshold = threshold.unwrap_or_else(|| ROW_SHARE * median_height(&parts));
    // Doubled middles are whole numbers, so that half pixels need no floats; the sort is stable.
    parts.sort_by_key(TextLine::doubled_middle_y);
    let mut rows: Vec<Vec<TextLine>> = Vec::new();
    for part in parts {
        match rows.last_mut() {
            // Measured from the first part of the row and not from the last, so that a row of many parts
            // cannot drift into the next.
            Some(row) if (part.doubled_middle_y() - row[0].doubled_middle_y()) as f64 <= 2.0 * threshold => {
                row.push(part);
            }
            _ => rows.push(vec![part]),
        }
    }
    for row in &mut rows {
        row.sort_by_key(TextLine::doubled_middle_x);
    }
    rows
}

fn joined(row: Vec<TextLine>) -> Option<TextLine> {
    if row.len() == 1 {
        return row.into_iter().next();
    }
    let course = Course::joined(row.iter().map(|part| &part.course));
    let points: Contour = row.into_iter().flat_map(|part| part.contour).collect();
    // The hull covers the gaps between the parts too, so that one image shows the whole row.
    TextLine::with_course(0, convex_hull(&points), course)
}

fn median_height(lines: &[TextLine]) -> f64 {
    median(lines.iter().map(|line| f64::from(line.bounding_box.height))).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::geometry::{Point, bounding_rect};
    use proptest::prelude::*;

    fn block(x: i32, y: i32, width: i32, height: i32) -> Contour {
        let (right, bottom) = (x + width - 1, y + height - 1);
        vec![
            Point::new(x, y),
            Point::new(x, bottom),
            Point::new(right, bottom),
            Point::new(right, y),
        ]
    }

    fn block_strategy() -> impl Strategy<Value = Contour> {
        (0..2000, 0..900, 2..600, 5..60).prop_map(|(x, y, width, height)| block(x, y, width, height))
    }

    #[test]
    fn rows_are_joined_and_ordered() {
        let contours = vec![
            block(500, 102, 300, 40),
            block(10, 200, 700, 40),
            block(10, 98, 400, 40),
        ];
        let lines = build_lines(contours, Rows::ByHeight, &ExtractionConfig::default());
        let boxes: Vec<_> = lines.iter().map(|line| line.bounding_box).collect();
        assert_eq!(lines.iter().map(|line| line.index).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(
            (boxes[0].x, boxes[0].y, boxes[0].width, boxes[0].height),
            (10, 98, 790, 44)
        );
        assert_eq!((boxes[1].x, boxes[1].y), (10, 200));
    }

    #[test]
    fn a_threshold_from_the_configuration_is_used() {
        let contours = vec![block(0, 100, 100, 40), block(200, 130, 100, 40)];
        let narrow = ExtractionConfig {
            merge_threshold: Some(5.0),
            ..ExtractionConfig::default()
        };
        let wide = ExtractionConfig {
            merge_threshold: Some(30.0),
            ..ExtractionConfig::default()
        };
        assert_eq!(build_lines(contours.clone(), Rows::ByHeight, &narrow).len(), 2);
        assert_eq!(build_lines(contours, Rows::ByHeight, &wide).len(), 1);
    }

    #[test]
    fn no_contours_no_lines() {
        let lines = |contours| build_lines(contours, Rows::ByHeight, &ExtractionConfig::default());
        assert_eq!(lines(Vec::new()), []);
        assert_eq!(lines(vec![Vec::new()]), []);
    }

    proptest! {
        #[test]
        fn ordering_is_a_permutation(contours in prop::collection::vec(block_strategy(), 0..30)) {
            let config = ExtractionConfig { merge_lines: false, simplify: 0.0, ..ExtractionConfig::default() };
            let mut ordered: Vec<Contour> =
                build_lines(contours.clone(), Rows::ByHeight, &config).into_iter().map(|line| line.contour).collect();
            let mut given = contours;
            ordered.sort();
            given.sort();
            prop_assert_eq!(ordered, given);
        }

        #[test]
        fn joining_loses_no_point(contours in prop::collection::vec(block_strategy(), 1..20)) {
            let all: Contour = contours.iter().flatten().copied().collect();
            let lines = build_lines(contours, Rows::ByHeight, &ExtractionConfig::default());
            for point in &all {
                let inside = lines.iter().any(|line| {
                    let hull = convex_hull(&line.contour);
                    let mut with_point = hull.clone();
                    with_point.push(*point);
                    convex_hull(&with_point).len() <= hull.len()
                        && bounding_rect(&with_point) == bounding_rect(&hull)
                });
                prop_assert!(inside, "{:?}", point);
            }
        }
    }
}
