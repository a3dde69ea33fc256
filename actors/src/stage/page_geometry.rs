//! Way from the straightened page of a table to its scan.

use parkhang_models::line_detection::{ControlPoint, DegenerateDewarp, Dewarp, PageGeometry};
use parkhang_models::page::geometry::Point;
use parkhang_store::artifact::{LineDetectionRow, LineImageRow, OcrResultRow};

/// The geometry of a page whose lines were found.
///
/// # Errors
///
/// [`DegenerateDewarp`] where the spline of the row is none.
pub fn page_geometry(page: &LineDetectionRow) -> Result<PageGeometry, DegenerateDewarp> {
    // A negative size can only come from a damaged table.
    let side = |value: i32| u32::try_from(value).unwrap_or(0);
    let dewarp = page.tps_points.as_ref().map(|points| Dewarp {
        control_points: points
            .iter()
            .map(|[source_x, source_y, target_x, target_y]| ControlPoint {
                source: [f64::from(*source_x), f64::from(*source_y)],
                target: [f64::from(*target_x), f64::from(*target_y)],
            })
            .collect(),
        alpha: page.tps_alpha.unwrap_or(0.5),
    });
    PageGeometry::new(
        side(page.image_width),
        side(page.image_height),
        page.page_angle,
        dewarp,
    )
}

/// Left, top, right and bottom of a line on its scan, in pixels; `None` where it has no place, as in a table whose lines were found anew
/// since.
pub(super) fn bounds_on_scan(
    row: &OcrResultRow,
    line: Option<&LineImageRow>,
    to_scan: &PageGeometry,
) -> Option<[f32; 4]> {
    let corners: Vec<[i32; 2]> = match (&row.outline, line) {
        (Some(outline), _) => outline.clone(),
        (None, Some(line)) => {
            let (right, bottom) = (line.bbox_x + line.bbox_w, line.bbox_y + line.bbox_h);
            let (left, top) = (line.bbox_x, line.bbox_y);
            vec![[left, top], [right, top], [right, bottom], [left, bottom]]
        }
        (None, None) => return None,
    };
    let corners = corners.iter().map(|[x, y]| to_scan.to_page(Point::new(*x, *y)));
    let around = |bounds: [f32; 4], point: Point| {
        let (x, y) = (point.x as f32, point.y as f32);
        [
            bounds[0].min(x),
            bounds[1].min(y),
            bounds[2].max(x),
            bounds[3].max(y),
        ]
    };
    let nothing = [f32::MAX, f32::MAX, f32::MIN, f32::MIN];
    Some(corners.fold(nothing, around))
}
