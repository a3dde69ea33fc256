//! The line preprocessing of `ocr-inference` and the desktop application (`_pad_ocr_line`, `_prepare_ocr_line`).

use image::{GrayImage, imageops};

use super::PreparedLine;
use super::bdrc::{padded, signs};
use crate::page::resize::resize_linear;
use crate::page::threshold::adaptive_gaussian;

const THRESHOLD_BLOCK: u32 = 51;
const THRESHOLD_OFFSET: i32 = 13;

/// Fits the line into the middle of the canvas with its aspect kept, and binarises the whole canvas. The canvas is black,
/// which the threshold makes paper but for a band around the line. The image has pixels.
pub(super) fn prepare(line: &GrayImage, width: u32, height: u32, pre_pad: bool) -> PreparedLine {
    let pad = if pre_pad { line.height() } else { 0 };
    let line_width = line.width();
    let line = padded(line, pad);
    let (by_width, by_height) = (
        f64::from(width) / f64::from(line.width()),
        f64::from(height) / f64::from(line.height()),
    );
    let scaled = |side: u32, ratio: f64, most: u32| ((f64::from(side) * ratio) as u32).clamp(1, most.max(1));
    // The side that limits is set exactly; multiplied by the ratio it might be a pixel short by rounding.
    let (ratio, new_width, new_height) = if by_width <= by_height {
        (by_width, width, scaled(line.height(), by_width, height))
    } else {
        (by_height, scaled(line.width(), by_height, width), height)
    };
    let resized = resize_linear(&*line, new_width, new_height);
    let mut canvas = GrayImage::new(width, height);
    let (left, top) = ((width - new_width) / 2, (height - new_height) / 2);
    imageops::replace(&mut canvas, &resized, i64::from(left), i64::from(top));
    PreparedLine {
        height: height as usize,
        width: width as usize,
        values: signs(&adaptive_gaussian(&canvas, THRESHOLD_BLOCK, THRESHOLD_OFFSET)),
        left_pad: left as usize + (f64::from(pad) * ratio) as usize,
        content_width: (f64::from(line_width) * ratio) as usize,
        shown: 0..line_width,
        inked: None,
    }
}
