//! The line preprocessing of bec-orchestration's `ocrv1` job (`LineDecoder._preprocess_line`).

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
    let (new_width, new_height) = if aspect > target_width / target_height {
        (width, ((target_width / aspect) as u32).max(1))
    } else {
        (((target_height * aspect) as u32).max(1), height)
    };
    let resized = if pad == 0 {
        resize_area(line, new_width, new_height)
    } else {
        let mut padded = GrayImage::from_pixel(padded_width, line.height(), PAPER);
        imageops::replace(&mut padded, line, i64::from(pad), 0);
        resize_area(&padded, new_width, new_height)
    };
    let mut canvas = GrayImage::from_pixel(width, height, PAPER);
    imageops::replace(&mut canvas, &resized, 0, i64::from((height - new_height) / 2));
    let binary = adaptive_gaussian(&canvas, THRESHOLD_BLOCK, THRESHOLD_OFFSET);

    let scale = f64::from(new_width) / f64::from(padded_width);
    PreparedLine {
        height: height as usize,
        width: width as usize,
        values: binary
            .as_raw()
            .iter()
            .map(|&pixel| if pixel == 0 { -1.0 } else { 1.0 })
            .collect(),
        left_pad: (f64::from(pad) * scale) as usize,
        content_width: (f64::from(line.width()) * scale) as usize,
    }
}
