//! Kinds of what a page holds besides its text, which the network gives for every eighth pixel, as planes of whole tiles.

use parkhang_kernels::feature_map::{FeatureMap, ResidualBlock};
use parkhang_kernels::{Activation, Conv2dShape};

use super::{LayerLoader, Shift, WeightsError, load_block};
use crate::inference::{Classes, InferenceError};
use crate::networks::softmax::softmax;

/// Side of the squares of pixels that have one answer.
const SQUARE: usize = 8;
/// Kinds that the network tells apart: neither of the others, image, margin, caption, page number and note.
const KINDS: usize = 6;
/// Index of each kind among the planes of [`Classes::Layout`]; the plane of lines has no kind.
const PLANES: [usize; KINDS] = [0, 1, 3, 4, 5, 6];
/// Kernel of the depthwise convolutions.
const KERNEL: usize = 5;

/// The part of the network that tells the kinds, for maps of the kind `M`.
#[derive(Debug)]
pub(super) struct Layout<M: FeatureMap> {
    blocks: Vec<ResidualBlock<M::Convolution>>,
    head: M::Convolution,
}

impl<M: FeatureMap> Layout<M> {
    pub(super) fn load(
        loader: &mut LayerLoader<'_>,
        blocks: u16,
        channels: usize,
    ) -> Result<Self, WeightsError> {
        let blocks = (0..blocks)
            .map(|block| load_block::<M>(loader, &format!("layout_blocks.{block}"), channels, KERNEL))
            .collect::<Result<_, _>>()?;
        let head = Conv2dShape::pointwise(channels, KINDS);
        let head = loader.shifted_layer::<M>("layout_head", Shift::Bias, head)?;
        Ok(Self { blocks, head })
    }

    /// Scores of the kinds, before a softmax, out of the map of every eighth pixel on the way up.
    pub(super) fn scores(&self, map: M) -> Result<M, InferenceError> {
        let mut blocks = self.blocks.iter();
        let map = blocks.try_fold(map, |map, block| map.residual_block(block))?;
        map.convolve(&self.head, Activation::None)
    }
}

/// Adds the planes of a tile to `planes`. `kinds` are the scores of every square, kind after kind, which become probabilities, and `lines` the
/// probabilities of lines, in rows of `columns` pixels.
pub(super) fn add_planes(kinds: &mut [f32], lines: &[f32], columns: usize, planes: &mut Vec<f32>) {
    let area = lines.len();
    let start = planes.len();
    planes.resize(start + Classes::Layout.planes() * area, 0.0);
    let planes = &mut planes[start..];
    let squares = columns / SQUARE;
    let of_a_kind = kinds.len() / KINDS;
    softmax(kinds, of_a_kind);
    for (kind, plane) in kinds.chunks_exact(of_a_kind).zip(PLANES) {
        enlarge(kind, squares, &mut planes[plane * area..][..area]);
    }
    for (background, line) in planes.iter_mut().zip(lines) {
        *background *= 1.0 - line;
    }
    planes[Classes::Layout.line_plane() * area..][..area].copy_from_slice(lines);
}

/// Interpolates between the middles of squares, `squares` to a row, for every pixel of the target.
fn enlarge(values: &[f32], squares: usize, target: &mut [f32]) {
    let rows = values.len() / squares;
    let mut between = vec![0.0; squares];
    for (y, target) in target.chunks_exact_mut(squares * SQUARE).enumerate() {
        let (above, below, share) = neighbours(y, rows);
        let [above, below] = [above, below].map(|row| &values[row * squares..][..squares]);
        for ((between, above), below) in between.iter_mut().zip(above).zip(below) {
            *between = above + share * (below - above);
        }
        for (x, target) in target.iter_mut().enumerate() {
            let (left, right, share) = neighbours(x, squares);
            *target = between[left] + share * (between[right] - between[left]);
        }
    }
}

/// The squares whose middles a pixel lies between, of `count`, and its share of the way from the first to the second.
fn neighbours(pixel: usize, count: usize) -> (usize, usize, f32) {
    let place = ((pixel as f32 + 0.5) / SQUARE as f32 - 0.5).max(0.0);
    let first = (place as usize).min(count - 1);
    (first, (first + 1).min(count - 1), place - first as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_in_the_middles_of_their_squares_and_evenly_between() {
        let (values, squares) = ([0.0, 16.0, 32.0, 48.0], 2);
        let mut target = vec![0.0; 16 * 16];
        enlarge(&values, squares, &mut target);
        let at = |x: usize, y: usize| target[y * 16 + x];
        assert_eq!(
            (at(0, 0), at(15, 0), at(0, 15), at(15, 15)),
            (0.0, 16.0, 32.0, 48.0)
        );
        assert_eq!((at(7, 0), at(8, 0)), (7.0, 9.0));
        assert_eq!((at(0, 7), at(0, 8)), (14.0, 18.0));
    }

    #[test]
    fn planes_of_a_pixel_add_up_and_lines_have_their_own() {
        let columns = 16;
        let mut scores: Vec<f32> = (0..KINDS * 4).map(|place| (place % 7) as f32 - 3.0).collect();
        let lines: Vec<f32> = (0..16 * columns)
            .map(|pixel| f32::from(u8::from(pixel % 3 == 0)))
            .collect();
        let mut planes = vec![5.0];
        add_planes(&mut scores, &lines, columns, &mut planes);
        assert_eq!(planes.len(), 1 + 7 * 256);
        let plane = |plane: usize, pixel: usize| planes[1 + plane * 256 + pixel];
        for (pixel, &line) in lines.iter().enumerate() {
            assert_eq!(plane(2, pixel), line);
            let kinds: f32 = [1, 3, 4, 5, 6].map(|kind| plane(kind, pixel)).iter().sum();
            let plain = plane(0, pixel);
            if line == 0.0 {
                assert!((kinds + plain - 1.0).abs() < 1e-5, "{kinds} {plain}");
            } else {
                assert_eq!(plain, 0.0);
            }
        }
    }
}
