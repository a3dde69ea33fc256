//! Pictures of one line: crops from a page, on which the segmenter marks the edges of the neighbouring lines as well.

use super::DetectionConfig;
use crate::inference::Classes;
use crate::page::geometry::{Contour, Point, bounding_rect, last_pixel};

/// Largest height of a small picture, in pixels.
const SMALL_HEIGHT: u32 = 256;
/// A picture so many times as wide as it is high is of one line if it is small, or if few rows are found on it.
const LONG_ASPECT: u32 = 12;
/// A small one may be shorter, if few rows are found on it. No leaf is both so small and so long.
const LEAST_ASPECT: u32 = 6;
/// The line itself and what shows of its neighbours; where more rows are found, the picture is a page.
const MOST_ROWS: usize = 4;

/// Returns whether a picture of this size, on which these lines were found, shows one line.
pub(super) fn is_one_line(
    (width, height): (u32, u32),
    contours: &[Contour],
    config: &DetectionConfig,
) -> bool {
    let is_small = height <= SMALL_HEIGHT;
    // Divided and not multiplied, which could overflow.
    let is_long = width / LONG_ASPECT >= height;
    let is_strip = is_long || (is_small && width / LEAST_ASPECT >= height);
    config.line_pictures
        && config.classes == Classes::Line
        && is_strip
        && ((is_long && is_small) || rows(contours) <= MOST_ROWS)
}

/// The whole picture.
pub(super) fn whole(size: (u32, u32)) -> Contour {
    let Point { x: right, y: bottom } = last_pixel(size);
    [(0, 0), (0, bottom), (right, bottom), (right, 0)]
        .map(|(x, y)| Point::new(x, y))
        .to_vec()
}

/// Number of contours that lie one below another.
fn rows(contours: &[Contour]) -> usize {
    let mut spans: Vec<(i32, i32)> = contours
        .iter()
        .map(|contour| bounding_rect(contour))
        .map(|bounds| (bounds.y, bounds.y + bounds.height))
        .collect();
    spans.sort_unstable_by_key(|(top, bottom)| top + bottom);
    let mut rows = 0;
    let mut end = i32::MIN;
    for (top, bottom) in spans {
        // A contour whose middle lies below the row before begins another one; parts of a broken line overlap
        // by more.
        if (top + bottom) / 2 >= end {
            rows += 1;
            end = bottom;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(x: i32, y: i32) -> Contour {
        [(x, y), (x, y + 10), (x + 300, y + 10), (x + 300, y)]
            .map(|(x, y)| Point::new(x, y))
            .to_vec()
    }

    fn is_line(size: (u32, u32), bars: &[(i32, i32)]) -> bool {
        let contours: Vec<Contour> = bars.iter().map(|&(x, y)| bar(x, y)).collect();
        is_one_line(size, &contours, &DetectionConfig::default())
    }

    #[test]
    fn crops_of_lines_are_told_from_leaves() {
        let beside = [(0, 0), (0, 40), (400, 42), (0, 80)];
        assert!(is_line((1654, 90), &beside));
        assert!(is_line((1600, 255), &[]));
        assert!(is_line((4800, 400), &beside));
        assert!(!is_line((2800, 399), &beside), "a leaf of few lines");
        assert!(!is_line((1280, 232), &beside), "a small leaf");
    }

    #[test]
    fn many_rows_make_a_page_unless_it_is_both_small_and_long() {
        let rows = [(0, 0), (0, 15), (0, 30), (0, 45), (0, 60)];
        assert!(!is_line((1600, 250), &rows));
        assert!(is_line((1600, 250), &rows[1..]));
        assert!(!is_line((9000, 700), &rows), "a scroll");
        assert!(is_line((1654, 90), &rows));
    }

    #[test]
    fn upstream_knows_no_pictures_of_lines() {
        assert!(!is_one_line((1654, 90), &[], &DetectionConfig::ldv1()));
    }
}
