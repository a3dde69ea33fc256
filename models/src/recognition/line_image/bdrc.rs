//! The line preprocessing of bec-orchestration's `ocrv1` job (`LineDecoder._preprocess_line`).

use std::borrow::Cow;

use image::{GrayImage, Luma, imageops};

use super::PreparedLine;
use crate::page::resize::resize_area;
use crate::page::threshold::adaptive_gaussian;

const PAPER: Luma<u8> = Luma([u8::MAX]);
const THRESHOLD_BLOCK: u32 = 31;
const THRESHOLD_OFFSET: i32 = 15;

/// Fits the line into the canvas with its aspect kept, at the left edge and in the middle of the height, and binarises
/// the whole canvas. The image has pixels.
pub(super) fn prepare(line: &GrayImage, width: u32, height: u32, pre_pad: bool) -> PreparedLine {
    let pad = if pre_pad { line.height() } else { 0 };
    let padded_width = line.width() + 2 * pad;
    let (target_width, target_height) = (f64::from(width), f64::from(height));
    let aspect = f64::from(padded_width) / f64::from(line.height());
    // Cut off and not rounded, as in `ocrv1`: the threshold sees other pixels at another size.
    let (new_width, new_height) = if aspect > target_width / target_height {
        (width, ((target_width / aspect) as u32).max(1))
    } else {
        (((target_height * aspect) as u32).max(1), height)
    };
    let resized = resize_area(&padded(line, pad), new_width, new_height);
    let mut canvas = GrayImage::from_pixel(width, height, PAPER);
    imageops::replace(&mut canvas, &resized, 0, i64::from((height - new_height) / 2));
    let binary = adaptive_gaussian(&canvas, THRESHOLD_BLOCK, THRESHOLD_OFFSET);

    let scale = f64::from(new_width) / f64::from(padded_width);
    PreparedLine {
        height: height as usize,
        width: width as usize,
        values: signs(&binary),
        left_pad: (f64::from(pad) * scale) as usize,
        content_width: (f64::from(line.width()) * scale) as usize,
        shown: 0..line.width(),
        inked: None,
    }
}

/// The line with `pad` columns of paper before and after it.
pub(super) fn padded(line: &GrayImage, pad: u32) -> Cow<'_, GrayImage> {
    if pad == 0 {
        return Cow::Borrowed(line);
    }
    let mut padded = GrayImage::from_pixel(line.width() + 2 * pad, line.height(), PAPER);
    imageops::replace(&mut padded, line, i64::from(pad), 0);
    Cow::Owned(padded)
}

/// Ink as -1 and paper as 1.
pub(super) fn signs(binary: &GrayImage) -> Vec<f32> {
    let sign = |&pixel: &u8| if pixel == 0 { -1.0 } else { 1.0 };
    binary.iter().map(sign).collect()
}
