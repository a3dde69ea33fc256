//! Warping of an image by a spline.

use image::GrayImage;

use super::ThinPlateSpline;
use crate::warp::{Interpolation, Sampler};

/// Distance in pixels of the nodes at which a spline is evaluated.
const STEP: usize = 8;

/// Error of interpolated positions, in pixels, up to which they stand in for those of the spline: it changes a sampled
/// value by one grey level at most.
const TOLERANCE: f64 = 1.0 / 256.0;

/// Distance outside the image, in pixels, up to which a position counts as on its edge: a spline through the corners returns
/// them with a small error, which would blacken parts of the frame.
const EDGE_TOLERANCE: f64 = 0.01;

/// The image whose value at each position p is that of `image` at `spline.transform(p)` (a backward map from the output to
/// the source), bilinear, of the same size. Positions outside the outermost pixel centres get `border`.
pub fn warp_spline(image: &GrayImage, spline: &ThinPlateSpline, border: u8) -> GrayImage {
    let mut warped = GrayImage::from_pixel(image.width(), image.height(), image::Luma([border]));
    let (width, height) = (image.width() as usize, image.height() as usize);
    let pixels: &mut [u8] = &mut warped;
    let sampler = Sampler::new(image, Interpolation::Linear);
    for_each_position(spline, width, height, |x, y, source| {
        let value = sampler.sample(source);
        if let Some(value) = value.or_else(|| sampler.sample(onto_edge(source, width, height))) {
            pixels[y * width + x] = (value + 0.5) as u8;
        }
    });
    warped
}

fn onto_edge((x, y): (f64, f64), width: usize, height: usize) -> (f64, f64) {
    let nearest = (
        x.clamp(0.0, width as f64 - 1.0),
        y.clamp(0.0, height as f64 - 1.0),
    );
    let outside = (nearest.0 - x).abs().max((nearest.1 - y).abs());
    if outside <= EDGE_TOLERANCE {
        nearest
    } else {
        (x, y)
    }
}

/// Calls `visit` with x and y of every pixel and the position it maps to.
fn for_each_position(
    spline: &ThinPlateSpline,
    width: usize,
    height: usize,
    mut visit: impl FnMut(usize, usize, (f64, f64)),
) {
    let nodes = Nodes::new(spline, width, height);
    for top in (0..height).step_by(STEP) {
        for left in (0..width).step_by(STEP) {
            // A transform costs a logarithm for each control point: at every pixel, that is tens of millions for a page.
            let cell = nodes.cell(left / STEP, top / STEP);
            for y in top..(top + STEP).min(height) {
                // A bilinear map is linear along a row, so a row of a cell needs only its two ends.
                let ends = cell.as_ref().map(|cell| cell.row(y - top));
                for x in left..(left + STEP).min(width) {
                    let position = ends.map_or_else(
                        || spline.transform((x as f64, y as f64)),
                        |(from, to)| between(from, to, x - left),
                    );
                    visit(x, y, position);
                }
            }
        }
    }
}

/// Values of the spline on a grid that reaches one step beyond the image on every side.
struct Nodes {
    positions: Vec<(f64, f64)>,
    stride: usize,
}

/// The images of a cell's corners: upper left, upper right, lower left, lower right.
struct Cell([(f64, f64); 4]);

impl Nodes {
    fn new(spline: &ThinPlateSpline, width: usize, height: usize) -> Self {
        // A side of n cells has n + 1 nodes, and the second differences at the outermost need one more on
        // each side.
        let (columns, rows) = (width.div_ceil(STEP) + 3, height.div_ceil(STEP) + 3);
        let coordinate = |node: usize| (node as f64 - 1.0) * STEP as f64;
        let positions = (0..rows).flat_map(|row| {
            (0..columns).map(move |column| spline.transform((coordinate(column), coordinate(row))))
        });
        Self {
            positions: positions.collect(),
            stride: columns,
        }
    }

    /// The corners of a cell; `None` where interpolation from them is not good enough.
    ///
    /// The error of bilinear interpolation is an eighth of the second differences along both axes.
    fn cell(&self, column: usize, row: usize) -> Option<Cell> {
        // One node lies before the image in each direction.
        let upper_left = (row + 1) * self.stride + column + 1;
        let corners = [0, 1, self.stride, self.stride + 1].map(|offset| upper_left + offset);
        let largest = |stride: usize| {
            corners
                .iter()
                .map(|&corner| self.second_difference(corner, stride))
                .fold(0.0, f64::max)
        };
        let error = (largest(1) + largest(self.stride)) / 8.0;
        (error <= TOLERANCE).then(|| Cell(corners.map(|corner| self.positions[corner])))
    }

    fn second_difference(&self, node: usize, stride: usize) -> f64 {
        let (before, at, after) = (
            self.positions[node - stride],
            self.positions[node],
            self.positions[node + stride],
        );
        (before.0 - 2.0 * at.0 + after.0).hypot(before.1 - 2.0 * at.1 + after.1)
    }
}

impl Cell {
    /// The images of the ends of a row of pixels.
    fn row(&self, below_top: usize) -> ((f64, f64), (f64, f64)) {
        let [upper_left, upper_right, lower_left, lower_right] = self.0;
        (
            between(upper_left, lower_left, below_top),
            between(upper_right, lower_right, below_top),
        )
    }
}

fn between(from: (f64, f64), to: (f64, f64), pixels: usize) -> (f64, f64) {
    let share = pixels as f64 / STEP as f64;
    (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Displacements of text lines and worse ones: neighbouring control points pulled apart.
        #[test]
        fn interpolated_positions_are_close_to_the_spline(
            displacements in prop::collection::vec((-25.0..25.0_f64, -25.0..25.0_f64), 7),
            positions in prop::collection::vec((0.0..240.0_f64, 0.0..120.0_f64), 3),
        ) {
            let corners = [(0.0, 0.0), (239.0, 0.0), (0.0, 119.0), (239.0, 119.0)];
            let output: Vec<_> = positions.into_iter().chain(corners).collect();
            let source: Vec<_> =
                output.iter().zip(displacements).map(|(p, d)| (p.0 + d.0, p.1 + d.1)).collect();
            let spline = ThinPlateSpline::fit(&output, &source, 0.5).unwrap();
            let mut visited = 0;
            for_each_position(&spline, 240, 120, |x, y, position| {
                let exact = spline.transform((x as f64, y as f64));
                let error = (position.0 - exact.0).hypot(position.1 - exact.1);
                assert!(error < 0.01, "{error} px at ({x}, {y})");
                visited += 1;
            });
            prop_assert_eq!(visited, 240 * 120);
        }
    }
}
