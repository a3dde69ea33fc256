//! Way from the straightened page of a table to its scan.

use parkhang_models::line_detection::{ControlPoint, DegenerateDewarp, Dewarp, PageGeometry};
use parkhang_store::artifact::LineDetectionRow;

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
