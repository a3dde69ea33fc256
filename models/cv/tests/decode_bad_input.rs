//! Input that has no pixels to give, or fewer than it claims: each is a typed error, none panics.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;

use parkhang_cv::decode::{
    DecodeError, DecodeLimits, DecodeWarning, PageFormat, decode_page, decode_page_unless, probe_page,
};
use proptest::prelude::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decode")
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn decode(bytes: &[u8]) -> Result<(), DecodeError> {
    decode_page(bytes, &DecodeLimits::default()).map(|_| ())
}

/// The file with the value of one classic little-endian TIFF tag replaced.
fn with_tag(name: &str, tag: u16, value: u32) -> Vec<u8> {
    let mut file = fixture(name);
    assert_eq!(file[..4], *b"II*\0", "{name}");
    let directory = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    let entries = u16::from_le_bytes(file[directory..directory + 2].try_into().unwrap());
    let at = (0..usize::from(entries))
        .map(|i| directory + 2 + 12 * i)
        .find(|&at| file[at..at + 2] == tag.to_le_bytes())
        .unwrap_or_else(|| panic!("{name} has no tag {tag}"));
    file[at + 2..at + 4].copy_from_slice(&4_u16.to_le_bytes());
    file[at + 8..at + 12].copy_from_slice(&value.to_le_bytes());
    file
}

/// The file with bytes of its JPEG frame header replaced, counted from the precision.
fn with_frame(name: &str, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = fixture(name);
    let frame = file
        .windows(2)
        .position(|w| w == [0xff, 0xc0] || w == [0xff, 0xc2])
        .unwrap()
        + 4;
    file[frame + at..frame + at + bytes.len()].copy_from_slice(bytes);
    file
}

/// A PNG header of some size, with a right checksum and no pixels.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut header = b"IHDR".to_vec();
    header.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
    header.extend([8, 0, 0, 0, 0]);
    let mut crc = flate2::Crc::new();
    crc.update(&header);
    [
        &b"\x89PNG\r\n\x1a\n\0\0\0\x0d"[..],
        &header,
        &crc.sum().to_be_bytes(),
        b"\0\0\0\0IDAT",
    ]
    .concat()
}

#[test]
fn every_bad_input_has_its_own_error() {
    use DecodeError::{Empty, Markup, TooManyPixels, Truncated, UnknownFormat, ZeroDimension};
    let max_pixels = DecodeLimits::default().max_pixels;
    let table: [(&str, Vec<u8>, DecodeError); 15] = [
        ("no bytes", Vec::new(), Empty),
        (
            "noise",
            (0..500_u32).map(|i| (i * 37 + 11) as u8).collect(),
            UnknownFormat,
        ),
        ("zeros", vec![0; 500], UnknownFormat),
        (
            "an error page",
            b"<!DOCTYPE html><html><body>404</body></html>".to_vec(),
            Markup,
        ),
        (
            "an error document",
            b"<?xml version=\"1.0\"?><Error>AccessDenied</Error>".to_vec(),
            Markup,
        ),
        (
            "half a JPEG",
            fixture("gray.jpg")[..2000].to_vec(),
            Truncated {
                format: PageFormat::Jpeg,
            },
        ),
        (
            "half a PNG",
            fixture("rgb.png")[..150].to_vec(),
            Truncated {
                format: PageFormat::Png,
            },
        ),
        (
            "half a TIFF",
            fixture("gray_lzw.tif")[..100].to_vec(),
            Truncated {
                format: PageFormat::Tiff,
            },
        ),
        (
            "JPEG of no width",
            with_frame("gray.jpg", 3, &[0, 0]),
            ZeroDimension { width: 0, height: 90 },
        ),
        (
            "JPEG of no height",
            with_frame("gray.jpg", 1, &[0, 0]),
            ZeroDimension {
                width: 120,
                height: 0,
            },
        ),
        (
            "TIFF of no width",
            with_tag("gray_lzw.tif", 256, 0),
            ZeroDimension { width: 0, height: 90 },
        ),
        (
            "PNM of no height",
            b"P5\n7 0\n255\n".to_vec(),
            ZeroDimension { width: 7, height: 0 },
        ),
        (
            "JPEG of 4 gigapixels",
            with_frame("gray.jpg", 1, &[0xff; 4]),
            TooManyPixels {
                width: 65535,
                height: 65535,
                max_pixels,
            },
        ),
        (
            "PNG of 10 gigapixels",
            png_header(100_000, 100_000),
            TooManyPixels {
                width: 100_000,
                height: 100_000,
                max_pixels,
            },
        ),
        (
            "TIFF of 120 gigapixels",
            with_tag("scroll_40000.tif", 256, 2_000_000_000),
            TooManyPixels {
                width: 2_000_000_000,
                height: 60,
                max_pixels,
            },
        ),
    ];
    for (what, bytes, error) in table {
        assert_eq!(decode(&bytes), Err(error), "{what}");
    }
}

/// A little-endian TIFF of 8-bit grey with these tags besides, whose tags of many values lie behind the directory. `data`
/// begins at byte 8.
fn forged(width: u32, height: u32, data: &[u8], tags: &[(u16, Vec<u32>)]) -> Vec<u8> {
    let mut tags: Vec<(u16, Vec<u32>)> = tags.to_vec();
    tags.extend([
        (256, vec![width]),
        (257, vec![height]),
        (258, vec![8]),
        (259, vec![8]),
    ]);
    tags.extend([(262, vec![1]), (277, vec![1])]);
    tags.sort();
    let mut file = [&b"II*\0"[..], &(8 + data.len() as u32).to_le_bytes(), data].concat();
    let mut behind = file.len() + 2 + 12 * tags.len() + 4;
    let mut values = Vec::new();
    file.extend((tags.len() as u16).to_le_bytes());
    for (tag, numbers) in &tags {
        file.extend([tag.to_le_bytes(), 4_u16.to_le_bytes()].concat());
        file.extend((numbers.len() as u32).to_le_bytes());
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        if let [one] = numbers[..] {
            file.extend(one.to_le_bytes());
        } else {
            file.extend((behind as u32).to_le_bytes());
            behind += bytes.len();
            values.extend(bytes);
        }
    }
    file.extend(0_u32.to_le_bytes());
    file.extend(values);
    file
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_tiff_asks_for_no_more_work_than_its_area_and_bytes_can_need() {
    let asks_too_much = |file: &[u8]| {
        let refused = decode(file);
        assert!(
            matches!(refused, Err(DecodeError::TooMuchWork { .. })),
            "{refused:?}"
        );
    };
    // A page of 64 pixels in 64 tiles of 30 megapixels, all of them the same 30 KB.
    let tile = deflated(&vec![0; 30_000_000]);
    let (offsets, lengths) = (vec![8; 64], vec![tile.len() as u32; 64]);
    let tags = [
        (322, vec![30_000_000]),
        (323, vec![1]),
        (324, offsets),
        (325, lengths),
    ];
    asks_too_much(&forged(1, 64, &tile, &tags));

    // A strip a row, and each of them the same two megabytes, which hold one row behind very many empty blocks.
    let mut strip = vec![0x78, 0x01];
    for _ in 0..400_000 {
        strip.extend([0, 0, 0, 0xff, 0xff]);
    }
    strip.extend([1, 1, 0, 0xfe, 0xff, 7]);
    strip.extend([0, 8, 0, 8]);
    let (offsets, lengths) = (vec![8; 200], vec![strip.len() as u32; 200]);
    let tags = [(273, offsets), (278, vec![1]), (279, lengths)];
    asks_too_much(&forged(1, 200, &strip, &tags));

    // What is padded or stored once in honest files is read.
    let strip = deflated(&[7; 100]);
    let tags = |rows: usize| {
        let (offsets, lengths) = (vec![8; rows], vec![strip.len() as u32; rows]);
        [(273, offsets), (278, vec![1]), (279, lengths)]
    };
    let page = decode_page(&forged(100, 500, &strip, &tags(500)), &DecodeLimits::default()).unwrap();
    assert!(page.gray.as_raw().iter().all(|value| *value == 7));
    let tile = deflated(&vec![9; 1024 * 1024]);
    let tags = [
        (322, vec![1024]),
        (323, vec![1024]),
        (324, vec![8]),
        (325, vec![tile.len() as u32]),
    ];
    let page = decode_page(&forged(3, 2, &tile, &tags), &DecodeLimits::default()).unwrap();
    assert_eq!(page.gray.as_raw(), &[9; 6]);
}

#[test]
fn a_page_that_nobody_waits_for_is_not_read_on() {
    let strip = deflated(&[7; 100]);
    let (offsets, lengths) = (vec![8; 500], vec![strip.len() as u32; 500]);
    let file = forged(
        100,
        500,
        &strip,
        &[(273, offsets), (278, vec![1]), (279, lengths)],
    );
    let asked = std::cell::Cell::new(0);
    let cancelled = || asked.replace(asked.get() + 1) == 9;
    let ended = decode_page_unless(&file, &DecodeLimits::default(), &cancelled);
    assert_eq!(ended.unwrap_err(), DecodeError::Cancelled);
    assert_eq!(asked.get(), 10, "it goes on after it was asked to end");
}

#[test]
fn what_is_not_supported_is_named() {
    let unsupported = |bytes: &[u8]| match decode(bytes) {
        Err(DecodeError::UnsupportedFeature { feature, .. }) => feature,
        Err(DecodeError::UnsupportedFormat { name }) => name.to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(unsupported(&fixture("float.tif")), "floating-point samples");
    assert_eq!(
        unsupported(&with_tag("gray_lzw.tif", 259, 50_000)),
        "ZSTD compression"
    );
    assert_eq!(unsupported(&with_tag("gray_lzw.tif", 259, 6)), "JPEG compression");
    assert_eq!(unsupported(&with_frame("gray.jpg", 0, &[12])), "12-bit samples");
    assert_eq!(unsupported(b"P5\n1 1\n15\n\x0f"), "a maximal sample of 15");
    assert_eq!(unsupported(b"\0\0\0\x0cjP  \r\n\x87\n"), "JPEG 2000");
}

#[test]
fn limits_are_checked_before_the_pixels_are_read() {
    let small = DecodeLimits {
        max_pixels: 120 * 90 - 1,
        ..DecodeLimits::default()
    };
    let narrow = DecodeLimits {
        max_bytes: 120 * 90 - 1,
        ..DecodeLimits::default()
    };
    for name in [
        "gray.jpg",
        "source.png",
        "gray.webp",
        "gray.bmp",
        "gray.pgm",
        "gray_lzw.tif",
        "bits_g4.tif",
    ] {
        let bytes = fixture(name);
        let error = decode_page(&bytes, &small).unwrap_err();
        assert!(
            matches!(
                error,
                DecodeError::TooManyPixels {
                    width: 120,
                    height: 90,
                    ..
                }
            ),
            "{name}: {error}"
        );
        let error = decode_page(&bytes, &narrow).unwrap_err();
        assert!(
            matches!(error, DecodeError::TooManyBytes { .. }),
            "{name}: {error}"
        );
    }
}

#[test]
fn a_file_too_small_for_its_pixels_is_refused_before_they_are_allocated() {
    let claims = with_frame("gray.jpg", 1, &[0x30, 0, 0x30, 0]);
    assert_eq!(
        decode(&claims),
        Err(DecodeError::Truncated {
            format: PageFormat::Jpeg
        })
    );
}

#[test]
fn a_jpeg_without_its_end_marker_is_whole_but_warned_of() {
    let bytes = fixture("gray.jpg");
    let page = decode_page(&bytes[..bytes.len() - 2], &DecodeLimits::default()).unwrap();
    assert_eq!(page.warnings, [DecodeWarning::MissingEndMarker]);
    let whole = decode_page(&bytes, &DecodeLimits::default()).unwrap().gray;
    assert_eq!(page.gray.dimensions(), whole.dimensions());
    // By another decoder, which rounds otherwise.
    let pixels = page.gray.as_raw().iter().zip(whole.as_raw());
    assert!(pixels.map(|(a, b)| a.abs_diff(*b)).max() <= Some(1));
}

/// A decoder may take the scans that are there for all that there ever were.
#[test]
fn a_progressive_jpeg_cut_between_its_scans_is_an_error() {
    let bytes = fixture("gray_progressive.jpg");
    let scans = bytes
        .windows(2)
        .enumerate()
        .filter(|(_, marker)| *marker == [0xff, 0xda]);
    let ends: Vec<usize> = scans.map(|(at, _)| at).skip(1).collect();
    assert!(ends.len() > 2);
    for end in ends {
        match decode(&bytes[..end]) {
            Err(DecodeError::Truncated { .. }) => {}
            other => panic!("cut at {end}: {other:?}"),
        }
    }
}

#[test]
fn a_fax_that_closes_before_its_last_row_is_padded_with_white() {
    let whole = decode_page(&fixture("bits_g4.tif"), &DecodeLimits::default())
        .unwrap()
        .gray;
    let mut longer = with_tag("bits_g4_white_is_zero.tif", 257, 100);
    let rows_per_strip = with_tag("bits_g4_white_is_zero.tif", 278, 100);
    longer
        .iter_mut()
        .zip(rows_per_strip.iter().zip(fixture("bits_g4_white_is_zero.tif")))
        .for_each(|(byte, (&new, old))| {
            if new != old {
                *byte = new;
            }
        });
    let page = decode_page(&longer, &DecodeLimits::default()).unwrap();
    assert_eq!(page.warnings, [DecodeWarning::MissingRows { rows: 10 }]);
    assert_eq!(page.gray.as_raw()[..whole.len()], whole.as_raw()[..]);
    assert!(page.gray.as_raw()[whole.len()..].iter().all(|&v| v == 255));
}

#[test]
fn every_file_cut_short_is_an_error() {
    for name in names() {
        let bytes = fixture(&name);
        for part in [0.2, 0.5, 0.8] {
            let cut = &bytes[..(bytes.len() as f64 * part) as usize];
            match decode(cut) {
                Err(DecodeError::Truncated { .. }) => {}
                other => panic!("{name} cut to {part}: {other:?}"),
            }
        }
    }
}

/// All fixtures but the huge ones.
fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".md") && !name.ends_with(".py") && !name.contains("0000"))
        .collect();
    names.sort();
    names
}

fn damaged_file() -> impl Strategy<Value = (String, Vec<u8>)> {
    let names = names();
    let faults = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12);
    (
        prop::sample::select(names),
        faults,
        any::<bool>(),
        prop::option::of(any::<prop::sample::Index>()),
    )
        .prop_map(|(name, faults, near_the_start, end)| {
            let mut bytes = fixture(&name);
            let reach = if near_the_start {
                bytes.len().min(400)
            } else {
                bytes.len()
            };
            for (at, value) in faults {
                bytes[at.index(reach)] = value;
            }
            if let Some(end) = end {
                bytes.truncate(end.index(bytes.len()) + 1);
            }
            (name, bytes)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_makes_the_decoder_panic((name, bytes) in damaged_file()) {
        let limits = DecodeLimits { max_pixels: 4_000_000, max_bytes: 32_000_000 };
        if let Ok(page) = decode_page(&bytes, &limits) {
            let header = probe_page(&bytes);
            prop_assert!(header.is_ok(), "{}: {:?}", name, header);
            let header = header.unwrap();
            prop_assert_eq!((header.width, header.height), page.gray.dimensions(), "{}", name);
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        magic in prop::sample::select(vec![
            &b"\xff\xd8\xff"[..], b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08", b"II+\0\x08\0\0\0", b"\x89PNG\r\n\x1a\n",
            b"RIFF\x20\0\0\0WEBPVP8L", b"BM\0\0\0\0\0\0\0\0", b"P5\n", b"P1 ", b"P7\n", b"",
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = [magic, &rest].concat();
        let limits = DecodeLimits { max_pixels: 4_000_000, max_bytes: 32_000_000 };
        let _ = decode_page(&bytes, &limits);
        let _ = probe_page(&bytes);
    }
}
