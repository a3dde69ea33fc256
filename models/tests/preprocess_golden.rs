//! Line preprocessing against both generations of BDRC's programs; see `golden/preprocess/README.md`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod golden;

use golden::Golden;
use image::DynamicImage;
use parkhang_models::recognition::line_image::{LineImage, PreparedLine, Preprocessing};
use serde::Deserialize;

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    file: String,
    png: String,
    #[serde(rename = "H")]
    height: u32,
    #[serde(rename = "W")]
    width: u32,
    prepad: bool,
    content_width: usize,
    left_pad: usize,
    #[serde(rename = "frames_T")]
    frames: usize,
    frame_start: usize,
    frame_end: usize,
}

fn check(golden: &Golden) {
    let Cases { cases } = golden.json("gen2.json");
    assert!(!cases.is_empty());
    let mut wrong = Vec::new();
    for case in cases {
        let preprocessing = Preprocessing::BdrcGen2 {
            width: case.width,
            height: case.height,
            pre_pad: case.prepad,
        };
        let Some(line) = prepared(golden, &case.file, preprocessing) else {
            continue;
        };
        assert_eq!(
            (line.left_pad, line.content_width),
            (case.left_pad, case.content_width),
            "{}",
            case.png
        );
        assert_eq!(
            line.content_frames(case.frames),
            case.frame_start..case.frame_end,
            "{}",
            case.png
        );
        wrong.extend(difference(golden, &line, &case.png));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One input of the full set is in colour, and not prepared: lines are grey when they get here.
fn prepared(golden: &Golden, file: &str, preprocessing: Preprocessing) -> Option<PreparedLine> {
    let DynamicImage::ImageLuma8(image) = image::load_from_memory(&golden.bytes(file)).unwrap() else {
        return None;
    };
    let line = LineImage {
        image: &image,
        bilevel: false,
    };
    Some(preprocessing.prepare(&line).unwrap())
}

/// Difference of a line from the image of it that upstream made.
fn difference(golden: &Golden, line: &PreparedLine, png: &str) -> Option<String> {
    let expected = image::load_from_memory(&golden.bytes(png)).unwrap().to_luma8();
    assert_eq!(
        (line.width, line.height),
        (expected.width() as usize, expected.height() as usize)
    );
    let ours = line.values.iter().map(|&value| value > 0.0);
    let differing = ours
        .zip(expected.as_raw())
        .filter(|(ours, theirs)| *ours != (**theirs > 0))
        .count();
    (differing > 0).then(|| format!("{png}: {differing} pixels"))
}

#[derive(Deserialize)]
struct Gen1Cases {
    cases: Vec<Gen1Case>,
}

#[derive(Deserialize)]
struct Gen1Case {
    file: String,
    png: String,
    #[serde(rename = "H")]
    height: u32,
    #[serde(rename = "W")]
    width: u32,
    prepad: bool,
}

fn check_gen1(golden: &Golden) {
    let Gen1Cases { cases } = golden.json("gen1.json");
    assert!(!cases.is_empty());
    let mut wrong = Vec::new();
    for case in cases {
        let preprocessing = Preprocessing::BdrcGen1 {
            width: case.width,
            height: case.height,
            pre_pad: case.prepad,
        };
        let Some(line) = prepared(golden, &case.file, preprocessing) else {
            continue;
        };
        assert!(line.left_pad + line.content_width <= line.width, "{}", case.png);
        wrong.extend(difference(golden, &line, &case.png));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn gen1_lines() {
    check_gen1(&Golden::open("preprocess"));
}

#[test]
fn gen1_lines_of_the_full_set() {
    if let Some(golden) = Golden::open_full("preprocess") {
        check_gen1(&golden);
    }
}

#[test]
fn gen2_lines() {
    check(&Golden::open("preprocess"));
}

#[test]
fn gen2_lines_of_the_full_set() {
    if let Some(golden) = Golden::open_full("preprocess") {
        check(&golden);
    }
}
