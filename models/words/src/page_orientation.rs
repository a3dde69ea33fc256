//! The picture by which a page's orientation is told.

use image::{RgbImage, imageops};
use parkhang_cv::resize::resize_area;

use crate::imagenet::normalized;
use crate::inference::ImageBatch;

/// Side of the picture that the classifier takes.
const SIDE: u32 = 224;
/// Short side of the page that the picture is cut from.
const SHORT: u32 = 256;
/// Ratio of the sides up to which a page is scaled as a whole.
const LONGEST: u32 = 4;

/// The middle of a page, as the classifier takes it.
pub(crate) fn picture(page: &RgbImage) -> ImageBatch {
    let (width, height) = page.dimensions();
    // The picture is of the middle; what is far from it would only be scaled.
    let longest = width.min(height).saturating_mul(LONGEST);
    let (columns, rows) = (width.min(longest), height.min(longest));
    let cut;
    let page = if (columns, rows) == (width, height) {
        page
    } else {
        let (left, top) = ((width - columns) / 2, (height - rows) / 2);
        cut = imageops::crop_imm(page, left, top, columns, rows).to_image();
        &cut
    };
    let short = f64::from(columns.min(rows).max(1));
    let scaled = |side: u32| ((f64::from(side) * f64::from(SHORT) / short).round() as u32).max(SHORT);
    let small = resize_area(page, scaled(columns), scaled(rows));
    let (left, top) = ((small.width() - SIDE) / 2, (small.height() - SIDE) / 2);
    let middle = imageops::crop_imm(&small, left, top, SIDE, SIDE).to_image();
    ImageBatch {
        count: 1,
        height: SIDE as usize,
        width: SIDE as usize,
        values: normalized(middle.as_raw()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_gives_a_picture_of_one_size() {
        for (width, height) in [(1, 1), (1, 30_000), (500, 300), (224, 224)] {
            let picture = picture(&RgbImage::new(width, height));
            assert_eq!(picture.values.len(), 3 * 224 * 224);
        }
    }
}
