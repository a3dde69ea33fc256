use image::GrayImage;
use parkhang_cv::{
    spline::{SingularSystem, ThinPlateSpline, warp_spline},
    warp::{Interpolation, map_coordinates, rotation_matrix, warp_affine},
};
use proptest::prelude::*;
use serde::Deserialize;

use crate::golden;

/// Positions in the golden files are (y, x).
type YX = [f64; 2];

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
struct Fit {
    kind: String,
    alpha: f64,
    #[serde(rename = "X")]
    from: Vec<YX>,
    #[serde(rename = "Y")]
    to: Vec<YX>,
    grid: Vec<YX>,
    mapped: Vec<YX>,
    mapped_controls: Vec<YX>,
}

#[derive(Deserialize)]
struct Warp {
    src: String,
    rotation: f64,
    input_pts_yx: Vec<YX>,
    output_pts_yx: Vec<YX>,
    alpha: f64,
    gen2_png: String,
    gen1_prebug_png: String,
}

fn xy(positions: &[YX]) -> Vec<(f64, f64)> {
    positions.iter().map(|&[y, x]| (x, y)).collect()
}

fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

#[test]
fn splines_equal_those_of_the_python_package() {
    let cases: Vec<Fit> = golden::cases("tps/fits.json");
    assert_eq!(cases.len(), 33);
    for (index, case) in cases.iter().enumerate() {
        let context = format!("case {index}, {}", case.kind);
        let fit = ThinPlateSpline::fit(&xy(&case.from), &xy(&case.to), case.alpha);
        if case.kind.contains("singular") {
            assert_eq!(fit, Err(SingularSystem), "{context}");
            continue;
        }
        let spline = fit.unwrap_or_else(|error| panic!("{context}: {error}"));
        let positions = xy(&case.grid).into_iter().zip(xy(&case.mapped));
        let controls = xy(&case.from).into_iter().zip(xy(&case.mapped_controls));
        for (position, expected) in positions.chain(controls) {
            let mapped = spline.transform(position);
            assert!(
                distance(mapped, expected) < 1e-3,
                "{context}: {mapped:?}, not {expected:?}"
            );
        }
    }
}

/// Compares two images. At the image's edge, what rounding puts outside is black upstream; everywhere else
/// the images must agree.
#[track_caller]
fn assert_similar(
    warped: &GrayImage,
    expected: &GrayImage,
    backward: &ThinPlateSpline,
    tolerance: u8,
    context: &str,
) {
    assert_eq!(warped.dimensions(), expected.dimensions());
    let (right, bottom) = (f64::from(warped.width() - 1), f64::from(warped.height() - 1));
    for ((x, y, found), expected) in warped.enumerate_pixels().zip(expected.pixels()) {
        let similar = found.0[0].abs_diff(expected.0[0]) <= tolerance;
        let (source_x, source_y) = backward.transform((f64::from(x), f64::from(y)));
        let to_edge = [source_x, right - source_x, source_y, bottom - source_y];
        let on_edge = to_edge.iter().any(|distance| distance.abs() < 0.02);
        assert!(
            similar || on_edge,
            "{context} at ({x}, {y}): {found:?}, not {expected:?}"
        );
    }
}

#[test]
fn warped_images_equal_those_of_gen_2() {
    let cases: Vec<Warp> = golden::cases("tps/warps.json");
    assert_eq!(cases.len(), 4);
    for case in cases {
        let source = golden::gray(&format!("tps/{}", case.src));
        let center = (f64::from(source.width()) / 2.0, f64::from(source.height()) / 2.0);
        let rotation = rotation_matrix(center, case.rotation, 1.0).to_single_precision();
        let rotated = warp_affine(&source, &rotation, 0);
        let (from, to) = (xy(&case.output_pts_yx), xy(&case.input_pts_yx));
        let backward = ThinPlateSpline::fit(&from, &to, case.alpha).unwrap();
        let warped = warp_spline(&rotated, &backward, 0);
        let expected = golden::gray(&format!("tps/{}", case.gen2_png));
        assert_similar(&warped, &expected, &backward, 1, &case.src);
    }
}

/// GEN-1 samples cubically and adds its own corners, whose distance it scales twice.
#[test]
fn warped_images_equal_those_of_gen_1() {
    for case in golden::cases::<Warp>("tps/warps.json") {
        let source = golden::gray(&format!("tps/{}", case.src));
        let (width, height) = (f64::from(source.width()), f64::from(source.height()));
        let corners = [
            (0.0, 0.0),
            (width * width, 0.0),
            (0.0, height * height),
            (width * width, height * height),
        ];
        let with_corners = |points: &[YX]| [&xy(&points[..5]), &corners[..]].concat();
        let (from, to) = (
            with_corners(&case.output_pts_yx),
            with_corners(&case.input_pts_yx),
        );
        let backward = ThinPlateSpline::fit(&from, &to, case.alpha).unwrap();
        let warped = map_coordinates(&source, source.dimensions(), Interpolation::Cubic, 0, |x, y| {
            backward.transform((f64::from(x), f64::from(y)))
        });
        let expected = golden::gray(&format!("tps/{}", case.gen1_prebug_png));
        assert_similar(&warped, &expected, &backward, 2, &case.src);
    }
}

/// A map that differs between the axes, on an image that does.
#[test]
fn positions_are_x_then_y() {
    let source = GrayImage::from_fn(60, 30, |x, y| image::Luma([(3 * x + 2 * y) as u8]));
    let output = [(0.0, 0.0), (59.0, 0.0), (0.0, 29.0), (59.0, 29.0)];
    let shifted = output.map(|(x, y)| (x + 10.0, y + 3.0));
    let spline = ThinPlateSpline::fit(&output, &shifted, 0.0).unwrap();
    let moved = warp_spline(&source, &spline, 7);
    assert_eq!(moved.get_pixel(5, 4).0, [3 * 15 + 2 * 7]);
    assert_eq!(moved.get_pixel(48, 20).0, [3 * 58 + 2 * 23]);
    assert_eq!(moved.get_pixel(51, 20).0, [7]);
    assert_eq!(moved.get_pixel(30, 28).0, [7]);
}

#[test]
fn too_few_control_points_are_refused() {
    assert_eq!(ThinPlateSpline::fit(&[], &[], 0.5), Err(SingularSystem));
    let two = [(0.0, 0.0), (5.0, 1.0)];
    assert_eq!(ThinPlateSpline::fit(&two, &two, 0.5), Err(SingularSystem));
    let unbounded = [(0.0, 0.0), (5.0, 1.0), (f64::NAN, 4.0), (9.0, 9.0)];
    assert_eq!(
        ThinPlateSpline::fit(&unbounded, &unbounded, 0.5),
        Err(SingularSystem)
    );
}

proptest! {
    #[test]
    fn a_spline_without_relaxation_goes_through_its_control_points(
        cells in prop::collection::btree_set((0..20_u8, 0..20_u8), 4..12),
        shifts in prop::collection::vec((-40.0..40.0_f64, -40.0..40.0_f64), 12),
    ) {
        let from: Vec<_> = cells.iter().map(|&(x, y)| (f64::from(x) * 70.0, f64::from(y) * 40.0)).collect();
        let to: Vec<_> = from.iter().zip(shifts).map(|(p, d)| (p.0 + d.0, p.1 + d.1)).collect();
        let Ok(spline) = ThinPlateSpline::fit(&from, &to, 0.0) else {
            let collinear = from.windows(3).all(|w| {
                (w[1].0 - w[0].0) * (w[2].1 - w[0].1) == (w[2].0 - w[0].0) * (w[1].1 - w[0].1)
            });
            prop_assert!(collinear);
            return Ok(());
        };
        for (from, to) in from.into_iter().zip(to) {
            prop_assert!(distance(spline.transform(from), to) < 1e-6);
        }
    }

    #[test]
    fn a_scaled_spline_maps_scaled_positions(
        shifts in prop::collection::vec((-40.0..40.0_f64, -40.0..40.0_f64), 6),
        factor in 0.1..10.0_f64,
        position in (0.0..900.0_f64, 0.0..300.0_f64),
    ) {
        let from = [(0.0, 0.0), (899.0, 0.0), (0.0, 299.0), (899.0, 299.0), (300.0, 140.0), (600.0, 150.0)];
        let to: Vec<_> = from.iter().zip(shifts).map(|(p, d)| (p.0 + d.0, p.1 + d.1)).collect();
        let spline = ThinPlateSpline::fit(&from, &to, 0.5).unwrap();
        let times = |(x, y): (f64, f64)| (x * factor, y * factor);
        let scaled = spline.scaled(factor).transform(times(position));
        prop_assert!(distance(scaled, times(spline.transform(position))) < 1e-6 * factor);
    }
}
