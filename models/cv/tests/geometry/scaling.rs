use image::{ImageBuffer, Pixel};
use parkhang_cv::resize::{resize_area, resize_linear, resize_mask, resize_nearest};
use serde::Deserialize;

use crate::golden;

#[derive(Deserialize)]
struct Resize {
    src: String,
    size: String,
    w: u32,
    h: u32,
    interp: Mode,
    crc32: u32,
    /// Pixels set, for masks.
    white: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Area,
    Linear,
    Nearest,
    #[serde(rename = "linear_f64_then_truncate_u8_x255")]
    Mask,
}

fn scaled<P: Pixel<Subpixel = u8>>(image: &ImageBuffer<P, Vec<u8>>, case: &Resize) -> u32 {
    let resize = match case.interp {
        Mode::Area => resize_area,
        Mode::Linear => resize_linear,
        Mode::Nearest | Mode::Mask => resize_nearest,
    };
    golden::crc32(&resize(image, case.w, case.h))
}

#[test]
fn scaled_images_equal_those_of_opencv() {
    let cases: Vec<Resize> = golden::cases("cv/resize.json");
    assert_eq!(cases.len(), 345);
    for case in cases.iter().filter(|case| case.interp != Mode::Mask) {
        let source = format!("cv/{}", case.src);
        let crc32 = if case.src.starts_with("colour") {
            scaled(&golden::bgr(&source), case)
        } else {
            scaled(&golden::gray(&source), case)
        };
        assert_eq!(crc32, case.crc32, "{} {} {:?}", case.src, case.size, case.interp);
    }
}

/// OpenCV's own result varies by some pixels with the code path chosen at run time.
#[test]
fn scaled_masks_have_the_ink_of_opencv() {
    let cases: Vec<Resize> = golden::cases("cv/resize.json");
    let masks: Vec<_> = cases.iter().filter(|case| case.interp == Mode::Mask).collect();
    assert_eq!(masks.len(), 9);
    for case in masks {
        let scaled = resize_mask(&golden::gray(&format!("cv/{}", case.src)), case.w, case.h);
        let white = scaled.iter().filter(|&&pixel| pixel == 255).count();
        let exact = golden::crc32(&scaled) == case.crc32;
        assert!(exact, "{} {}: {white} of {:?}", case.src, case.size, case.white);
    }
}
