//! Rows of lines as the first generation finds them: half a line pitch is measured on the mask, and lines are taken in
//! the order in which they were found.

use image::{GrayImage, imageops};

use super::TextLine;
use crate::page::contours::find_contours;
use crate::page::geometry::{Rect, bounding_rect};

/// Width of the columns of the mask in which lines are counted.
const STRIP: u32 = 20;

/// Parts of lines in rows from top to bottom, each row from left to right (`sort_lines_by_threshold2` of
/// `ocr-inference`). `parts` are in the order of [`find_contours`], which is from bottom to top; a part belongs to a row
/// while its centre is within the threshold of the mean of the row's centres.
///
/// Upstream finds lines again by their centres, so that of two with the same centre one is lost or both are doubled. Here
/// each stays itself.
pub(super) fn running_rows(parts: Vec<TextLine>, threshold: f64) -> Vec<Vec<TextLine>> {
    let mut rows: Vec<Vec<TextLine>> = Vec::new();
    for part in parts {
        match rows.last_mut() {
            Some(row) if (mean_center(row) - f64::from(part.center.y)).abs() <= threshold => row.push(part),
            _ => rows.push(vec![part]),
        }
    }
    for row in &mut rows {
        row.sort_by_key(|part| part.center.x);
    }
    // The parts came from bottom to top.
    rows.reverse();
    rows
}

fn mean_center(row: &[TextLine]) -> f64 {
    row.iter().map(|part| f64::from(part.center.y)).sum::<f64>() / row.len() as f64
}

/// About half the distance between two lines, in pixels of the mask; 0 where no strip crosses a line
/// (`get_line_threshold` of `ocr-inference`): in the strip with the most lines, the middle of their block over their number.
pub(super) fn half_pitch(mask: &GrayImage) -> f64 {
    let Some(text) = extent(mask) else { return 0.0 };
    let (left, top) = (text.x as u32, text.y as u32);
    let (width, height) = (text.width as u32, text.height as u32);
    let strips = width / STRIP / 2;
    let mut most: Vec<i32> = Vec::new();
    for strip in 1..=strips {
        // The distance from the left edge grows with the number of strips, and may leave the page.
        let from = u64::from(left) + u64::from(strips) * u64::from(strip);
        let Some(from) = u32::try_from(from).ok().filter(|from| *from < mask.width()) else {
            break;
        };
        let lines = find_contours(&imageops::crop_imm(mask, from, top, STRIP, height).to_image());
        // Strictly, as upstream keeps the first of equal strips.
        if lines.len() > most.len() {
            most = lines.iter().map(|line| middle(bounding_rect(line))).collect();
        }
    }
    most.sort_unstable();
    let median = match most.len() {
        0 => return 0.0,
        count if count % 2 == 1 => f64::from(most[count / 2]),
        count => f64::from(most[count / 2 - 1] + most[count / 2]) / 2.0,
    };
    // Half the height of the block of text over the number of its lines is half a pitch.
    (median / most.len() as f64).floor()
}

fn middle(bounds: Rect) -> i32 {
    bounds.y + bounds.height / 2
}

/// The box of everything that is not 0.
fn extent(mask: &GrayImage) -> Option<Rect> {
    let width = mask.width() as usize;
    let mut ends: Option<(usize, usize, usize, usize)> = None;
    for (y, row) in mask.as_raw().chunks_exact(width.max(1)).enumerate() {
        let (Some(first), Some(last)) = (row.iter().position(|&v| v > 0), row.iter().rposition(|&v| v > 0))
        else {
            continue;
        };
        let (left, top, right, _) = ends.unwrap_or((first, y, last, y));
        ends = Some((left.min(first), top, right.max(last), y));
    }
    let (left, top, right, bottom) = ends?;
    Some(Rect {
        x: left as i32,
        y: top as i32,
        width: (right - left) as i32 + 1,
        height: (bottom - top) as i32 + 1,
    })
}

#[cfg(test)]
mod tests {
    use image::Luma;

    use super::*;
    use crate::page::geometry::Point;

    fn part(x: i32, y: i32) -> TextLine {
        let corners = [(x, y), (x, y + 20), (x + 100, y + 20), (x + 100, y)];
        TextLine::new(0, corners.map(|(x, y)| Point::new(x, y)).to_vec()).unwrap()
    }

    #[test]
    fn half_the_pitch_of_even_lines() {
        // Ten lines at a pitch of 40: the middle of the block is at 190, and a tenth of that is 19.
        let mask = GrayImage::from_fn(1000, 500, |x, y| {
            let in_line = (50..450).contains(&y) && (y - 50) % 40 < 20 && (100..900).contains(&x);
            Luma([if in_line { 255 } else { 0 }])
        });
        assert_eq!(half_pitch(&mask), 19.0);
    }

    #[test]
    fn nothing_is_measured_without_lines_or_on_a_narrow_text() {
        assert_eq!(half_pitch(&GrayImage::new(300, 200)), 0.0);
        let narrow = GrayImage::from_fn(300, 200, |x, _| Luma([if x < 30 { 255 } else { 0 }]));
        assert_eq!(half_pitch(&narrow), 0.0);
        assert_eq!(half_pitch(&GrayImage::new(0, 0)), 0.0);
    }

    #[test]
    fn a_row_follows_its_mean_and_rows_are_reversed() {
        let parts = vec![part(300, 212), part(0, 205), part(600, 219), part(0, 100)];
        let rows = running_rows(parts, 12.0);
        let lefts: Vec<Vec<i32>> = rows
            .iter()
            .map(|row| row.iter().map(|part| part.bounding_box.x).collect())
            .collect();
        assert_eq!(lefts, [vec![0], vec![0, 300, 600]]);
    }
}
