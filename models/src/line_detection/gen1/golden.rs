//! The first generation against vectors made by running `ocr-inference` and the desktop application (see
//! `tests/golden/lines_gen1/README.md` and `tests/golden/scale/README.md`).

use std::path::Path;

use image::{GrayImage, Luma};
use serde::Deserialize;

use super::super::curvature::typical_bend;
use super::super::golden::{contours, gen1_cases, grey, json, roots};
use super::super::passes::{above, sized_mask};
use super::super::tiling::Plane;
use super::super::{TileGrid, prepare};
use super::scale::frame_size;
use super::skew::page_skew;
use super::*;
use crate::page::contours::find_contours;
use crate::page::geometry::{Point, Rect};

/// Turns by every angle, as the desktop application does.
fn app() -> DetectionConfig {
    DetectionConfig {
        min_angle_deg: 0.0,
        ..DetectionConfig::gen1()
    }
}

/// Rows: 12, 15.
#[test]
fn angles_contours_and_turned_masks_are_those_of_ocr_inference() {
    let config = DetectionConfig::gen1();
    for root in roots("lines_gen1") {
        for case in gen1_cases(&root) {
            let id = &case.id;
            let mask = grey(&root.join(&case.mask));
            let angle = page_skew(&find_contours(&mask), mask.dimensions(), &app());
            assert!(
                (angle - case.angle).abs() <= 1e-4,
                "{id}: {angle} is not {}",
                case.angle
            );
            if case.build_lines_status == "FAILED" {
                assert!(examine(mask, &config).contours.is_empty(), "{id}");
                continue;
            }
            // The last digits of an angle move single pixels, so masks are turned by upstream's.
            let by = if case.rotated == Some(true) {
                case.angle
            } else {
                0.0
            };
            let straight = turned(mask.clone(), by);
            let expected = contours(&case.filtered_contours);
            assert_eq!(line_contours(&straight, &config), expected, "{id}");
            if let Some(png) = &case.rot_mask {
                assert_eq!(straight, any_ink(grey(&root.join(png))), "{id}");
            }
            // Upstream leaves pages alone that have to be turned clockwise; the application shows them turned.
            if case.rotated == Some(angle.abs() > f64::from(config.min_angle_deg)) {
                let found = examine(mask, &config);
                assert_eq!(found.contours.len(), expected.len(), "{id}");
                for (found, expected) in found.contours.iter().zip(&expected) {
                    assert_close(bounding_rect(found), bounding_rect(expected), id);
                }
            }
        }
    }
}

fn assert_close(found: Rect, expected: Rect, at: &str) {
    let sides = |rect: Rect| [rect.x, rect.y, rect.width, rect.height];
    let differences = sides(found).into_iter().zip(sides(expected));
    let worst = differences.map(|(a, b)| a.abs_diff(b)).max();
    assert!(worst <= Some(1), "{at}: {found:?} is not {expected:?}");
}

#[derive(Deserialize)]
struct AppPage {
    id: String,
    angle: f64,
    rot_mask_nonzero: usize,
    filtered_bboxes: Option<Vec<[i32; 4]>>,
}

/// Rows: 12, 15.
#[test]
fn pages_turned_either_way_are_those_of_the_application() {
    let mut clockwise = 0;
    for root in roots("lines_gen1") {
        let cases = gen1_cases(&root);
        let text = std::fs::read_to_string(root.join("expected_app.jsonl")).unwrap();
        for line in text.lines() {
            let page: AppPage = serde_json::from_str(line).unwrap();
            let case = cases.iter().find(|case| case.id == page.id).unwrap();
            let mask = grey(&root.join(&case.mask));
            let found = examine(mask.clone(), &app());
            assert!((f64::from(found.angle) - page.angle).abs() <= 1e-4, "{}", page.id);
            let straight = turned(mask, page.angle);
            let ink = straight.iter().filter(|&&value| value > 0).count();
            assert_eq!(ink, page.rot_mask_nonzero, "{}", page.id);
            let boxes: Vec<[i32; 4]> = line_contours(&straight, &app())
                .iter()
                .map(|contour| bounding_rect(contour))
                .map(|bounds| [bounds.x, bounds.y, bounds.width, bounds.height])
                .collect();
            assert_eq!(boxes, page.filtered_bboxes.unwrap_or_default(), "{}", page.id);
            clockwise += usize::from(page.angle < -0.5);
        }
    }
    assert!(clockwise > 3, "{clockwise}");
}

#[derive(Debug, Deserialize)]
pub(crate) struct LineTps {
    tps: bool,
    input_pts: Option<Vec<[i32; 2]>>,
    output_pts: Option<Vec<[i32; 2]>>,
    max_yd: f32,
}

fn assert_bend(bend: Option<&Bend>, expected: &LineTps, at: &str) {
    assert_eq!(bend.is_some(), expected.tps, "{at}");
    let rise = bend.map_or(0.0, |bend| bend.rise as f32);
    assert!((rise - expected.max_yd).abs() <= 1.0, "{at}: {rise}");
    let Some(bend) = bend else { return };
    let ours = bend.centers.map(|center| [center.y, center.x, bend.level]);
    let theirs = expected
        .input_pts
        .iter()
        .flatten()
        .zip(expected.output_pts.iter().flatten());
    let theirs: Vec<[i32; 3]> = theirs.map(|(from, to)| [from[0], from[1], to[0]]).collect();
    assert_eq!(ours.len(), theirs.len(), "{at}");
    for (ours, theirs) in ours.as_flattened().iter().zip(theirs.as_flattened()) {
        // Upstream cuts positions to whole pixels, and so a rounding error may count as one.
        assert!(ours.abs_diff(*theirs) <= 1, "{at}: {ours} is not {theirs}");
    }
}

#[test]
fn bends_and_the_line_that_stands_for_the_page() {
    let mut chosen = 0;
    for root in roots("lines_gen1") {
        for case in gen1_cases(&root) {
            let Some(tps) = &case.tps else { continue };
            let lines = contours(&case.filtered_contours);
            let bends: Vec<Option<Bend>> = lines.iter().map(|line| bend_of(line, (case.w, case.h))).collect();
            assert_eq!(bends.len(), tps.lines.len(), "{}", case.id);
            for (bend, expected) in bends.iter().zip(&tps.lines) {
                assert_bend(bend.as_ref(), expected, &case.id);
            }
            if let Some(index) = tps.chosen_line.as_u64() {
                let bent: Vec<Bend> = bends.iter().flatten().cloned().collect();
                let rise = bends[index as usize].as_ref().unwrap().rise;
                let chosen_rise = typical_bend(&bent, bends.len()).unwrap().rise;
                assert!(chosen_rise.abs_diff(rise) <= 1, "{}", case.id);
                chosen += 1;
            }
        }
    }
    assert!(chosen > 2, "{chosen}");
}

#[test]
fn bends_of_very_narrow_lines() {
    #[derive(Deserialize)]
    struct Cases {
        cases: Vec<Narrow>,
    }
    #[derive(Deserialize)]
    struct Narrow {
        w: u32,
        h: u32,
        contour: Vec<i32>,
        #[serde(flatten)]
        expected: LineTps,
    }
    for root in roots("lines_gen1") {
        let Cases { cases } = json(&root.join("narrow_lines.json"));
        assert!(!cases.is_empty());
        for Narrow {
            w,
            h,
            contour,
            expected,
        } in cases
        {
            let line: Vec<Point> = contour
                .chunks_exact(2)
                .map(|at| Point::new(at[0], at[1]))
                .collect();
            assert_bend(
                bend_of(&line, (w, h)).as_ref(),
                &expected,
                &format!("{contour:?}"),
            );
        }
    }
}

#[derive(Deserialize)]
struct Scale {
    preprocess_sizes: Vec<Size>,
    preprocess_full: Vec<Full>,
    predict_fake_network: Vec<Prediction>,
}

#[derive(Deserialize)]
struct Size {
    w: u32,
    h: u32,
    clamped_w: u32,
    clamped_h: u32,
    n_tiles: usize,
}

#[derive(Deserialize)]
struct Full {
    page: Option<String>,
    w: u32,
    h: u32,
    tile_crc32_u8: Vec<u32>,
}

#[derive(Deserialize)]
struct Prediction {
    w: u32,
    h: u32,
    mask: String,
}

fn scale(root: &Path) -> Scale {
    json(&root.join("gen1.json"))
}

#[test]
fn pages_are_clamped_to_the_sizes_of_upstream() {
    for root in roots("scale") {
        for size in scale(&root).preprocess_sizes {
            let clamped = frame_size((size.w, size.h), 512, &DetectionConfig::gen1());
            assert_eq!(
                clamped,
                (size.clamped_w, size.clamped_h),
                "{} x {}",
                size.w,
                size.h
            );
            assert_eq!(TileGrid::new(clamped.0, clamped.1, 512).count(), size.n_tiles);
        }
    }
}

/// The test image in upstream's greys: it takes the weights of red and blue for each other.
fn formula(width: u32, height: u32) -> GrayImage {
    let value = |x: u32, y: u32| (7 * x + 13 * y + (x * y) % 29) % 256;
    GrayImage::from_fn(width, height, |x, y| {
        let blue = value(x, y);
        let green = value((x + width - 3) % width, y);
        let red = value(x, (y + height - 5) % height);
        Luma([((blue * 9798 + green * 19_235 + red * 3735 + (1 << 14)) >> 15) as u8])
    })
}

#[test]
fn tiles_are_binarised_as_by_upstream() {
    let mut compared = 0;
    for root in roots("scale") {
        for case in scale(&root).preprocess_full {
            let page = match &case.page {
                Some(page) => grey(&root.join(page)),
                // Where a page in colour is scaled, upstream scales its colours.
                None if case.h < 512 => continue,
                None => formula(case.w, case.h),
            };
            let frame = prepare(&page, true, 512, &DetectionConfig::gen1());
            let crcs: Vec<u32> = frame
                .tiles
                .values
                .chunks_exact(512 * 512)
                .map(|tile| {
                    let bytes: Vec<u8> = tile.iter().map(|&paper| (paper * 255.0) as u8).collect();
                    let mut crc = flate2::Crc::new();
                    crc.update(&bytes);
                    crc.sum()
                })
                .collect();
            assert_eq!(crcs, case.tile_crc32_u8, "{} x {}", case.w, case.h);
            compared += 1;
        }
    }
    assert!(compared >= 3, "{compared}");
}

#[test]
fn the_networks_answer_becomes_the_mask_of_upstream() {
    let config = DetectionConfig::gen1();
    let mut compared = 0;
    for root in roots("scale") {
        for case in scale(&root).predict_fake_network {
            let clamped = frame_size((case.w, case.h), 512, &config);
            let grid = TileGrid::new(clamped.0, clamped.1, 512);
            let mut probabilities = Vec::new();
            for k in 0..grid.count() {
                for (y, x) in (0..512).flat_map(|y| (0..512).map(move |x| (y, x))) {
                    let line = y / 40 % 3 == k % 3 && x % 97 > 8;
                    let ripple = 0.3 * ((3 * x + 5 * y + k) % 17) as f32 - 2.4;
                    let logit = if line { 6.0 } else { -6.0 } + ripple;
                    probabilities.push(1.0 / (1.0 + (-logit).exp()));
                }
            }
            let mask = grid
                .stitch(&probabilities, Plane::ONLY, above(config.threshold))
                .unwrap();
            let mask = sized_mask(mask, (case.w, case.h), &config);
            let expected = grey(&root.join(&case.mask));
            let differing = mask.iter().zip(expected.iter()).filter(|(a, b)| a != b).count();
            assert!(
                differing <= mask.len() / 1000,
                "{}: {differing} pixels differ",
                case.mask
            );
            compared += 1;
        }
    }
    assert!(compared >= 2, "{compared}");
}
