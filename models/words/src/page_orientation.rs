//! The picture by which a page's orientation is told.

use parkhang_cv::resize::resize_area;
use image::{RgbImage, imageops};

use crate::inference::ImageBatch;

/// Side of the picture that the classifier takes.
const SIDE: u32 = 224;
/// Short side of the page that the picture is cut from.
const SHORT: u32 = 256;
/// Means and deviations of ImageNet's channels, in the order in which the values below name them: red, green, blue.
const MEANS: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATIONS: [f32; 3] = [0.229, 0.224, 0.225];

/// The middle of a page, as the classifier takes it.
pub(crate) fn picture(page: &RgbImage) -> ImageBatch {
    let (width, height) = page.dimensions();
    let short = f64::from(width.min(height).max(1));
    let scaled = |side: u32| ((f64::from(side) * f64::from(SHORT) / short).round() as u32).max(SHORT);
    let small = resize_area(page, scaled(width), scaled(height));
    let (left, top) = ((small.width() - SIDE) / 2, (small.height() - SIDE) / 2);
    let middle = imageops::crop_imm(&small, left, top, SIDE, SIDE).to_image();
    ImageBatch {
        count: 1,
        height: SIDE as usize,
        width: SIDE as usize,
        values: normalized(middle.as_raw()),
    }
}

/// Pixels of an image in red, green and blue as planes, normalised with ImageNet's means and deviations.
pub(crate) fn normalized(pixels: &[u8]) -> Vec<f32> {
    let (pixels, _) = pixels.as_chunks::<3>();
    let mut values = Vec::with_capacity(3 * pixels.len());
    for channel in 0..3 {
        let (mean, deviation) = (MEANS[channel], DEVIATIONS[channel]);
        values.extend(
            pixels
                .iter()
                .map(|pixel| (f32::from(pixel[2 - channel]) / 255.0 - mean) / deviation),
        );
    }
    values
}
