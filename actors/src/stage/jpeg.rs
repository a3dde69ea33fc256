//! Grey JPEG, as pages and lines travel between stages.

use image::GrayImage;
use parkhang_models::page::encode::{self, JpegError};

/// High enough that the recogniser reads the same from the file as from the pixels.
const QUALITY: u8 = 92;

pub(super) fn encode_jpeg(image: &GrayImage) -> Result<Vec<u8>, JpegError> {
    encode::encode_jpeg(image, QUALITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Luma;

    #[test]
    fn what_goes_in_comes_out_nearly() {
        let image = GrayImage::from_fn(60, 40, |x, y| {
            Luma([if (x / 8 + y / 8) % 2 == 0 { 20 } else { 235 }])
        });
        let decoded = image::load_from_memory(&encode_jpeg(&image).unwrap())
            .unwrap()
            .into_luma8();
        let worst = image
            .pixels()
            .zip(decoded.pixels())
            .map(|(a, b)| a.0[0].abs_diff(b.0[0]))
            .max();
        assert!(worst < Some(25), "{worst:?}");
    }
}
