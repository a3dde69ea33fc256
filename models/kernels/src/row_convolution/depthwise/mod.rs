//! Convolutions of each channel with a kernel of its own.

#[cfg(target_arch = "x86_64")]
mod aligned;

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::buffer_pool::PooledBuffer;
use super::instruction_set::InstructionSet;
use super::panel::Windows;
use super::product::{columns_at_once, load};
use super::{Epilogue, RowMap, RowsInOne, VerticalTaps};
use crate::activation::Activation;
use crate::convolution::Conv2dShape;

/// A depthwise convolution.
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
    /// Values of a channel, with those around it, that are copied together: half of a first-level cache.
    const PLANE: usize = 1 << 12;

    /// A convolution with these weights; `weight` is `[channels][1][kernel rows][kernel columns]`. The shape has as many groups
    /// as channels.
    pub(crate) fn new(weight: Vec<f32>, bias: Vec<f32>, shape: Conv2dShape) -> Self {
        debug_assert!(shape.groups == shape.inputs && shape.after == [0, 0]);
        Self { shape, weight, bias }
    }

    /// The map after the convolution, its bias and `activation`.
    pub(crate) fn forward(&self, map: &RowMap, activation: Activation) -> RowMap {
        self.forward_on(InstructionSet::detect(), map, activation)
    }

    pub(super) fn forward_on(
        &self,
        instructions: InstructionSet,
        map: &RowMap,
        activation: Activation,
    ) -> RowMap {
        let rows = self.output(map.rows, 0);
        let mut result = RowMap::unset(rows, map.channels, self.output(map.width, 1));
        let layout = Layout {
            row: map.channels * result.width,
            channel: result.width,
        };
        self.compute(instructions, map, 0..rows, activation, layout, &mut result.values);
        result
    }

    /// Some rows of the output, that is of the map after the convolution, its bias and `activation`, as one long row: pixels
    /// that follow each other in it do so in its strips.
    pub(crate) fn rows_in_one(&self, map: &RowMap, rows: Range<usize>, activation: Activation) -> RowsInOne {
        self.rows_in_one_on(InstructionSet::detect(), map, rows, activation)
    }

    pub(super) fn rows_in_one_on(
        &self,
        instructions: InstructionSet,
        map: &RowMap,
        rows: Range<usize>,
        activation: Activation,
    ) -> RowsInOne {
        let width = self.output(map.width, 1);
        let mut result = RowsInOne::unset(map.channels, rows.len() * width);
        let layout = Layout {
            row: width,
            channel: result.stride(),
        };
        self.compute(instructions, map, rows, activation, layout, &mut result.values);
        result
    }

    /// Number of rows above a row of the output that it sees.
    pub(crate) fn rows_above(&self) -> usize {
        self.shape.padding[0]
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

    fn compute(
        &self,
        instructions: InstructionSet,
        map: &RowMap,
        rows: Range<usize>,
        activation: Activation,
        layout: Layout,
        target: &mut [f32],
    ) {
        #[cfg(target_arch = "x86_64")]
        if let InstructionSet::Other(pulp::Arch::V4(_)) = instructions
            && let Some(aligned) = aligned::Aligned::of(self, map, activation)
        {
            return aligned.fill(rows, layout, target);
        }
        instructions.run(Pass {
            convolution: self,
            activation,
            map,
            rows,
            width: self.output(map.width, 1),
            layout,
            target,
        });
    }
}

/// Distances of the target's rows and channels.
#[derive(Debug, Clone, Copy)]
struct Layout {
    row: usize,
    channel: usize,
}

/// One use of a convolution, on one map.
struct Pass<'a> {
    convolution: &'a DepthwiseConvolution,
    activation: Activation,
    map: &'a RowMap,
    /// Rows of the output that the target has.
    rows: Range<usize>,
    /// Number of columns of the output.
    width: usize,
    layout: Layout,
    target: &'a mut [f32],
}

impl WithSimd for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            convolution: DepthwiseConvolution { shape, weight, bias },
            activation,
            map,
            rows,
            width: output_width,
            layout,
            target,
        } = self;
        if target.is_empty() {
            return;
        }
        let epilogue = Epilogue::new(bias, activation);
        let vertical = VerticalTaps::new(shape);
        let windows = Windows::new(shape);
        const ROWS: usize = DepthwiseConvolution::ROWS;
        let method = StripMethod::of(shape);
        let together = if method == StripMethod::Single { 1 } else { ROWS };
        let reach = vertical.dilation * (vertical.kernel - 1);
        let width = output_width.next_multiple_of(S::F32_LANES);
        let padding = shape.padding[1];
        // Rows of the map are copied to where whole vectors begin.
        let before = if shape.stride[1] == 1 {
            padding.next_multiple_of(S::F32_LANES) - padding
        } else {
            0
        };
        let starts: Vec<usize> = windows.starts(width).collect();
        let stride = windows
            .channel_width(width)
            .max(padding + map.width.next_multiple_of(S::F32_LANES));
        let stride = (before + stride).next_multiple_of(S::F32_LANES);
        // The part of a channel that some groups of rows see, with zeros around; it stays in the first-level cache. Rows that two
        // groups see are copied once.
        let groups = DepthwiseConvolution::PLANE / (together * vertical.stride * stride);
        let copied = (groups.max(1) * together).min(rows.len().next_multiple_of(together));
        let mut plane = PooledBuffer::take(((copied - 1) * vertical.stride + reach + 1) * stride);
        // The buffer holds values of its last use, and what lies around the rows is written only here.
        plane.fill(0.0);
        let columns = columns_at_once::<S>();
        for first_row in rows.clone().step_by(copied) {
            let of_plane = first_row..rows.end.min(first_row + copied);
            let above = first_row * vertical.stride;
            // The last group sees as many rows as any.
            let computed = of_plane.len().next_multiple_of(together);
            let seen_rows = (computed - 1) * vertical.stride + reach + 1;
            let kernels = weight.chunks_exact(shape.kernel[0] * shape.kernel[1]);
            for (channel, kernel) in kernels.enumerate() {
                for (row, target) in plane.chunks_exact_mut(stride).take(seen_rows).enumerate() {
                    let inside = (above + row).checked_sub(vertical.padding);
                    match inside.filter(|&row| row < map.rows) {
                        None => target.fill(0.0),
                        Some(row) if shape.stride[1] == 1 => {
                            copy(simd, map.channel(row, channel), &mut target[before + padding..]);
                        }
                        Some(row) => windows.fill_channel(map.channel(row, channel), 0.0, 0, width, target),
                    }
                }
                for row in of_plane.clone().step_by(together) {
                    let group = row..of_plane.end.min(row + together);
                    for first in (0..output_width).step_by(columns) {
                        let count = columns.min(output_width - first);
                        let strip = Strip {
                            plane: &plane[(row - first_row) * vertical.stride * stride + before + first..],
                            stride,
                            vertical,
                            starts: &starts,
                            kernel,
                            epilogue,
                            channel,
                            rows: group.len(),
                            columns: count,
                            layout,
                        };
                        let start = (row - rows.start) * layout.row + channel * layout.channel + first;
                        let target = &mut target[start..];
                        match count.div_ceil(S::F32_LANES) {
                            0 | 1 => strip.fill::<S, 1>(simd, method, target),
                            2 => strip.fill::<S, 2>(simd, method, target),
                            3 => strip.fill::<S, 3>(simd, method, target),
                            _ => strip.fill::<S, 4>(simd, method, target),
                        }
                    }
                }
            }
        }
    }
}

/// Ways of computing a strip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StripMethod {
    /// Kernels of 3 x 3 taps that are neighbours, without a stride.
    Three,
    /// Kernels of 5 x 5 such taps.
    Five,
    /// Several rows together, with any stride.
    Together,
    /// Single rows: neighbouring rows of the output see the same rows only where the taps of the kernel are neighbours as well.
    Single,
}

impl StripMethod {
    fn of(shape: &Conv2dShape) -> Self {
        let is_dense = (shape.stride, shape.dilation) == ([1, 1], [1, 1]);
        match shape.kernel {
            _ if shape.dilation[0] > 1 => Self::Single,
            [3, 3] if is_dense => Self::Three,
            [5, 5] if is_dense => Self::Five,
            _ => Self::Together,
        }
    }
}

/// Copies some values to the start of `target`, with zeros up to a whole vector. Rows are too short for a call of `memcpy`, which a loop over single vectors
/// would become.
#[inline(always)]
fn copy<S: Simd>(simd: S, values: &[f32], target: &mut [f32]) {
    let (whole, rest) = S::as_simd_f32s(values);
    let vectors = S::as_mut_simd_f32s(target).0;
    let (target, after) = vectors.split_at_mut(whole.len());
    let (targets, last_targets) = target.as_chunks_mut::<4>();
    let (whole, last) = whole.as_chunks::<4>();
    for (target, vectors) in targets.iter_mut().zip(whole) {
        *target = *vectors;
    }
    for (target, vector) in last_targets.iter_mut().zip(last) {
        *target = *vector;
    }
    if let Some(last) = after.first_mut()
        && !rest.is_empty()
    {
        *last = simd.partial_load_f32s(rest);
    }
}

/// Part of a channel that is computed at once: some columns in some rows of the target.
struct Strip<'a> {
    /// Values of the channel, from the first that the first tap of the first column sees, in rows of `stride` values.
    plane: &'a [f32],
    stride: usize,
    vertical: VerticalTaps,
    /// Start in a row of `plane` of what each tap along the row sees.
    starts: &'a [usize],
    kernel: &'a [f32],
    epilogue: Epilogue<'a>,
    channel: usize,
    /// Rows and columns that the target has of it.
    rows: usize,
    columns: usize,
    layout: Layout,
}

impl Strip<'_> {
    /// Computes `N` vectors in the way that suits the convolution.
    #[inline(always)]
    fn fill<S: Simd, const N: usize>(&self, simd: S, method: StripMethod, target: &mut [f32]) {
        match method {
            StripMethod::Three => self.square::<S, N, 3>(simd, target),
            StripMethod::Five => self.square::<S, N, 5>(simd, target),
            StripMethod::Together => self.compute::<S, N, { DepthwiseConvolution::ROWS }>(simd, target),
            StripMethod::Single => self.compute::<S, N, 1>(simd, target),
        }
    }

    /// Computes what [`compute`](Self::compute) does for a kernel of `K` x `K` taps that are neighbours, without a stride: as all numbers of
    /// rows and taps are known, nothing is decided on the way.
    #[inline(always)]
    fn square<S: Simd, const N: usize, const K: usize>(&self, simd: S, target: &mut [f32]) {
        let kernel = &self.kernel.as_chunks::<K>().0[..K];
        let mut sums = [[simd.splat_f32s(0.0); N]; DepthwiseConvolution::ROWS];
        self.add_row::<S, N, K, 0>(simd, kernel, &mut sums);
        self.add_row::<S, N, K, 1>(simd, kernel, &mut sums);
        self.add_row::<S, N, K, 2>(simd, kernel, &mut sums);
        self.add_row::<S, N, K, 3>(simd, kernel, &mut sums);
        self.add_row::<S, N, K, 4>(simd, kernel, &mut sums);
        self.add_row::<S, N, K, 5>(simd, kernel, &mut sums);
        if K == 5 {
            self.add_row::<S, N, K, 6>(simd, kernel, &mut sums);
            self.add_row::<S, N, K, 7>(simd, kernel, &mut sums);
        }
        self.write(simd, sums, target);
    }

    /// Adds what the rows of the output see in the row `SEEN` of the plane.
    #[inline(always)]
    fn add_row<S: Simd, const N: usize, const K: usize, const SEEN: usize>(
        &self,
        simd: S,
        kernel: &[[f32; K]],
        sums: &mut [[S::f32s; N]; DepthwiseConvolution::ROWS],
    ) {
        let plane = &self.plane[SEEN * self.stride..][..N * S::F32_LANES + K - 1];
        for tap in 0..K {
            let seen = load::<S, N>(&plane[tap..]);
            for (row, sums) in sums.iter_mut().enumerate() {
                if SEEN >= row && SEEN - row < K {
                    let weight = simd.splat_f32s(kernel[SEEN - row][tap]);
                    for (sum, seen) in sums.iter_mut().zip(seen) {
                        *sum = simd.mul_add_e_f32s(weight, seen, *sum);
                    }
                }
            }
        }
    }

    /// Computes `N` vectors in `R` rows, of which those inside the target are kept. With more than one row, the kernel is not
    /// dilated from row to row. `target` begins with the first column of the first row.
    #[inline(always)]
    fn compute<S: Simd, const N: usize, const R: usize>(&self, simd: S, target: &mut [f32]) {
        let mut sums = [[simd.splat_f32s(0.0); N]; R];
        let VerticalTaps {
            kernel: down,
            stride,
            dilation,
            ..
        } = self.vertical;
        let across = self.starts.len();
        // Each value that is seen is loaded once and goes into the sums of all the rows that see it.
        for seen_row in 0..(R - 1) * stride + down {
            let plane = &self.plane[seen_row * dilation * self.stride..];
            for (tap, &start) in self.starts.iter().enumerate() {
                let seen = load::<S, N>(&plane[start..start + N * S::F32_LANES]);
                for (row, sums) in sums.iter_mut().enumerate() {
                    // Negative where the output row lies below the seen row; that wraps around to no tap.
                    let tap_row = seen_row.wrapping_sub(row * stride);
                    if tap_row < down {
                        let weight = simd.splat_f32s(self.kernel[tap_row * across + tap]);
                        for (sum, seen) in sums.iter_mut().zip(seen) {
                            *sum = simd.mul_add_e_f32s(weight, seen, *sum);
                        }
                    }
                }
            }
        }
        self.write(simd, sums, target);
    }

    /// Writes the sums of those rows that are inside the target.
    #[inline(always)]
    fn write<S: Simd, const N: usize, const R: usize>(
        &self,
        simd: S,
        sums: [[S::f32s; N]; R],
        target: &mut [f32],
    ) {
        // With a number of rows that is known, the sums stay in registers.
        if self.rows == R {
            for (row, sums) in sums.into_iter().enumerate() {
                self.write_row(simd, sums, &mut target[row * self.layout.row..]);
            }
        } else {
            for (row, sums) in (0..self.rows).zip(sums) {
                self.write_row(simd, sums, &mut target[row * self.layout.row..]);
            }
        }
    }

    /// Writes the sums of one row.
    #[inline(always)]
    fn write_row<S: Simd, const N: usize>(&self, simd: S, sums: [S::f32s; N], target: &mut [f32]) {
        let target = &mut target[..self.columns];
        self.epilogue
            .write_vectors(simd, self.channel, sums, false, target);
        self.epilogue.activate(simd, target);
    }
}
