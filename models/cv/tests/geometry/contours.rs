use image::GrayImage;
use parkhang_cv::{
    contours::find_contours,
    geometry::{Point, arc_length, bounding_rect, contour_area, convex_hull, min_area_rect, simplify},
    polygon::{fill_polygon, fill_polygon_at},
};
use proptest::prelude::*;
use serde::Deserialize;

use crate::golden::{self, ExpectedRect};

#[derive(Deserialize)]
struct MaskCase {
    mask: String,
    contours: Vec<ExpectedContour>,
    approx_extra: Vec<ExtraApproximation>,
}

#[derive(Deserialize)]
struct ExpectedContour {
    pts: Vec<i32>,
    area: f64,
    bbox: [i32; 4],
    perimeter: f64,
    min_area_rect: ExpectedRect,
    box_points_round_bbox: [i32; 4],
    approx: Vec<i32>,
    hull: Vec<i32>,
    fill_crc32: u32,
    fill_approx_crc32: u32,
}

#[derive(Deserialize)]
struct ExtraApproximation {
    contour: usize,
    eps_px: f64,
    approx: Vec<i32>,
}

fn bbox(points: &[Point]) -> [i32; 4] {
    let rect = bounding_rect(points);
    [rect.x, rect.y, rect.width, rect.height]
}

fn filled(mask: &GrayImage, contour: &[Point]) -> GrayImage {
    let mut image = GrayImage::new(mask.width(), mask.height());
    fill_polygon(&mut image, contour, 255);
    image
}

#[test]
fn contours_equal_those_of_opencv_point_by_point() {
    let cases: Vec<MaskCase> = golden::cases("cv/contours.json");
    assert_eq!(cases.len(), 72);
    for case in cases {
        let found = find_contours(&golden::gray(&format!("cv/{}", case.mask)));
        let found: Vec<_> = found.iter().map(|contour| golden::flat(contour)).collect();
        let expected: Vec<_> = case.contours.into_iter().map(|contour| contour.pts).collect();
        assert_eq!(found, expected, "{}", case.mask);
    }
}

#[test]
fn measures_of_contours_equal_those_of_opencv() {
    for case in golden::cases::<MaskCase>("cv/contours.json") {
        for (index, expected) in case.contours.iter().enumerate() {
            let context = format!("{} contour {index}", case.mask);
            let contour = golden::points(&expected.pts);
            assert_eq!(contour_area(&contour), expected.area, "{context}");
            assert_eq!(bbox(&contour), expected.bbox, "{context}");
            let perimeter = arc_length(&contour);
            assert!(
                (perimeter - expected.perimeter).abs() < 1e-9,
                "{context}: {perimeter}"
            );
            assert_eq!(golden::flat(&convex_hull(&contour)), expected.hull, "{context}");

            let rect = min_area_rect(&contour);
            expected.min_area_rect.assert_matches(rect, &context);
            let corners = rect
                .corners()
                .map(|(x, y)| Point::new(x.round_ties_even() as i32, y.round_ties_even() as i32));
            assert_eq!(bbox(&corners), expected.box_points_round_bbox, "{context}");
        }
    }
}

#[test]
fn simplified_contours_equal_those_of_opencv() {
    for case in golden::cases::<MaskCase>("cv/contours.json") {
        for (index, expected) in case.contours.iter().enumerate() {
            let contour = golden::points(&expected.pts);
            let simplified = simplify(&contour, 0.001 * arc_length(&contour));
            assert_eq!(
                golden::flat(&simplified),
                expected.approx,
                "{} contour {index}",
                case.mask
            );
        }
        for extra in case.approx_extra {
            let contour = golden::points(&case.contours[extra.contour].pts);
            let simplified = golden::flat(&simplify(&contour, extra.eps_px));
            assert_eq!(
                simplified, extra.approx,
                "{} within {} px",
                case.mask, extra.eps_px
            );
        }
    }
}

#[test]
fn filled_contours_equal_those_of_opencv() {
    for case in golden::cases::<MaskCase>("cv/contours.json") {
        let mask = golden::gray(&format!("cv/{}", case.mask));
        for (index, expected) in case.contours.iter().enumerate() {
            for (polygon, crc32) in [
                (&expected.pts, expected.fill_crc32),
                (&expected.approx, expected.fill_approx_crc32),
            ] {
                let filled = filled(&mask, &golden::points(polygon));
                assert_eq!(golden::crc32(&filled), crc32, "{} contour {index}", case.mask);
            }
        }
    }
}

/// A mask with some discs and boxes in it.
fn blobs() -> impl Strategy<Value = GrayImage> {
    let blob = (0..80_i32, 0..60_i32, 1..18_i32, any::<bool>());
    prop::collection::vec(blob, 0..6).prop_map(|blobs| {
        GrayImage::from_fn(80, 60, |x, y| {
            let ink = blobs.iter().any(|&(center_x, center_y, radius, round)| {
                let (dx, dy) = (x as i32 - center_x, y as i32 - center_y);
                if round {
                    dx * dx + dy * dy <= radius * radius
                } else {
                    dx.abs().max(dy.abs()) <= radius
                }
            });
            image::Luma([if ink { 255 } else { 0 }])
        })
    })
}

/// Fills every background pixel that is not connected (by sides) to the frame.
fn without_holes(mask: &GrayImage) -> GrayImage {
    let (width, height) = mask.dimensions();
    let mut solid = GrayImage::from_pixel(width, height, image::Luma([255]));
    let frame = (0..width).flat_map(|x| [(x, 0), (x, height - 1)]);
    let frame = frame.chain((0..height).flat_map(|y| [(0, y), (width - 1, y)]));
    let mut open: Vec<(u32, u32)> = frame.collect();
    while let Some((x, y)) = open.pop() {
        if x < width && y < height && mask.get_pixel(x, y).0 == [0] && solid.get_pixel(x, y).0 == [255] {
            solid.put_pixel(x, y, image::Luma([0]));
            open.extend([
                (x + 1, y),
                (x, y + 1),
                (x.wrapping_sub(1), y),
                (x, y.wrapping_sub(1)),
            ]);
        }
    }
    solid
}

proptest! {
    #[test]
    fn refilled_contours_give_a_solid_mask_back(mask in blobs()) {
        let solid = without_holes(&mask);
        let mut refilled = GrayImage::new(80, 60);
        for contour in find_contours(&solid) {
            fill_polygon(&mut refilled, &contour, 255);
        }
        prop_assert_eq!(refilled, solid);
    }

    #[test]
    fn every_contour_lies_on_ink_beside_background(mask in blobs()) {
        let ink = |x: i32, y: i32| {
            (0..80).contains(&x) && (0..60).contains(&y) && mask.get_pixel(x as u32, y as u32).0[0] > 0
        };
        for point in find_contours(&mask).into_iter().flatten() {
            prop_assert!(ink(point.x, point.y));
            let beside = [(1, 0), (-1, 0), (0, 1), (0, -1)];
            prop_assert!(beside.iter().any(|(dx, dy)| !ink(point.x + dx, point.y + dy)));
        }
    }

    #[test]
    fn a_fill_of_the_bounding_box_is_the_cut_of_a_page_fill(mask in blobs()) {
        for contour in find_contours(&mask) {
            let rect = bounding_rect(&contour);
            let (x, y) = (rect.x as u32, rect.y as u32);
            let mut part = GrayImage::new(rect.width as u32, rect.height as u32);
            fill_polygon_at(&mut part, &contour, Point::new(rect.x, rect.y), 255);
            let page = filled(&mask, &contour);
            let cut = image::imageops::crop_imm(&page, x, y, part.width(), part.height()).to_image();
            prop_assert_eq!(part, cut);
        }
    }
}
