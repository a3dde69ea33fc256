//! Grey JPEG: pages and lines between stages, and pictures for viewers.

use image::GrayImage;
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

/// Longest side, in pixels, that libjpeg accepts, and with it nearly every program that reads JPEG.
const MAX_SIDE: u32 = 65_500;

/// Reason why an image cannot be a JPEG.
#[derive(Debug, thiserror::Error)]
pub enum JpegError {
    /// A side is longer than the format, or the decoders in use, allow.
    #[error("an image of {width} x {height} pixels does not fit a JPEG, whose sides end at {MAX_SIDE}")]
    TooLarge { width: u32, height: u32 },
    /// The image has no pixels.
    #[error("an image of {width} x {height} pixels has nothing to encode")]
    Empty { width: u32, height: u32 },
    #[error(transparent)]
    Encoding(#[from] turbojpeg::Error),
}

/// Encodes the image as a JPEG of `quality`, from 1 to 100 as libjpeg counts it.
///
/// # Errors
///
/// When a side of the image is empty or longer than 65,500 pixels, or when the encoder fails.
pub fn encode_jpeg(image: &GrayImage, quality: u8) -> Result<Vec<u8>, JpegError> {
    let (width, height) = image.dimensions();
    if width == 0 || height == 0 {
        return Err(JpegError::Empty { width, height });
    }
    if width.max(height) > MAX_SIDE {
        return Err(JpegError::TooLarge { width, height });
    }
    let mut compressor = Compressor::new()?;
    compressor.set_quality(quality.into())?;
    compressor.set_subsamp(Subsamp::Gray)?;
    let jpeg = compressor.compress_to_vec(Image {
        pixels: image.as_raw().as_slice(),
        width: width as usize,
        pitch: width as usize,
        height: height as usize,
        format: PixelFormat::GRAY,
    })?;
    Ok(jpeg)
}

#[cfg(test)]
mod tests {
    use image::Luma;
    use proptest::prelude::*;

    use super::*;

    const QUALITY: u8 = 92;

    fn decoded(jpeg: &[u8]) -> GrayImage {
        let image = image::load_from_memory(jpeg).unwrap();
        assert_eq!(image.color(), image::ColorType::L8);
        image.into_luma8()
    }

    fn worst_difference(a: &GrayImage, b: &GrayImage) -> Option<u8> {
        let pixels = a.pixels().zip(b.pixels());
        pixels.map(|(a, b)| a.0[0].abs_diff(b.0[0])).max()
    }

    #[test]
    fn what_goes_in_comes_out_nearly() {
        let image = GrayImage::from_fn(60, 40, |x, y| {
            Luma([if (x / 8 + y / 8) % 2 == 0 { 20 } else { 235 }])
        });
        let worst = worst_difference(&image, &decoded(&encode_jpeg(&image, QUALITY).unwrap()));
        assert!(worst < Some(25), "{worst:?}");
    }

    proptest! {
        /// Most sizes are no multiple of the blocks of 8 x 8 pixels.
        #[test]
        fn any_size_comes_out_as_it_went_in((width, height) in (1..=70u32, 1..=70u32), slope in 0..4u32) {
            let image = GrayImage::from_fn(width, height, |x, y| Luma([(30 + slope * x / 2 + y) as u8]));
            let decoded = decoded(&encode_jpeg(&image, QUALITY).unwrap());
            prop_assert_eq!(decoded.dimensions(), (width, height));
            let worst = worst_difference(&image, &decoded);
            prop_assert!(worst < Some(8), "{:?}", worst);
        }
    }

    #[test]
    fn an_encoder_of_its_own_gives_the_same_bytes_in_every_thread() {
        let image = GrayImage::from_fn(300, 90, |x, y| Luma([(x * y % 251) as u8]));
        let here = encode_jpeg(&image, QUALITY).unwrap();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| encode_jpeg(&image, QUALITY).unwrap()))
                .collect();
            for thread in threads {
                assert!(thread.join().unwrap() == here);
            }
        });
    }

    #[test]
    fn the_longest_side_fits() {
        let image = GrayImage::from_pixel(MAX_SIDE, 1, Luma([200]));
        assert_eq!(
            decoded(&encode_jpeg(&image, QUALITY).unwrap()).dimensions(),
            (MAX_SIDE, 1)
        );
    }

    #[test]
    fn a_scroll_that_is_too_long_is_an_error() {
        for (width, height) in [(70_000, 1), (1, MAX_SIDE + 1)] {
            let error = encode_jpeg(&GrayImage::new(width, height), QUALITY).unwrap_err();
            assert!(
                matches!(error, JpegError::TooLarge { width: w, height: h } if (w, h) == (width, height)),
                "{error}"
            );
        }
    }

    #[test]
    fn an_image_without_pixels_is_an_error() {
        for (width, height) in [(0, 0), (0, 5), (5, 0)] {
            let error = encode_jpeg(&GrayImage::new(width, height), QUALITY).unwrap_err();
            assert!(matches!(error, JpegError::Empty { .. }), "{error}");
        }
    }
}
