//! Ink that the text of a page does not account for: a stamp's line of text over a scan says nothing of the scan.

use hayro_syntax::page::Page;
use image::{GrayImage, ImageBuffer, Luma};

use crate::content::Content;
use crate::geometry::Rect;
use crate::pixels;
use crate::text::Layer;

/// Share of the page that pictures must cover for a look at its ink.
const COVERED: f64 = 0.5;
/// Resolution of that look.
const DPI: f64 = 72.0;
/// Share of the ink that lies outside of words above which the text is beside the point. Right layers of the development set leave
/// less than a tenth outside, a stamp nine tenths; the value between is a guess.
const OUTSIDE: f32 = 0.6;
/// Ink outside of words, as a share of the page: below it is dirt, above it a photograph.
const TEXT_DENSITY: std::ops::RangeInclusive<f32> = 0.004..=0.25;
/// Longest mean run of ink along a row, in pixels, that strokes of letters have at this resolution.
const LONGEST_RUN: f32 = 5.0;
/// Space around words that counts as theirs, in points.
const MARGIN: f32 = 2.0;
/// Darkness of ink, as a share of the paper's lightness.
const INK: f32 = 0.7;

/// Share of the page's ink that lies outside of its words, if a picture covers most of the page and that share is large and looks like
/// text.
pub(super) fn uncovered(page: &Page<'_>, content: &Content, layer: &Layer) -> Option<f32> {
    if content.picture_share() < COVERED {
        return None;
    }
    let (gray, scale) = pixels::look(page, content, DPI);
    let words: Vec<Rect> = layer
        .words
        .iter()
        .map(|found| {
            let bbox = found.word.bbox;
            let at = |points: f32| points * scale;
            Rect {
                x0: at(bbox.x0 - MARGIN),
                y0: at(bbox.y0 - MARGIN),
                x1: at(bbox.x1 + MARGIN),
                y1: at(bbox.y1 + MARGIN),
            }
        })
        .collect();
    judge(&gray, &words)
}

fn judge(gray: &GrayImage, words: &[Rect]) -> Option<f32> {
    let (width, height) = gray.dimensions();
    let limit = f32::from(paper(gray)) * INK;
    let steps = steps(words, width, height);
    // Words over each pixel of the row.
    let mut over = vec![0_i32; width as usize];
    let (mut inside, mut outside, mut runs) = (0_u32, 0_u32, 0_u32);
    for (row, steps) in gray.rows().zip(steps.rows()) {
        let mut inked = false;
        let mut change = 0;
        for ((pixel, step), over) in row.zip(steps).zip(&mut over) {
            change += step.0[0];
            *over += change;
            let ink = f32::from(pixel.0[0]) < limit;
            if ink && *over > 0 {
                inside += 1;
            } else if ink {
                outside += 1;
                runs += u32::from(!inked);
            }
            inked = ink;
        }
    }
    let share = outside as f32 / (inside + outside).max(1) as f32;
    let density = outside as f32 / (width * height).max(1) as f32;
    let run = outside as f32 / runs.max(1) as f32;
    (share > OUTSIDE && TEXT_DENSITY.contains(&density) && run <= LONGEST_RUN).then_some(share)
}

/// Change of the number of words from pixel to pixel, along rows and from row to row: four numbers a word, however large it is, of which a page
/// may have very many.
fn steps(words: &[Rect], width: u32, height: u32) -> ImageBuffer<Luma<i32>, Vec<i32>> {
    let mut steps = ImageBuffer::new(width + 1, height + 1);
    let cut = |value: f32, most: u32| value.clamp(0.0, most as f32) as u32;
    for word in words {
        let (left, right) = (cut(word.x0, width), cut(word.x1.ceil(), width));
        let (top, bottom) = (cut(word.y0, height), cut(word.y1.ceil(), height));
        if left >= right || top >= bottom {
            continue;
        }
        for (x, y, step) in [
            (left, top, 1),
            (right, top, -1),
            (left, bottom, -1),
            (right, bottom, 1),
        ] {
            let Luma([sum]) = steps.get_pixel_mut(x, y);
            *sum += step;
        }
    }
    steps
}

/// Lightness of the paper: that of most light pixels.
fn paper(gray: &GrayImage) -> u8 {
    let mut counts = [0_u32; 256];
    for level in gray.as_raw() {
        if let Some(count) = counts.get_mut(usize::from(*level)) {
            *count += 1;
        }
    }
    let most = (0_u8..=255).zip(counts).skip(64).max_by_key(|(_, count)| *count);
    most.map_or(255, |(level, _)| level)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page with rows of short strokes.
    fn scan() -> GrayImage {
        GrayImage::from_fn(200, 200, |x, y| {
            let ink = y % 10 < 5 && x % 6 < 2 && (20..180).contains(&x) && (20..180).contains(&y);
            Luma([if ink { 30 } else { 240 }])
        })
    }

    fn words(until: f32) -> Vec<Rect> {
        vec![Rect {
            x0: 0.0,
            y0: 0.0,
            x1: 200.0,
            y1: until,
        }]
    }

    #[test]
    fn a_stamp_does_not_cover_a_scan_and_a_whole_layer_does() {
        assert!(judge(&scan(), &words(30.0)).is_some_and(|share| share > 0.8));
        assert_eq!(judge(&scan(), &words(200.0)), None);
    }

    #[test]
    fn as_many_words_as_a_page_may_have_take_no_time_by_their_size() {
        let page = GrayImage::from_pixel(1400, 1400, Luma([240]));
        let word = Rect {
            x0: -9.0,
            y0: 0.5,
            x1: 2000.0,
            y1: 1399.5,
        };
        assert_eq!(judge(&page, &vec![word; 1_000_000]), None);
    }

    #[test]
    fn words_are_where_their_corners_are() {
        let at = |x0, y0, x1, y1| Rect { x0, y0, x1, y1 };
        let words = [
            at(1.0, 1.0, 3.0, 3.0),
            at(2.0, 2.0, 9.0, 4.0),
            at(3.0, 0.0, 2.0, 9.0),
            at(f32::NAN, 0.0, 1.0, 1.0),
        ];
        let steps = steps(&words, 4, 4);
        let over = |x: u32, y: u32| -> i32 {
            (0..=y)
                .flat_map(|y| (0..=x).map(move |x| (x, y)))
                .map(|(x, y)| steps.get_pixel(x, y).0[0])
                .sum()
        };
        let rows: Vec<Vec<i32>> = (0..4).map(|y| (0..4).map(|x| over(x, y)).collect()).collect();
        assert_eq!(
            rows,
            [[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 2, 1], [0, 0, 1, 1]],
            "a corner that is no number is the page's"
        );
    }

    #[test]
    fn a_photograph_is_no_text_that_is_missing() {
        let photograph = GrayImage::from_fn(200, 200, |x, _| Luma([if x < 100 { 20 } else { 240 }]));
        assert_eq!(judge(&photograph, &words(10.0)), None);
    }
}
