//! Lines as ink maps of one height.

use std::num::NonZeroU16;
use std::ops::Range;

use image::GrayImage;

use super::strokes::even_strokes;
use super::{LineImage, PreparedLine};
use crate::page::resize::resize_area;

const MIN_WIDTH: f64 = 16.0;
/// Largest ratio of width to height; longer lines are squeezed, and only a broken cut is 128 times as long as it is high.
const MAX_WIDTH_IN_HEIGHTS: f64 = 128.0;

/// Blank paper that is left beside the ink, in heights of the line. A long blank end, as where the contour of a line runs on
/// towards the next column, makes the network unsure of a line that it reads well.
const MARGIN_IN_HEIGHTS: f64 = 0.5;
/// The least ink that is not paper.
const LEAST_INK: f32 = 0.25;

/// Percentiles of the ink that become 0 and 1.
const PAPER_PERCENTILE: f64 = 25.0;
const INK_PERCENTILE: f64 = 98.5;
/// Least difference between the two, so that an empty line does not become noise.
const MIN_CONTRAST: f64 = 0.05;

/// Scales the line to `height`, with its aspect kept unless the distance of its strokes is given. The image has pixels.
pub(super) fn prepare(line: &LineImage<'_>, height: u32, stroke_pitch: Option<NonZeroU16>) -> PreparedLine {
    let target_height = f64::from(height);
    let width = f64::from(line.image.width()) * target_height / f64::from(line.image.height());
    let width = width
        .round_ties_even()
        .clamp(MIN_WIDTH, MAX_WIDTH_IN_HEIGHTS * target_height.max(1.0)) as u32;
    let resized = resize_area(line.image, width, height);
    let levels = if line.bilevel {
        ink_of_level(0.0, 1.0)
    } else {
        stretched_ink(&resized)
    };
    let ink: Vec<f32> = resized
        .as_raw()
        .iter()
        .map(|&level| levels[usize::from(level)])
        .collect();
    let all_columns = width as usize;
    let inked = inked_columns(&ink, all_columns, (target_height * MARGIN_IN_HEIGHTS) as usize);
    let rows = inked_rows(&ink, all_columns);
    let ink = ink
        .chunks_exact(all_columns)
        .flat_map(|row| &row[inked.clone()])
        .copied()
        .collect();
    let (values, width) = match stroke_pitch {
        Some(pitch) => even_strokes(ink, inked.len(), pitch),
        None => (ink, inked.len()),
    };
    // In columns of the image that was cut, before it was scaled: pages know no others.
    let in_image = |column| (column as u64 * u64::from(line.image.width()) / all_columns as u64) as u32;
    let row_in_image = |row: f64| row * f64::from(line.image.height()) / target_height;
    PreparedLine {
        height: height as usize,
        width,
        values,
        left_pad: 0,
        content_width: width,
        shown: in_image(inked.start)..in_image(inked.end),
        inked: Some(
            row_in_image(rows.start as f64).floor() as u32..row_in_image(rows.end as f64).ceil() as u32,
        ),
    }
}

/// The rows from the first ink to the last; all of them without ink. Two pixels are ink and one is a speck.
fn inked_rows(ink: &[f32], width: usize) -> Range<usize> {
    let has_ink = |row: &[f32]| row.iter().filter(|&&value| value >= LEAST_INK).nth(1).is_some();
    let rows = ink.chunks_exact(width);
    match (rows.clone().position(has_ink), rows.clone().rposition(has_ink)) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..rows.len(),
    }
}

/// The columns from the first ink to the last, with the margin on both sides; all of them without ink.
fn inked_columns(ink: &[f32], width: usize, margin: usize) -> Range<usize> {
    let mut inked = vec![false; width];
    for row in ink.chunks_exact(width) {
        for (inked, &value) in inked.iter_mut().zip(row) {
            *inked |= value >= LEAST_INK;
        }
    }
    match (
        inked.iter().position(|&ink| ink),
        inked.iter().rposition(|&ink| ink),
    ) {
        (Some(first), Some(last)) => first.saturating_sub(margin)..(last + 1 + margin).min(width),
        _ => 0..width,
    }
}

/// The ink that each grey level stands for if `low` becomes 0 and `high` becomes 1.
fn ink_of_level(low: f64, high: f64) -> [f32; 256] {
    std::array::from_fn(|level| {
        let ink = 1.0 - level as f64 / 255.0;
        ((ink - low) / (high - low)).clamp(0.0, 1.0) as f32
    })
}

fn stretched_ink(image: &GrayImage) -> [f32; 256] {
    let mut histogram = [0_usize; 256];
    for &level in image.as_raw() {
        // Counted by ink, the opposite of grey, as percentiles are taken of ink.
        histogram[usize::from(u8::MAX - level)] += 1;
    }
    let low = percentile(&histogram, PAPER_PERCENTILE) / 255.0;
    let high = percentile(&histogram, INK_PERCENTILE) / 255.0;
    ink_of_level(low, low + (high - low).max(MIN_CONTRAST))
}

/// Percentile of a histogram's values, linear between neighbours (NumPy's `percentile`); 0 if it is empty.
fn percentile(histogram: &[usize; 256], percent: f64) -> f64 {
    let count: usize = histogram.iter().sum();
    let position = percent / 100.0 * count.saturating_sub(1) as f64;
    let (below, fraction) = (position as usize, position.fract());
    let (mut low, mut seen) = (None, 0);
    for (value, &times) in histogram.iter().enumerate() {
        seen += times;
        if low.is_none() && seen > below {
            low = Some(value as f64);
        }
        if let Some(low) = low
            && (fraction == 0.0 || seen > below + 1)
        {
            return low + (value as f64 - low) * fraction;
        }
    }
    low.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use image::Luma;

    use super::*;

    fn histogram(values: &[u8]) -> [usize; 256] {
        let mut histogram = [0; 256];
        for &value in values {
            histogram[usize::from(value)] += 1;
        }
        histogram
    }

    #[test]
    fn percentiles_are_linear_between_values() {
        assert_eq!(percentile(&histogram(&[10, 20, 30, 40]), 25.0), 17.5);
        assert_eq!(percentile(&histogram(&[10, 20, 30, 40, 50]), 25.0), 20.0);
        assert_eq!(percentile(&histogram(&[10, 20, 30, 40]), 98.5), 39.55);
        assert_eq!(percentile(&histogram(&[7; 9]), 25.0), 7.0);
        assert!((percentile(&histogram(&[0, 255]), 98.5) - 251.175).abs() < 1e-9);
        assert_eq!(percentile(&[0; 256], 25.0), 0.0);
    }

    #[test]
    fn width_follows_the_aspect_within_bounds() {
        let width = |w, h| {
            let image = GrayImage::new(w, h);
            prepare(
                &LineImage {
                    image: &image,
                    bilevel: true,
                },
                64,
                None,
            )
            .width
        };
        assert_eq!(width(1000, 100), 640);
        assert_eq!(width(2, 100), 16);
        assert_eq!(width(9000, 2), 8192);
        assert_eq!(width(101, 128), 50);
        assert_eq!(width(103, 128), 52);
    }

    #[test]
    fn grey_is_stretched_and_bilevel_is_not() {
        let image = GrayImage::from_fn(640, 64, |x, _| Luma([if x % 8 == 0 { 100 } else { 200 }]));
        let grey = prepare(
            &LineImage {
                image: &image,
                bilevel: false,
            },
            64,
            None,
        );
        assert_eq!((grey.values[0], grey.values[1]), (1.0, 0.0));
        let bilevel = prepare(
            &LineImage {
                image: &image,
                bilevel: true,
            },
            64,
            None,
        );
        assert!((bilevel.values[0] - 155.0 / 255.0).abs() < 1e-6);
        assert!((bilevel.values[1] - 55.0 / 255.0).abs() < 1e-6);
    }

    #[test]
    fn blank_ends_are_left_out() {
        let image = GrayImage::from_fn(2000, 128, |x, _| {
            Luma([if (600..1000).contains(&x) { 0 } else { 255 }])
        });
        for bilevel in [true, false] {
            let line = prepare(
                &LineImage {
                    image: &image,
                    bilevel,
                },
                64,
                None,
            );
            assert_eq!((line.width, line.content_width), (264, 264));
            assert_eq!(line.shown, 536..1064);
            assert_eq!(line.values[31..33], [0.0, 1.0]);
        }
    }

    #[test]
    fn the_rows_with_ink_are_told() {
        let prepared = |is_ink: fn(u32, u32) -> bool| {
            let image = GrayImage::from_fn(500, 128, |x, y| Luma([if is_ink(x, y) { 0 } else { 255 }]));
            let line = LineImage {
                image: &image,
                bilevel: true,
            };
            prepare(&line, 64, None).inked
        };
        let word = |x, y| (30..80).contains(&y) && (100..300).contains(&x) && x % 8 < 4;
        assert_eq!(prepared(word), Some(30..80));
        // A speck above it.
        assert_eq!(
            prepared(|x, y| (30..80).contains(&y) && x % 8 < 4 || (x, y) == (77, 5)),
            Some(30..80)
        );
        assert_eq!(prepared(|_, _| false), Some(0..128));
    }

    #[test]
    fn empty_paper_stays_empty() {
        let paper = GrayImage::from_pixel(300, 64, Luma([231]));
        let prepared = prepare(
            &LineImage {
                image: &paper,
                bilevel: false,
            },
            64,
            None,
        );
        assert!(prepared.values.iter().all(|&ink| ink == 0.0));
    }
}
