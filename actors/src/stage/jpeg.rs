//! Grey JPEG, as pages and lines travel between stages.

use image::GrayImage;
use jpeg_encoder::{ColorType, Encoder, EncodingError};

/// High enough that the recogniser reads the same from the file as from the pixels.
const QUALITY: u8 = 92;
/// A JPEG's header has sixteen bits for each side.
const MAX_SIDE: u32 = u16::MAX as u32;

/// Why an image cannot be a JPEG.
#[derive(Debug, thiserror::Error)]
pub(super) enum JpegError {
    #[error("an image of {width} x {height} pixels does not fit a JPEG, whose sides end at {MAX_SIDE}")]
    TooLarge { width: u32, height: u32 },
    #[error(transparent)]
    Encoding(#[from] EncodingError),
}

pub(super) fn encode_jpeg(image: &GrayImage) -> Result<Vec<u8>, JpegError> {
    let (width, height) = image.dimensions();
    let too_large = |_| JpegError::TooLarge { width, height };
    let (columns, rows) = (
        u16::try_from(width).map_err(too_large)?,
        u16::try_from(height).map_err(too_large)?,
    );
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes, QUALITY).encode(image.as_raw(), columns, rows, ColorType::Luma)?;
    Ok(bytes)
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

    #[test]
    fn a_scroll_that_is_too_long_is_an_error() {
        let image = GrayImage::new(70_000, 1);
        assert!(matches!(
            encode_jpeg(&image),
            Err(JpegError::TooLarge {
                width: 70_000,
                height: 1
            })
        ));
    }
}
