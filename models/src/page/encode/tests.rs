use image::Luma;
use jpeg_encoder::{ColorType, Encoder};
use proptest::prelude::*;

use super::*;
use crate::page::decode::{DecodeLimits, decode_page};

const QUALITY: u8 = 92;

fn by_another_encoder(image: &GrayImage) -> Vec<u8> {
    let mut file = Vec::new();
    let (columns, rows) = (image.width() as u16, image.height() as u16);
    Encoder::new(&mut file, QUALITY)
        .encode(image.as_raw(), columns, rows, ColorType::Luma)
        .unwrap();
    file
}

fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// What follows the header of the scan, ten bytes long.
fn scan(file: &[u8]) -> &[u8] {
    let marker = segment_start(marker::SCAN);
    let start = file.windows(2).position(|bytes| bytes == marker).unwrap();
    &file[start + 10..]
}

fn pixels(file: &[u8]) -> GrayImage {
    let decoded = decode_page(file, &DecodeLimits::default()).unwrap();
    assert_eq!(decoded.warnings, []);
    decoded.gray
}

/// Noise, strokes, a flat page, black and white at random, or slopes.
fn picture(width: u32, height: u32, kind: u8, seed: u32) -> GrayImage {
    let mut state = seed;
    GrayImage::from_fn(width, height, |x, y| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (state >> 24) as u8;
        Luma([match kind {
            0 => noise,
            1 if (x * 7 + y * 3) % 31 < 9 => 30,
            1 => 200 + noise / 16,
            2 => seed as u8,
            3 => 255 * (noise / 128),
            _ => (x * 3 + y * 5) as u8,
        }])
    })
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_as_from_another_encoder(
        width in 1_u32..90,
        height in 1_u32..60,
        kind in 0_u8..5,
        seed: u32,
    ) {
        let image = picture(width, height, kind, seed);
        let (ours, theirs) = (encode_jpeg(&image, QUALITY).unwrap(), by_another_encoder(&image));
        let (our_pixels, their_pixels) = (pixels(&ours), pixels(&theirs));
        if has_avx2() {
            prop_assert_eq!(scan(&ours), scan(&theirs));
            prop_assert_eq!(our_pixels, their_pixels);
        } else {
            // That one then rounds a few coefficients otherwise, which moves them by one step of quantisation.
            let apart = our_pixels.iter().zip(their_pixels.iter()).map(|(a, b)| a.abs_diff(*b)).max();
            prop_assert!(apart <= Some(16), "{:?}", apart);
        }
    }
}

#[test]
fn a_flat_page_comes_out_as_it_went_in() {
    for level in [0, 40, 200, 255] {
        let page = GrayImage::from_pixel(101, 67, Luma([level]));
        let decoded = pixels(&encode_jpeg(&page, 100).unwrap());
        assert_eq!(decoded, page);
    }
}

#[test]
fn an_image_that_a_jpeg_cannot_hold_is_an_error() {
    assert_eq!(
        encode_jpeg(&GrayImage::new(70_000, 1), QUALITY),
        Err(JpegError::TooLarge {
            width: 70_000,
            height: 1
        })
    );
    assert_eq!(
        encode_jpeg(&GrayImage::new(0, 9), QUALITY),
        Err(JpegError::Empty { width: 0, height: 9 })
    );
}
