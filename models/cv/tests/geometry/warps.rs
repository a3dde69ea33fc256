use parkhang_cv::warp::{Affine, Interpolation, map_coordinates, rotation_matrix, warp_affine};
use proptest::prelude::*;
use serde::Deserialize;

use crate::golden;

#[derive(Deserialize)]
struct Rotation {
    src: String,
    angle: f64,
    center: (f64, f64),
    matrix: [f64; 6],
    crc32_f64_matrix: u32,
    crc32_f32_matrix: u32,
}

#[derive(Deserialize)]
struct TransformedPoints {
    matrix_f32: [f64; 6],
    pts: Vec<i32>,
    out: Vec<i32>,
}

#[derive(Deserialize)]
struct MappedCoordinates {
    src: String,
    coords: String,
    order: u8,
    png_u8: String,
}

#[test]
fn rotated_images_equal_those_of_opencv() {
    let cases: Vec<Rotation> = golden::cases("cv/warp.json");
    assert_eq!(cases.len(), 90);
    for case in cases {
        let context = format!("{} by {} degrees", case.src, case.angle);
        let rotation = rotation_matrix(case.center, case.angle, 1.0);
        for (found, expected) in rotation.rows.concat().iter().zip(case.matrix) {
            assert!(
                (found - expected).abs() < 1e-10,
                "{context}: {found}, not {expected}"
            );
        }
        let source = format!("cv/{}", case.src);
        let crc32 = |map: Affine| {
            if case.src.starts_with("colour") {
                golden::crc32(&warp_affine(&golden::bgr(&source), &map, 0))
            } else {
                golden::crc32(&warp_affine(&golden::gray(&source), &map, 0))
            }
        };
        assert_eq!(crc32(rotation), case.crc32_f64_matrix, "{context}");
        assert_eq!(
            crc32(rotation.to_single_precision()),
            case.crc32_f32_matrix,
            "{context}, f32"
        );
    }
}

#[test]
fn transformed_pixels_equal_those_of_opencv() {
    for case in golden::cases::<TransformedPoints>("cv/transform_points.json") {
        let [a, b, c, d, e, f] = case.matrix_f32;
        let map = Affine {
            rows: [[a, b, c], [d, e, f]],
        };
        let moved: Vec<_> = golden::points(&case.pts)
            .iter()
            .map(|&p| map.apply_to_pixel(p))
            .collect();
        assert_eq!(golden::flat(&moved), case.out);
    }
}

#[test]
fn mapped_images_equal_those_of_scipy() {
    let cases: Vec<MappedCoordinates> = golden::cases("cv/mapcoords.json");
    assert_eq!(cases.len(), 12);
    for case in cases {
        let expected = golden::gray(&format!("cv/{}", case.png_u8));
        let coordinates = golden::npy(&format!("cv/{}", case.coords));
        let (ys, xs) = coordinates.split_at(coordinates.len() / 2);
        let interpolation = if case.order == 1 {
            Interpolation::Linear
        } else {
            Interpolation::Cubic
        };
        let source = golden::gray(&format!("cv/{}", case.src));
        let mapped = map_coordinates(&source, expected.dimensions(), interpolation, 0, |x, y| {
            let index = (y * expected.width() + x) as usize;
            (xs[index], ys[index])
        });
        assert_eq!(mapped, expected, "{} order {}", case.src, case.order);
    }
}

proptest! {
    #[test]
    fn an_affine_map_and_its_inverse_cancel(
        center in (-2000.0..2000.0_f64, -2000.0..2000.0_f64),
        angle in -180.0..180.0_f64,
        scale in 0.1..10.0_f64,
        point in (-4000.0..4000.0_f64, -4000.0..4000.0_f64),
    ) {
        let map = rotation_matrix(center, angle, scale);
        let back = map.invert().unwrap().apply(map.apply(point));
        prop_assert!((back.0 - point.0).hypot(back.1 - point.1) < 1e-6);
        let fixed = map.apply(center);
        prop_assert!((fixed.0 - center.0).hypot(fixed.1 - center.1) < 1e-8);
    }
}

#[test]
fn a_flat_map_has_no_inverse() {
    assert_eq!(
        Affine {
            rows: [[1.0, 2.0, 0.0], [2.0, 4.0, 5.0]]
        }
        .invert(),
        None
    );
}
