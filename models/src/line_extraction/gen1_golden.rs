//! Line extraction of the first generation against vectors made by running `ocr-inference` (see
//! `tests/golden/lines_gen1/README.md`).

use image::GrayImage;
use serde::Deserialize;
use serde_json::Value;

use super::running_rows::half_pitch;
use super::*;
use crate::line_detection::golden::{Gen1Case, contour, contours, gen1_cases, grey, roots};
use crate::page::warp::{rotation_matrix, warp_affine};

#[derive(Debug, Deserialize)]
struct Line {
    bbox: [i32; 4],
    center: [i32; 2],
}

/// A line as it was, or one joined of several.
#[derive(Debug, Deserialize)]
struct Sorted {
    source_line: Option<usize>,
    bbox: Option<[i32; 4]>,
    contour: Option<Vec<i32>>,
}

#[derive(Debug, Deserialize)]
struct Crop {
    k_in: f64,
    k_out: f64,
    w: u32,
    h: u32,
    crc32: u32,
    png_channel0: Option<String>,
}

fn part<T: serde::de::DeserializeOwned>(case: &Gen1Case, key: &str) -> Option<T> {
    let value = case.extraction.get(key)?;
    Some(serde_json::from_value(value.clone()).unwrap())
}

/// The image as upstream turned it.
fn turned(image: GrayImage, case: &Gen1Case) -> GrayImage {
    if case.rotated != Some(true) {
        return image;
    }
    let center = (f64::from(image.width()) / 2.0, f64::from(image.height()) / 2.0);
    warp_affine(&image, &rotation_matrix(center, case.angle, 1.0), 0)
}

fn config(merge_lines: bool) -> ExtractionConfig {
    ExtractionConfig {
        merge_lines,
        ..ExtractionConfig::gen1()
    }
}

fn bbox(line: &TextLine) -> [i32; 4] {
    let bounds = line.bounding_box;
    [bounds.x, bounds.y, bounds.width, bounds.height]
}

/// Rows: 15, 18.
#[test]
fn lines_are_joined_and_ordered_as_by_upstream() {
    for root in roots("lines_gen1") {
        for case in gen1_cases(&root) {
            let Some(lines) = part::<Vec<Line>>(&case, "lines") else {
                continue;
            };
            let mask = turned(grey(&root.join(&case.mask)), &case);
            assert_eq!(
                Some(half_pitch(&mask)),
                part(&case, "line_threshold"),
                "{}",
                case.id
            );
            let twins = lines
                .iter()
                .enumerate()
                .any(|(index, line)| lines[..index].iter().any(|other| other.center == line.center));
            // Upstream confuses lines with the same centre.
            if twins {
                continue;
            }
            for merge in [true, false] {
                let key = format!("sorted_group_{merge}");
                let expected: Vec<Sorted> = part(&case, &key).unwrap();
                let found = build_lines(
                    contours(&case.filtered_contours),
                    Rows::ByMask(&mask),
                    &config(merge),
                );
                assert_eq!(found.len(), expected.len(), "{} {key}", case.id);
                for (found, expected) in found.iter().zip(expected) {
                    let at = format!("{} {key} {}", case.id, found.index);
                    let expected_box = expected
                        .source_line
                        .map(|index| lines[index].bbox)
                        .or(expected.bbox);
                    assert_eq!(Some(bbox(found)), expected_box, "{at}");
                    if let Some(hull) = expected.contour {
                        let sorted = |mut points: Contour| {
                            points.sort();
                            points
                        };
                        assert_eq!(sorted(found.contour.clone()), sorted(contour(&hull)), "{at}");
                    }
                }
            }
        }
    }
}

/// Rows: 18.
#[test]
fn line_images_are_those_of_upstream() {
    let mut compared = 0;
    for root in roots("lines_gen1") {
        for case in gen1_cases(&root) {
            let Some(page) = &case.page else { continue };
            let page = turned(grey(&root.join(page)), &case);
            let mask = turned(grey(&root.join(&case.mask)), &case);
            for (key, value) in &case.extraction {
                let Some((merge, k_factor, bbox_tolerance)) = variant(key) else {
                    continue;
                };
                let config = ExtractionConfig {
                    k_factor,
                    bbox_tolerance,
                    ..config(merge)
                };
                let lines = build_lines(contours(&case.filtered_contours), Rows::ByMask(&mask), &config);
                compared += compare(
                    &page,
                    &lines,
                    value,
                    &config,
                    &format!("{} {key}", case.id),
                    |png| grey(&root.join(png)),
                );
            }
        }
    }
    assert!(compared > 80, "{compared}");
}

/// The settings in the name of a set of line images, such as `extract_group_true_k2.5_tol4.0`.
fn variant(key: &str) -> Option<(bool, f64, f64)> {
    let rest = key.strip_prefix("extract_group_")?;
    let (merge, rest) = rest.split_once("_k")?;
    let (k, tolerance) = rest.split_once("_tol")?;
    Some((merge.parse().ok()?, k.parse().ok()?, tolerance.parse().ok()?))
}

fn compare(
    page: &GrayImage,
    lines: &[TextLine],
    expected: &Value,
    config: &ExtractionConfig,
    at: &str,
    open: impl Fn(&str) -> GrayImage,
) -> usize {
    let crops: Vec<Crop> = serde_json::from_value(expected.clone()).unwrap();
    assert_eq!(lines.len(), crops.len(), "{at}");
    let mut k = config.k_factor;
    for (line, crop) in lines.iter().zip(&crops) {
        let at = format!("{at} line {}", line.index);
        assert!((k - crop.k_in).abs() < 1e-9, "{at}: {k} is not {}", crop.k_in);
        let LineImage { image, .. } = cut_line(page, line, &mut k, config);
        assert!((k - crop.k_out).abs() < 1e-9, "{at}: {k} is not {}", crop.k_out);
        assert_eq!(image.dimensions(), (crop.w, crop.h), "{at}");
        let mut crc = flate2::Crc::new();
        crc.update(&image.iter().flat_map(|&value| [value; 3]).collect::<Vec<_>>());
        if crc.sum() != crop.crc32 {
            // Turned images may differ by a grey level.
            let Some(png) = &crop.png_channel0 else { continue };
            let expected = open(png);
            let worst = image
                .iter()
                .zip(expected.iter())
                .map(|(a, b)| a.abs_diff(*b))
                .max();
            assert!(worst <= Some(1), "{at}: {worst:?}");
        }
    }
    lines.len()
}
