//! Resolutions at which pages are rendered.

use crate::Limits;
use crate::geometry::PageSize;

/// Resolution of renderings unless another one is asked for.
pub const DEFAULT_DPI: f32 = 300.0;

/// Points an inch.
pub(crate) const INCH: f64 = 72.0;
/// Longest side of a rendering in pixels, of what the renderer can address.
pub(crate) const LONGEST_SIDE: f64 = 16_000.0;

/// Pixels a point of a page at the usual resolution, or at the highest one that the limits allow.
pub(crate) fn usual_scale(size: PageSize, limits: &Limits) -> f64 {
    scale(
        size,
        f64::from(DEFAULT_DPI) / INCH,
        limits.max_rendered_pixels as f64,
    )
    .0
}

/// Pixels a point, and whether they are fewer than wanted.
pub(crate) fn scale(size: PageSize, wanted: f64, max_pixels: f64) -> (f64, bool) {
    let (width, height) = (f64::from(size.width).max(1e-3), f64::from(size.height).max(1e-3));
    let most = (max_pixels / (width * height))
        .sqrt()
        .min(LONGEST_SIDE / width.max(height));
    if wanted > most {
        (most, true)
    } else {
        (wanted, false)
    }
}
