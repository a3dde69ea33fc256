//! Work that drawing would be: parts of a page, counted by what they cost a renderer rather than by their number.

use hayro_interpret::pattern::{Pattern, TilingPattern};
use hayro_interpret::{DrawMode, Image, Paint};
use kurbo::{Affine, BezPath, Rect, Shape};

/// Height of a mark, in points, that costs as much again as the mark itself: renderers go through marks row by row.
const HEIGHT: f64 = 64.0;
/// Pixels of a rendering that cost as much to fill as a mark does besides.
const PIXELS: f64 = 16_384.0;
/// Cost of a group of marks that is drawn by itself, and then onto the page.
pub(super) const GROUP: f64 = 50.0;

/// Cost of a mark of this extent on a page.
pub(super) fn of_mark(bounds: Rect, page: Rect) -> f64 {
    1.0 + (bounds.intersect(page).height() / HEIGHT).clamp(0.0, 1e6)
}

/// Cost of filling so many square points, each of so many pixels.
pub(super) fn of_area(area: f64, pixels: f64) -> f64 {
    area * pixels / PIXELS
}

/// Square points that a path may fill of a page: those of its rectangle, or of the length and the width of a line.
pub(super) fn filled(path: &BezPath, transform: Affine, mode: &DrawMode, page: Rect) -> f64 {
    match mode {
        DrawMode::Invisible => 0.0,
        DrawMode::Stroke(stroke) => {
            let area = length_of(path) * f64::from(stroke.line_width) * transform.determinant().abs();
            area.clamp(0.0, page.area())
        }
        _ => {
            let bounds = transform.transform_rect_bbox(path.bounding_box());
            bounds.intersect(page).area()
        }
    }
}

/// Number of the dashes of a line.
pub(super) fn of_dashes(path: &BezPath, mode: &DrawMode) -> f64 {
    let DrawMode::Stroke(stroke) = mode else {
        return 0.0;
    };
    if stroke.dash_array.is_empty() {
        return 0.0;
    }
    let period: f64 = stroke.dash_array.iter().map(|dash| f64::from(dash.abs())).sum();
    let dashes = stroke.dash_array.len() as f64;
    length_of(path) / period.max(1e-9) * dashes
}

/// Length of a path, of which an estimate from the ends of its pieces is enough.
fn length_of(path: &BezPath) -> f64 {
    path.segments().map(|segment| length(&segment)).sum()
}

fn length(segment: &kurbo::PathSeg) -> f64 {
    match segment {
        kurbo::PathSeg::Line(line) => (line.p1 - line.p0).hypot(),
        kurbo::PathSeg::Quad(quad) => (quad.p1 - quad.p0).hypot() + (quad.p2 - quad.p1).hypot(),
        kurbo::PathSeg::Cubic(cubic) => {
            (cubic.p1 - cubic.p0).hypot() + (cubic.p2 - cubic.p1).hypot() + (cubic.p3 - cubic.p2).hypot()
        }
    }
}

/// The tiles that a paint is made of, if it is.
pub(super) fn tiling<'p, 'a>(paint: &'p Paint<'a>) -> Option<&'p TilingPattern<'a>> {
    match paint {
        Paint::Pattern(pattern) => match &**pattern {
            Pattern::Tiling(tiling) => Some(tiling),
            Pattern::Shading(_) => None,
        },
        Paint::Color(_) => None,
    }
}

/// Number of times that a tile is drawn for a fill: those that overlap, as the library draws them. The rest repeats pixels.
pub(super) fn tiles(tiling: &TilingPattern<'_>) -> f64 {
    let along = |length: f64, step: f32| (length / f64::from(step.abs()).max(1e-9)).ceil().max(1.0);
    along(tiling.bbox.width(), tiling.x_step) * along(tiling.bbox.height(), tiling.y_step)
}

/// Pixels that are decoded for a picture, with those of its mask.
pub(super) fn pixels(image: &Image<'_, '_>) -> u64 {
    let pixels = |width: u32, height: u32| u64::from(width) * u64::from(height);
    let own = pixels(image.width(), image.height());
    let Image::Raster(raster) = image else { return own };
    let dict = raster.stream().dict();
    let mask = [b"SMask".as_slice(), b"Mask"].into_iter().find_map(|key| {
        let mask = dict.get::<hayro_syntax::object::Stream<'_>>(key)?;
        let side = |key: &[u8]| mask.dict().get::<u32>(key);
        Some(pixels(side(b"Width")?, side(b"Height")?))
    });
    own.max(mask.unwrap_or(0))
}
