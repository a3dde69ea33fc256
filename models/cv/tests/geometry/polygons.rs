use image::GrayImage;
use parkhang_cv::{
    geometry::{Point, arc_length, bounding_rect, contour_area, convex_hull, min_area_rect, simplify},
    polygon::fill_polygon,
};
use proptest::prelude::*;
use serde::Deserialize;

use crate::golden::{self, ExpectedRect};

#[derive(Deserialize)]
struct Polygon {
    kind: String,
    w: u32,
    h: u32,
    pts: Vec<i32>,
    fill_crc32: u32,
    bbox: [i32; 4],
    area: f64,
    perimeter: f64,
    min_area_rect: ExpectedRect,
    hull: Vec<i32>,
    approx: Vec<i32>,
}

#[test]
fn polygons_of_any_kind_are_measured_and_filled_as_by_opencv() {
    let cases: Vec<Polygon> = golden::cases("cv/polygons.json");
    assert_eq!(cases.len(), 53);
    for (index, case) in cases.iter().enumerate() {
        let context = format!("polygon {index}, {}", case.kind);
        let polygon = golden::points(&case.pts);
        assert_eq!(contour_area(&polygon), case.area, "{context}");
        let rect = bounding_rect(&polygon);
        assert_eq!([rect.x, rect.y, rect.width, rect.height], case.bbox, "{context}");
        let perimeter = arc_length(&polygon);
        assert!(
            (perimeter - case.perimeter).abs() < 1e-9,
            "{context}: {perimeter}"
        );
        assert_eq!(golden::flat(&convex_hull(&polygon)), case.hull, "{context}");
        case.min_area_rect
            .assert_matches(min_area_rect(&polygon), &context);
        assert_eq!(
            golden::flat(&simplify(&polygon, 0.001 * perimeter)),
            case.approx,
            "{context}"
        );

        let mut image = GrayImage::new(case.w, case.h);
        fill_polygon(&mut image, &polygon, 255);
        assert_eq!(golden::crc32(&image), case.fill_crc32, "{context}");
    }
}

fn polygon() -> impl Strategy<Value = Vec<Point>> {
    let point = (-300..300_i32, -300..300_i32).prop_map(|(x, y)| Point::new(x, y));
    prop::collection::vec(point, 1..40)
}

/// Positive if `point` is to the right of the way from `from` to `to`, on screen.
fn side(from: Point, to: Point, point: Point) -> i32 {
    (to.x - from.x) * (point.y - from.y) - (to.y - from.y) * (point.x - from.x)
}

proptest! {
    #[test]
    fn the_hull_is_convex_and_holds_all_points(polygon in polygon()) {
        let hull = convex_hull(&polygon);
        let next = |index: usize| hull[(index + 1) % hull.len()];
        for (index, &corner) in hull.iter().enumerate() {
            for &point in &polygon {
                prop_assert!(side(corner, next(index), point) >= 0);
            }
            if hull.len() > 2 {
                prop_assert!(side(corner, next(index), next(index + 1)) > 0);
            }
            prop_assert!(polygon.contains(&corner));
        }
    }

    #[test]
    fn the_rotated_rectangle_holds_all_points_and_no_more_area_than_the_upright_one(polygon in polygon()) {
        let rect = min_area_rect(&polygon);
        let (sin, cos) = rect.angle.to_radians().sin_cos();
        for point in &polygon {
            let (dx, dy) = (point.x as f32 - rect.center.0, point.y as f32 - rect.center.1);
            prop_assert!((dx * cos + dy * sin).abs() <= rect.size.0 / 2.0 + 0.05);
            prop_assert!((dy * cos - dx * sin).abs() <= rect.size.1 / 2.0 + 0.05);
        }
        let upright = bounding_rect(&polygon);
        let upright_area = (upright.width - 1) as f32 * (upright.height - 1) as f32;
        let area = rect.size.0 * rect.size.1;
        prop_assert!(area <= upright_area * 1.0001 + 0.01);
        prop_assert!(f64::from(area) * 1.0001 + 0.01 >= contour_area(&convex_hull(&polygon)));
    }

    #[test]
    fn area_and_perimeter_do_not_depend_on_start_and_direction(polygon in polygon(), start in 0..40_usize) {
        let mut other = polygon.clone();
        other.rotate_left(start % polygon.len());
        other.reverse();
        prop_assert_eq!(contour_area(&other), contour_area(&polygon));
        prop_assert!((arc_length(&other) - arc_length(&polygon)).abs() < 1e-6);
    }

    #[test]
    fn simplification_keeps_corners_of_the_polygon_only(polygon in polygon(), epsilon in 0.0..40.0_f64) {
        let simplified = simplify(&polygon, epsilon);
        prop_assert!(!simplified.is_empty() && simplified.len() <= polygon.len());
        prop_assert!(simplified.iter().all(|corner| polygon.contains(corner)));
    }
}
