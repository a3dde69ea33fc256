//! Convolutions of each channel with a kernel of its own.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::buffer_pool::PooledBuffer;
use super::instruction_set::InstructionSet;
use super::product::{MAX_COLUMNS, columns_at_once, load};
use super::{Epilogue, RowMap, TargetRows, VerticalTaps};
use crate::activation::Activation;
use crate::convolution::Conv2dShape;

/// A depthwise convolution. With a stride it computes all columns of its rows and keeps some: these are few convolutions, and
/// they are a small part of what their networks compute.
#[derive(Debug)]
pub struct DepthwiseConvolution {
    shape: Conv2dShape,
    /// `[channels][rows][columns]`.
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl DepthwiseConvolution {
    /// Rows that are computed together, so that what several of them see is loaded once.
    pub(crate) const ROWS: usize = 4;

    /// A convolution with these weights; `weight` is `[channels][1][kernel rows][kernel columns]`. The shape has as many groups
    /// as channels.
    pub(crate) fn new(weight: Vec<f32>, bias: Vec<f32>, shape: Conv2dShape) -> Self {
        debug_assert!(shape.groups == shape.inputs && shape.after == [0, 0]);
        Self { shape, weight, bias }
    }

    /// The map after the convolution, its bias and `activation`.
    pub(crate) fn forward(&self, map: &RowMap, activation: Activation) -> RowMap {
        self.rows(map, 0..self.output(map.rows, 0), activation)
    }

    /// The rows `rows` of the output, that is of the map after the convolution, its bias and `activation`.
    pub(crate) fn rows(&self, map: &RowMap, rows: Range<usize>, activation: Activation) -> RowMap {
        self.rows_on(InstructionSet::detect(), map, rows, activation)
    }

    /// Number of rows (axis 0) or columns (axis 1) of the output for as many of the input.
    fn output(&self, input: usize, axis: usize) -> usize {
        let Conv2dShape {
            kernel,
            stride,
            dilation,
            padding,
            ..
        } = self.shape;
        (input + 2 * padding[axis])
            .checked_sub(dilation[axis] * (kernel[axis] - 1) + 1)
            .map_or(0, |last| last / stride[axis] + 1)
    }

    pub(super) fn rows_on(
        &self,
        instructions: InstructionSet,
        map: &RowMap,
        rows: Range<usize>,
        activation: Activation,
    ) -> RowMap {
        let mut target = RowMap::unset(rows.len(), map.channels, self.output(map.width, 1));
        instructions.run(Pass {
            convolution: self,
            activation,
            map,
            first_row: rows.start,
            target: target.all_rows(),
        });
        target
    }
}

/// One use of a convolution, on one map.
struct Pass<'a> {
    convolution: &'a DepthwiseConvolution,
    activation: Activation,
    map: &'a RowMap,
    /// Row of the output that is the first of the target.
    first_row: usize,
    target: TargetRows<'a>,
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
            mut target,
        } = self;
        let target = &mut target;
        let epilogue = Epilogue::new(bias, activation);
        let vertical = VerticalTaps::new(shape);
        if target.values.is_empty() {
            return;
        }
        let [down, every] = shape.stride;
        // Columns as they are without a stride along the row.
        let (columns, width) = (columns_at_once::<S>(), (target.width - 1) * every + 1);
        let [padding, dilation] = [shape.padding[1], shape.dilation[1]];
        const ROWS: usize = DepthwiseConvolution::ROWS;
        // What the rows see of a channel, with zeros around.
        // The last strip of a row is computed whole and reads up to the next multiple.
        let across = dilation * (shape.kernel[1] - 1);
        let stride = (width.next_multiple_of(columns) + across).max(map.width + padding);
        let reach = vertical.dilation * (vertical.kernel - 1);
        let mut plane = PooledBuffer::take(((target.rows - 1) * down + reach + 1) * stride);
        // The buffer holds values of its last use, and only the middle of its rows is written: the margins
        // have to be zero.
        plane.fill(0.0);
        let kernels = weight.chunks_exact(shape.kernel[0] * shape.kernel[1]);
        for (channel, kernel) in kernels.enumerate() {
            for (row, target) in plane.chunks_exact_mut(stride).enumerate() {
                let row = (first_row * down + row).checked_sub(vertical.padding);
                // Rows outside the map are outside for all channels and stay zero.
                if let Some(row) = row.filter(|&row| row < map.rows) {
                    target[padding..padding + map.width].copy_from_slice(map.channel(row, channel));
                }
            }
            let mut row = 0;
            while row < target.rows {
                // Neighbouring rows of the output see the same rows only where the taps of the kernel are
                // neighbours as well.
                let together =
                    if vertical.dilation == 1 && down == 1 && every == 1 && target.rows - row >= ROWS {
                        ROWS
                    } else {
                        1
                    };
                for first in (0..width).step_by(columns) {
                    let strip = Strip {
                        plane: &plane[row * down * stride + first..],
                        steps: [vertical.dilation * stride, dilation],
                        kernel,
                        across: shape.kernel[1],
                        epilogue,
                        channel,
                        row,
                        columns: first..width.min(first + columns),
                        every,
                    };
                    match (strip.columns.len().div_ceil(S::F32_LANES), together) {
                        (0 | 1, ROWS) => strip.compute::<S, 1, ROWS>(simd, target),
                        (2, ROWS) => strip.compute::<S, 2, ROWS>(simd, target),
                        (3, ROWS) => strip.compute::<S, 3, ROWS>(simd, target),
                        (_, ROWS) => strip.compute::<S, 4, ROWS>(simd, target),
                        (0 | 1, _) => strip.compute::<S, 1, 1>(simd, target),
                        (2, _) => strip.compute::<S, 2, 1>(simd, target),
                        (3, _) => strip.compute::<S, 3, 1>(simd, target),
                        _ => strip.compute::<S, 4, 1>(simd, target),
                    }
                }
                row += together;
            }
        }
    }
}

/// Part of a channel that is computed at once: some columns in some rows of the target.
struct Strip<'a> {
    /// Values of the channel, from the first that the first column of the first row sees.
    plane: &'a [f32],
    /// Distance in `plane` from tap to tap, down and across.
    steps: [usize; 2],
    kernel: &'a [f32],
    /// Taps of a row of the kernel.
    across: usize,
    epilogue: Epilogue<'a>,
    channel: usize,
    row: usize,
    /// Columns as they are without a stride.
    columns: Range<usize>,
    /// Number of columns of which the first is kept.
    every: usize,
}

impl Strip<'_> {
    /// Computes `N` vectors in `R` rows. With more than one row, the kernel is not dilated from row to row.
    #[inline(always)]
    fn compute<S: Simd, const N: usize, const R: usize>(&self, simd: S, target: &mut TargetRows<'_>) {
        let mut sums = [[simd.splat_f32s(0.0); N]; R];
        let down = self.kernel.len() / self.across;
        // Each value that is seen is loaded once and goes into the sums of all the rows that see it.
        for seen_row in 0..R + down - 1 {
            for tap in 0..self.across {
                let start = seen_row * self.steps[0] + tap * self.steps[1];
                let seen = load::<S, N>(&self.plane[start..start + N * S::F32_LANES]);
                for (row, sums) in sums.iter_mut().enumerate() {
                    // Negative where the output row lies below the seen row; that wraps around to no tap.
                    let tap_row = seen_row.wrapping_sub(row);
                    if tap_row < down {
                        let weight = simd.splat_f32s(self.kernel[tap_row * self.across + tap]);
                        for (sum, seen) in sums.iter_mut().zip(seen) {
                            *sum = simd.mul_add_e_f32s(weight, seen, *sum);
                        }
                    }
                }
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            let target = target.channel_mut(self.row + row, self.channel);
            if self.every == 1 {
                let target = &mut target[self.columns.clone()];
                self.epilogue.write_vectors(simd, self.channel, sums, target);
                continue;
            }
            let mut values = [0.0; MAX_COLUMNS];
            let values = &mut values[..self.columns.len()];
            self.epilogue.write_vectors(simd, self.channel, sums, values);
            let first = self.columns.start.div_ceil(self.every);
            let kept = values
                .iter()
                .skip(first * self.every - self.columns.start)
                .step_by(self.every);
            for (target, &value) in target[first..].iter_mut().zip(kept) {
                *target = value;
            }
        }
    }
}
