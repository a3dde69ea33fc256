//! Convolutions of each channel with a kernel of its own.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::instruction_set::InstructionSet;
use super::product::{columns_at_once, load};
use super::{Epilogue, RowMap, VerticalTaps};
use crate::activation::Activation;
use crate::weights::layers::Conv2dShape;

/// Keeps the size of the map.
#[derive(Debug)]
pub(crate) struct DepthwiseConvolution {
    shape: Conv2dShape,
    /// `[channels][rows][columns]`.
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl DepthwiseConvolution {
    /// `weight` is `[channels][1][kernel rows][kernel columns]`. The shape has as many groups as channels and no stride.
    pub(crate) fn new(weight: Vec<f32>, bias: Vec<f32>, shape: Conv2dShape) -> Self {
        debug_assert!(shape.groups == shape.inputs && shape.stride == [1, 1]);
        Self { shape, weight, bias }
    }

    /// The map after the convolution, its bias and `activation`.
    pub(crate) fn forward(&self, map: &RowMap, activation: Activation) -> RowMap {
        self.rows(map, 0..map.rows, activation)
    }

    /// Some rows of it.
    pub(crate) fn rows(&self, map: &RowMap, rows: Range<usize>, activation: Activation) -> RowMap {
        let mut target = RowMap::zeros(rows.len(), map.channels, map.width);
        InstructionSet::detect().run(Pass {
            convolution: self,
            activation,
            map,
            first_row: rows.start,
            target: &mut target,
        });
        target
    }
}

/// One use of it, on one map.
struct Pass<'a> {
    convolution: &'a DepthwiseConvolution,
    activation: Activation,
    map: &'a RowMap,
    /// Row of the output that is the first of the target.
    first_row: usize,
    target: &'a mut RowMap,
}

impl WithSimd for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            convolution: DepthwiseConvolution { shape, weight, bias },
            activation,
            map,
            first_row,
            target,
        } = self;
        let epilogue = Epilogue { bias, activation };
        let vertical = VerticalTaps::new(shape);
        let (columns, width) = (columns_at_once::<S>(), map.width);
        let [padding, dilation] = [shape.padding[1], shape.dilation[1]];
        // What the rows see of a channel, with zeros around.
        let stride = width.next_multiple_of(columns) + 2 * padding;
        let first_input = first_row.saturating_sub(vertical.padding);
        let reach = vertical.dilation * (vertical.kernel - 1);
        let last_input = (first_row + target.rows + reach).saturating_sub(vertical.padding);
        let inputs = last_input.min(map.rows) - first_input;
        let mut plane = vec![0.0; inputs * stride];
        let mut sums = vec![0.0; columns];
        let kernels = weight.chunks_exact(shape.kernel[0] * shape.kernel[1]);
        for (channel, kernel) in kernels.enumerate() {
            for (row, target) in plane.chunks_exact_mut(stride).enumerate() {
                target[padding..padding + width].copy_from_slice(map.channel(first_input + row, channel));
            }
            for row in 0..target.rows {
                let seen = vertical.inside(first_row + row, map.rows);
                let first_seen = vertical.input(first_row + row, seen.start) - first_input;
                let window = Window {
                    plane: &plane[first_seen * stride..],
                    steps: [vertical.dilation * stride, dilation],
                    weights: &kernel[seen.start * shape.kernel[1]..seen.end * shape.kernel[1]],
                    across: shape.kernel[1],
                };
                let target = target.channel_mut(row, channel);
                for (strip, target) in target.chunks_mut(columns).enumerate() {
                    let first = strip * columns;
                    match target.len().div_ceil(S::F32_LANES) {
                        0 | 1 => window.sum::<S, 1>(simd, first, &mut sums),
                        2 => window.sum::<S, 2>(simd, first, &mut sums),
                        3 => window.sum::<S, 3>(simd, first, &mut sums),
                        _ => window.sum::<S, 4>(simd, first, &mut sums),
                    }
                    epilogue.write(channel, &sums, target);
                }
            }
        }
    }
}

/// What a row of the output sees in the rows of a channel.
struct Window<'a> {
    plane: &'a [f32],
    /// From tap to tap, down and across.
    steps: [usize; 2],
    /// Of the taps that see a row, row by row.
    weights: &'a [f32],
    /// Taps of a row.
    across: usize,
}

impl Window<'_> {
    #[inline(always)]
    fn sum<S: Simd, const N: usize>(&self, simd: S, first: usize, target: &mut [f32]) {
        let mut sums = [simd.splat_f32s(0.0); N];
        for (row, weights) in self.weights.chunks_exact(self.across).enumerate() {
            for (tap, &weight) in weights.iter().enumerate() {
                let start = first + row * self.steps[0] + tap * self.steps[1];
                let seen = load::<S, N>(&self.plane[start..start + N * S::F32_LANES]);
                let weight = simd.splat_f32s(weight);
                for (sum, seen) in sums.iter_mut().zip(seen) {
                    *sum = simd.mul_add_e_f32s(weight, seen, *sum);
                }
            }
        }
        for (target, sum) in S::as_mut_simd_f32s(target).0.iter_mut().zip(sums) {
            *target = sum;
        }
    }
}
