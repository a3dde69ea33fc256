use std::num::NonZeroU32;

use parkhang_cv::{morphology::dilate_rect, threshold::adaptive_gaussian};
use serde::Deserialize;

use crate::golden;

#[derive(Deserialize)]
struct Dilation {
    #[serde(default)]
    mask: String,
    kw: u32,
    kh: u32,
    /// Absent where OpenCV refuses, which a rectangle with an empty side is.
    crc32: Option<u32>,
}

#[derive(Deserialize)]
struct Threshold {
    grey: String,
    block: u32,
    c: i32,
    crc32: u32,
}

#[test]
fn dilations_equal_those_of_opencv() {
    let cases: Vec<Dilation> = golden::cases("cv/dilate.json");
    assert_eq!(cases.len(), 123);
    for case in cases {
        let sides = NonZeroU32::new(case.kw).zip(NonZeroU32::new(case.kh));
        let crc32 = sides.map(|(width, height)| {
            golden::crc32(&dilate_rect(
                &golden::gray(&format!("cv/{}", case.mask)),
                width,
                height,
            ))
        });
        assert_eq!(crc32, case.crc32, "{} by {} x {}", case.mask, case.kw, case.kh);
    }
}

#[test]
fn thresholds_equal_those_of_opencv() {
    let cases: Vec<Threshold> = golden::cases("cv/adaptive.json");
    assert_eq!(cases.len(), 24);
    for case in cases {
        let binary = adaptive_gaussian(&golden::gray(&format!("cv/{}", case.grey)), case.block, case.c);
        assert_eq!(
            golden::crc32(&binary),
            case.crc32,
            "{} block {}",
            case.grey,
            case.block
        );
    }
}
