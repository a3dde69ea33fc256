//! Page decoding against files of every supported encoding. `fixtures/decode` holds one page in many encodings,
//! `golden/decode` files with what upstream's decoder made of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;

use image::GrayImage;
use parkhang_cv::decode::{DecodeLimits, DecodeWarning, DecodedPage, PageFormat, decode_page, probe_page};

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/decode")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn decode(name: &str) -> DecodedPage {
    let bytes = fixture(name);
    let page = decode_page(&bytes, &DecodeLimits::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let header = probe_page(&bytes).unwrap();
    assert_eq!(
        (header.format, header.width, header.height),
        (page.format, page.gray.width(), page.gray.height()),
        "{name}"
    );
    page
}

/// Decodes the reference by the `image` crate alone.
fn reference(name: &str) -> GrayImage {
    image::load_from_memory(&fixture(name)).unwrap().into_luma8()
}

fn rgb_reference() -> GrayImage {
    let rgb = image::load_from_memory(&fixture("rgb.png")).unwrap().into_rgb8();
    GrayImage::from_fn(rgb.width(), rgb.height(), |x, y| {
        let [r, g, b] = rgb.get_pixel(x, y).0.map(f64::from);
        image::Luma([(0.299 * r + 0.587 * g + 0.114 * b).round() as u8])
    })
}

fn largest_difference(a: &GrayImage, b: &GrayImage) -> u8 {
    assert_eq!(a.dimensions(), b.dimensions());
    a.as_raw()
        .iter()
        .zip(b.as_raw())
        .map(|(a, b)| a.abs_diff(*b))
        .max()
        .unwrap()
}

fn mean_difference(a: &GrayImage, b: &GrayImage) -> f64 {
    assert_eq!(a.dimensions(), b.dimensions());
    let sum: u64 = a
        .as_raw()
        .iter()
        .zip(b.as_raw())
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    sum as f64 / a.len() as f64
}

#[test]
fn every_lossless_grey_encoding_gives_the_same_pixels() {
    let source = reference("source.png");
    for name in [
        "source.png",
        "gray.bmp",
        "gray.pgm",
        "gray.webp",
        "gray_raw.tif",
        "gray_lzw.tif",
        "gray_deflate.tif",
        "gray_packbits.tif",
        "gray_lzw_predictor.tif",
        "gray_deflate_tiles.tif",
        "gray_reversed_bits.tif",
        "gray_bigtiff.tif",
        "palette.png",
        "palette_lzw.tif",
        "gray_alpha_opaque.png",
        "black_under_alpha.png",
        "black_under_alpha_rgba.tif",
        "gray16_raw.tif",
        "gray16_lzw_predictor_be.tif",
        "gray16.png",
    ] {
        let page = decode(name);
        assert_eq!(largest_difference(&page.gray, &source), 0, "{name}");
        assert!(!page.bilevel, "{name}");
        assert_eq!(page.warnings, [], "{name}");
    }
}

#[test]
fn every_bilevel_encoding_gives_the_same_pixels() {
    let source = reference("bits.png");
    for name in [
        "bits.png",
        "bits.pbm",
        "bits_raw.tif",
        "bits_raw_white_is_zero.tif",
        "bits_raw_reversed_bits.tif",
        "bits_packbits.tif",
        "bits_rle.tif",
        "bits_g3_1d.tif",
        "bits_g3_1d_fill.tif",
        "bits_g3_2d.tif",
        "bits_g3_2d_fill.tif",
        "bits_g3_white_is_zero.tif",
        "bits_g3_reversed_bits_strips.tif",
        "bits_g4.tif",
        "bits_g4_white_is_zero.tif",
        "bits_g4_reversed_bits.tif",
        "bits_g4_strips.tif",
        "bits_g4_tiles.tif",
    ] {
        let page = decode(name);
        assert_eq!(largest_difference(&page.gray, &source), 0, "{name}");
        assert!(page.bilevel, "{name}");
        assert_eq!(page.warnings, [], "{name}");
    }
}

#[test]
fn low_depths_span_the_whole_range() {
    let source = reference("source.png");
    for (depth, names) in [(2, ["gray2.png", "gray2.tif"]), (4, ["gray4.png", "gray4.tif"])] {
        let top = (1 << depth) - 1;
        let coarse = GrayImage::from_fn(source.width(), source.height(), |x, y| {
            image::Luma([(source.get_pixel(x, y).0[0] >> (8 - depth)) * (255 / top)])
        });
        for name in names {
            assert_eq!(largest_difference(&decode(name).gray, &coarse), 0, "{name}");
        }
    }
}

#[test]
fn every_lossless_colour_encoding_gives_the_weighted_grey() {
    let source = rgb_reference();
    for name in [
        "rgb.png",
        "rgb.bmp",
        "rgb.ppm",
        "rgb_deflate.tif",
        "rgb_planar.tif",
        "rgb_lzw_predictor_tiles.tif",
    ] {
        assert!(largest_difference(&decode(name).gray, &source) <= 1, "{name}");
        assert_eq!(decode(name).gray, decode("rgb.png").gray, "{name}");
    }
    assert!(largest_difference(&decode("cmyk_lzw.tif").gray, &source) <= 1);
}

#[test]
fn jpeg_is_near_its_source() {
    let (gray, rgb) = (reference("source.png"), rgb_reference());
    for (name, source, mean) in [
        ("gray.jpg", &gray, 2.0),
        ("gray_progressive.jpg", &gray, 2.0),
        ("jpeg_gray.tif", &gray, 2.0),
        ("orientation_6.jpg", &gray, 2.0),
        ("rgb_444.jpg", &rgb, 2.5),
        ("rgb_420.jpg", &rgb, 2.5),
        ("rgb_420_progressive.jpg", &rgb, 2.5),
        ("rgb_restart.jpg", &rgb, 2.5),
        ("cmyk.jpg", &rgb, 2.5),
        ("jpeg_rgb.tif", &rgb, 2.5),
        ("jpeg_rgb_stored.tif", &rgb, 2.5),
        ("jpeg_ycbcr_tiles.tif", &rgb, 2.5),
    ] {
        let page = decode(name);
        let found = mean_difference(&page.gray, source);
        assert!(found < mean, "{name}: {found}");
        assert_eq!(page.warnings, [], "{name}");
    }
    assert_eq!(decode("gray.jpg").gray, decode("gray_progressive.jpg").gray);
}

#[test]
fn four_component_jpegs_agree_whichever_way_the_inks_are_stored() {
    let rgb = image::load_from_memory(&fixture("rgb.png")).unwrap().into_rgb8();
    let inks: Vec<u8> = rgb
        .pixels()
        .flat_map(|p| [255 - p.0[0], 255 - p.0[1], 255 - p.0[2], 0])
        .collect();
    let (width, height) = (rgb.width() as u16, rgb.height() as u16);
    for kind in [jpeg_encoder::ColorType::Cmyk, jpeg_encoder::ColorType::CmykAsYcck] {
        let mut file = Vec::new();
        jpeg_encoder::Encoder::new(&mut file, 95)
            .encode(&inks, width, height, kind)
            .unwrap();
        let page = decode_page(&file, &DecodeLimits::default()).unwrap();
        let found = mean_difference(&page.gray, &rgb_reference());
        assert!(found < 2.5, "{kind:?}: {found}");
    }
}

#[test]
fn orientation_is_applied_to_every_format_that_states_one() {
    let upright = reference("bits.png");
    for tag in 2..=8 {
        assert_eq!(
            decode(&format!("orientation_{tag}.tif")).gray,
            upright,
            "tag {tag}"
        );
    }
    assert_eq!(
        decode("orientation_6.jpg").gray.dimensions(),
        upright.dimensions()
    );
}

#[test]
fn odd_files_have_pixels_and_say_what_is_odd() {
    let two = decode("two_pages.tif");
    assert_eq!(two.gray, reference("source.png"));
    assert_eq!(two.warnings, [DecodeWarning::MorePages]);
    for name in ["zero_one.png", "zero_one.tif"] {
        let page = decode(name);
        assert_eq!(page.gray, reference("bits.png"), "{name}");
        assert!(page.bilevel);
        assert_eq!(page.warnings, [DecodeWarning::ZeroOneScaled], "{name}");
    }
    let blank = decode("blank.png");
    assert!(blank.bilevel && blank.gray.as_raw().iter().all(|&v| v == 255));
    let scroll = decode("scroll_40000.tif");
    assert_eq!(scroll.gray.dimensions(), (40_000, 60));
    let square = decode("square_10000.tif");
    assert!(square.bilevel && square.gray.len() == 100_000_000);
}

#[test]
fn the_name_of_a_file_decides_nothing() {
    for (name, format) in [
        ("gray.jpg", PageFormat::Jpeg),
        ("gray_lzw.tif", PageFormat::Tiff),
        ("source.png", PageFormat::Png),
        ("gray.webp", PageFormat::WebP),
        ("gray.bmp", PageFormat::Bmp),
        ("bits.pbm", PageFormat::Pnm),
    ] {
        assert_eq!(decode(name).format, format);
    }
}
