//! Reading the golden files.

use std::{io::Read, path::PathBuf};

use flate2::{Crc, read::GzDecoder};
use image::{GrayImage, RgbImage};
use parkhang_cv::geometry::{Point, RotatedRect};
use serde::{Deserialize, de::DeserializeOwned};

#[derive(Deserialize)]
struct Cases<T> {
    cases: Vec<T>,
}

/// The bytes of a file under `golden`, which may be stored with `.gz`.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    if let Ok(bytes) = std::fs::read(folder.join(name)) {
        return bytes;
    }
    let packed = folder.join(format!("{name}.gz"));
    let packed = std::fs::read(&packed).unwrap_or_else(|error| panic!("{}: {error}", packed.display()));
    let mut bytes = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

pub(crate) fn cases<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let Cases { cases } = serde_json::from_slice(&bytes(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    cases
}

pub(crate) fn gray(name: &str) -> GrayImage {
    image::load_from_memory(&bytes(name)).unwrap().into_luma8()
}

/// A colour image with its channels in the order blue, green, red.
pub(crate) fn bgr(name: &str) -> RgbImage {
    let mut image = image::load_from_memory(&bytes(name)).unwrap().into_rgb8();
    image.pixels_mut().for_each(|pixel| pixel.0.reverse());
    image
}

/// The numbers of a NumPy file of format version 1 holding little-endian `f64`.
pub(crate) fn npy(name: &str) -> Vec<f64> {
    let bytes = bytes(name);
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!(
        String::from_utf8_lossy(&bytes[10..10 + header]).contains("'<f8'"),
        "{name}"
    );
    bytes[10 + header..]
        .as_chunks::<8>()
        .0
        .iter()
        .map(|&value| f64::from_le_bytes(value))
        .collect()
}

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

pub(crate) fn points(flat: &[i32]) -> Vec<Point> {
    flat.as_chunks::<2>()
        .0
        .iter()
        .map(|&[x, y]| Point::new(x, y))
        .collect()
}

pub(crate) fn flat(points: &[Point]) -> Vec<i32> {
    points.iter().flat_map(|point| [point.x, point.y]).collect()
}

#[derive(Debug, Deserialize)]
pub(crate) struct ExpectedRect {
    cx: f32,
    cy: f32,
    w: f32,
    h: f32,
    angle: f32,
}

impl ExpectedRect {
    #[track_caller]
    pub(crate) fn assert_matches(&self, rect: RotatedRect, context: &str) {
        let found = [rect.center.0, rect.center.1, rect.size.0, rect.size.1, rect.angle];
        let expected = [self.cx, self.cy, self.w, self.h, self.angle];
        let close = found
            .iter()
            .zip(expected)
            .all(|(found, expected)| (found - expected).abs() < 1e-3);
        assert!(close, "{context}: {rect:?}, not {self:?}");
    }
}
