//! Line extraction against vectors made by running upstream's `ocrv1` (see `tests/golden/lines_gen2/README.md`).

use image::GrayImage;
use serde::Deserialize;

use super::page::straight_page;
use super::*;
use crate::line_detection::golden::{Case, Row, cases, contour, grey, roots};
use crate::line_detection::{ControlPoint, Dewarp, PageGeometry};

#[derive(Debug, Deserialize)]
struct Variant {
    variant: String,
    scale_factor: f64,
    lines: Vec<Line>,
}

#[derive(Debug, Deserialize)]
struct Line {
    bbox_resized: [i32; 4],
    k_in: f64,
    k_out: f64,
    crop: Crop,
}

#[derive(Debug, Deserialize)]
struct Crop {
    w: u32,
    h: u32,
    crc32: u32,
    sum: u64,
    png: Option<String>,
}

/// The geometry that `ocrv1` applied: it exchanges x and y of the spline's points, which is a defect.
fn upstream_geometry(page: &GrayImage, row: &Row) -> PageGeometry {
    let dewarp = row.tps_points.as_ref().map(|points| {
        let control_points = points
            .iter()
            .map(|&[in_y, in_x, out_y, out_x]| ControlPoint {
                source: [in_y, in_x],
                target: [out_y, out_x],
            })
            .collect();
        Dewarp {
            control_points,
            alpha: row.tps_alpha.unwrap_or(0.5),
        }
    });
    PageGeometry::new(
        page.width(),
        page.height(),
        row.rotation_angle.unwrap_or(0.0),
        dewarp,
    )
    .unwrap()
}

fn lines_of(contours: Vec<Contour>, merge: bool, config: &ExtractionConfig) -> Vec<TextLine> {
    if merge {
        return build_lines(contours, Rows::ByHeight, config);
    }
    // Without merging upstream leaves the order of detection.
    contours
        .into_iter()
        .enumerate()
        .filter_map(|(index, contour)| TextLine::new(index, contour))
        .collect()
}

fn crc32(image: &GrayImage) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(image.as_raw());
    crc.sum()
}

#[test]
fn lines_and_their_images_on_every_page() {
    let config = ExtractionConfig::ocrv1();
    for root in roots("lines_gen2") {
        for case in cases(&root) {
            let Case {
                id,
                page: Some(page),
                ldv1,
                ocrv1: Some(variants),
                ..
            } = case
            else {
                continue;
            };
            let variants: Vec<Variant> = serde_json::from_value(variants).unwrap();
            let row = &ldv1.parquet_row;
            let image = grey(&root.join(&page));
            let bilevel = image.iter().all(|&value| value == 0 || value == 255);
            let geometry = upstream_geometry(&image, row);
            let page = straight_page(image, bilevel, &geometry, &config);
            let contours: Vec<_> = row.contours.iter().map(|flat| contour(flat)).collect();
            let warp = match (row.rotation_angle, &row.tps_points) {
                (_, Some(_)) => Warp::Flattened,
                (Some(_), None) => Warp::Turned,
                (None, None) => Warp::None,
            };

            for Variant {
                variant,
                scale_factor,
                lines,
            } in variants
            {
                assert!((page.scale - scale_factor).abs() < 1e-12, "{id}");
                let found = lines_of(page.contours(&contours), variant == "default", &config);
                assert_eq!(found.len(), lines.len(), "{id} {variant}");
                let mut k = config.k_factor;
                for (line, expected) in found.iter().zip(&lines) {
                    let at = format!("{id} {variant} line {}", line.index);
                    let bounds = line.bounding_box;
                    let bounds = [bounds.x, bounds.y, bounds.width, bounds.height];
                    assert_eq!(bounds, expected.bbox_resized, "{at}");
                    assert!((k - expected.k_in).abs() < 1e-12, "{at}: {k}");
                    let LineImage { image, .. } = cut_line(&page.image, line, &mut k, &config);
                    assert!(
                        (k - expected.k_out).abs() < 1e-12,
                        "{at}: {k} is not {}",
                        expected.k_out
                    );
                    if page.scale != 1.0 {
                        // Another resampling kernel; sizes may differ by a row that is black in one of them.
                        assert!(image.width().abs_diff(expected.crop.w) <= 2, "{at}");
                        assert!(image.height().abs_diff(expected.crop.h) <= 2, "{at}");
                        continue;
                    }
                    compare(&image, &expected.crop, warp, &at, |png| grey(&root.join(png)));
                }
            }
        }
    }
}

fn compare(image: &GrayImage, expected: &Crop, warp: Warp, at: &str, open: impl Fn(&str) -> GrayImage) {
    match warp {
        Warp::None => assert_eq!(crc32(image), expected.crc32, "{at}"),
        Warp::Turned => assert_eq!(image.dimensions(), (expected.w, expected.h), "{at}"),
        // Rows and columns that are all but black are dropped or kept by one grey level.
        Warp::Flattened => {
            assert!(
                image.width().abs_diff(expected.w) <= 2,
                "{at}: {:?}",
                image.dimensions()
            );
            assert!(
                image.height().abs_diff(expected.h) <= 2,
                "{at}: {:?}",
                image.dimensions()
            );
        }
    }
    let sum: u64 = image.iter().map(|&value| u64::from(value)).sum();
    assert!(
        sum.abs_diff(expected.sum) <= expected.sum / 100,
        "{at}: sum {sum} is not {}",
        expected.sum
    );
    if let Some(png) = &expected.png
        && image.dimensions() == (expected.w, expected.h)
    {
        let worst = image
            .iter()
            .zip(open(png).iter())
            .map(|(&ours, &theirs)| ours.abs_diff(theirs))
            .max();
        assert!(worst.unwrap_or(0) <= 1, "{at}: differs by {worst:?}");
    }
}

/// Transform of a page before its lines were cut.
#[derive(Debug, Clone, Copy)]
enum Warp {
    None,
    Turned,
    Flattened,
}
