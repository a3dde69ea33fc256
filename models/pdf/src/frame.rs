//! Frame of a page: the size as it is displayed, and where its content lies in that.

use hayro_syntax::page::{Page, Rotation};
use kurbo::Affine;

use crate::PdfError;
use crate::geometry::PageSize;

/// Longest side of a displayed page, in points: 100 m. The format allows any number.
const LONGEST_SIDE: f64 = 300_000.0;

/// Displayed page: its size, and the mapping from the content's coordinates to its points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub size: PageSize,
    pub to_points: Affine,
}

impl Frame {
    pub(crate) fn of(page: &Page<'_>) -> Result<Self, PdfError> {
        let unit = page.raw().get::<f32>(&b"UserUnit"[..]).unwrap_or(1.0);
        let unit = if unit.is_finite() && unit > 0.0 { unit } else { 1.0 };
        let (width, height) = page.render_dimensions();
        let (width, height) = (width * unit, height * unit);
        let longest = f64::from(width.max(height));
        if !longest.is_finite() || longest > LONGEST_SIDE {
            return Err(PdfError::TooLarge {
                what: "the longer side of the page in points",
                value: longest as u64,
                limit: LONGEST_SIDE as u64,
            });
        }
        let rotation = match page.rotation() {
            Rotation::None => 0,
            Rotation::Horizontal => 90,
            Rotation::Flipped => 180,
            Rotation::FlippedHorizontal => 270,
        };
        let own = Affine::new(page.initial_transform(true).as_coeffs());
        Ok(Self {
            size: PageSize {
                width,
                height,
                rotation,
            },
            to_points: Affine::scale(f64::from(unit)) * own,
        })
    }
}
