//! Decoding against upstream's decoder. Its grey outputs have passed the sRGB-to-linear table, so ours are put through
//! the same table before they are compared.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;

use image::GrayImage;
use parkhang_cv::decode::{DecodeError, DecodeLimits, DecodedPage, PageFormat, decode_page};

fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/decode")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn try_decode(name: &str) -> Result<DecodedPage, DecodeError> {
    decode_page(&golden(&format!("in_{name}")), &DecodeLimits::default())
}

fn decode(name: &str) -> DecodedPage {
    try_decode(name).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn linear(v: u8) -> u8 {
    let x = f32::from(v) / 255.0;
    let y = if x <= 0.04045 {
        x / 12.92
    } else {
        ((x + 0.055) / 1.055).powf(2.4)
    };
    (255.0 * y + 0.5).floor() as u8
}

fn crc32(page: &DecodedPage) -> u32 {
    let mut crc = flate2::Crc::new();
    if page.bilevel {
        crc.update(page.gray.as_raw())
    } else {
        crc.update(&page.gray.as_raw().iter().map(|&v| linear(v)).collect::<Vec<_>>())
    }
    crc.sum()
}

#[test]
fn lossless_grey_files_are_exactly_upstreams() {
    for (name, crc, bilevel) in [
        ("g4.tif", 1426723801, true),
        ("bw.png", 1426723801, true),
        ("grey_lzw.tif", 160413744, false),
        ("multipage.tif", 4078851987, false),
        ("grey_two_values_0_1.png", 3213379568, true),
        ("all_white.png", 1796677296, true),
        ("all_grey200.png", 38405142, false),
    ] {
        let page = decode(name);
        assert_eq!((crc32(&page), page.bilevel), (crc, bilevel), "{name}");
    }
}

/// Every pixel within `tolerance` grey levels, before the table.
fn assert_near(name: &str, lane: &str, tolerance: u8) {
    let page = decode(name);
    let expected = image::load_from_memory(&golden(&format!("out_{name}_{lane}.png")))
        .unwrap()
        .into_luma8();
    assert_eq!(page.gray.dimensions(), expected.dimensions(), "{name}");
    let near = |gray: &GrayImage| {
        gray.as_raw().iter().zip(expected.as_raw()).all(|(&v, e)| {
            (linear(v.saturating_sub(tolerance))..=linear(v.saturating_add(tolerance))).contains(e)
        })
    };
    assert!(near(&page.gray), "{name}");
}

#[test]
fn colour_is_weighted_as_upstream_weighs_it() {
    assert_near("rgb_deflate.tif", "no_vips", 1);
    assert_near("palette.png", "vips", 1);
}

#[test]
fn jpeg_pixels_are_within_three_levels_of_libjpegs() {
    assert_near("rgb.jpg", "vips", 3);
    assert_near("cmyk.jpg", "vips", 3);
    assert_near("exif_rot6.jpg", "vips", 3);
    assert_near("jpeg_named.png", "vips", 3);
    assert_eq!(decode("jpeg_named.png").format, PageFormat::Jpeg);
}

#[test]
fn files_that_upstreams_reference_lane_refuses_are_errors() {
    assert_eq!(try_decode("empty.jpg").unwrap_err(), DecodeError::Empty);
    assert_eq!(try_decode("garbage.png").unwrap_err(), DecodeError::UnknownFormat);
    assert_eq!(
        try_decode("truncated.jpg").unwrap_err(),
        DecodeError::Truncated {
            format: PageFormat::Jpeg
        }
    );
}

/// Upstream clips 16-bit samples: the mean of this page's linear output is 248.7 there, a white page.
#[test]
fn sixteen_bit_pages_are_scaled_and_not_clipped() {
    let page = decode("grey16.png");
    let mean = page.gray.as_raw().iter().map(|&v| f64::from(v)).sum::<f64>() / page.gray.len() as f64;
    assert!((100.0..180.0).contains(&mean), "{mean}");
    let wide = image::load_from_memory(&golden("in_grey16.png"))
        .unwrap()
        .into_luma16();
    assert!(
        wide.pixels()
            .zip(page.gray.pixels())
            .all(|(w, g)| (f64::from(w.0[0]) / 257.0).round() as u8 == g.0[0])
    );
}
