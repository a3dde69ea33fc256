//! Winograd convolutions: fewer multiplications along the rows, by [`toom_cook`](super::toom_cook).
//!
//! Only the rows are transformed, not tiles of rows and columns as usual: rows lie with their channels side by side, the same
//! code serves kernels of one row, and the rounding error stays that of one dimension. The rows of the kernel are terms of the
//! product like its channels. What the terms see at a point lies in one panel, so that a product is the same loop as in the
//! direct convolution, once for each of the points.

use pulp::{Simd, WithSimd};

use super::band::{Band, bands};
use super::buffer_pool::PooledBuffer;
use super::panel::gather;
use super::product::{MAX_COLUMNS, OUTPUTS, PackedWeights, Panel, Tile, columns_at_once, multiply};
use super::toom_cook::{Evaluation, KernelEvaluation, POINTS, interpolate};
use super::{Epilogue, RowMap, TargetRows, VerticalTaps};
use crate::convolution::Conv2dShape;

/// A convolution that computes tiles of `TILE` columns. Kernels with more taps than a tile takes are cut into pieces.
#[derive(Debug)]
pub(super) struct Winograd<const TILE: usize> {
    kernel: [usize; 2],
    padding: usize,
    dilation: usize,
    evaluation: Evaluation,
    /// Kernels at each point. Terms are the pieces of the kernel, in each its rows, in each the channels.
    weights: [PackedWeights; POINTS],
}

impl<const TILE: usize> Winograd<TILE> {
    /// Taps of a piece of the kernel.
    const TAPS: usize = POINTS + 1 - TILE;

    /// Transforms the weights; `weight` is `[outputs][inputs][kernel rows][kernel columns]`. The shape has no stride along the
    /// rows.
    pub(super) fn new(weight: &[f32], shape: &Conv2dShape) -> Self {
        let [down, across] = shape.kernel;
        let (inputs, pieces) = (shape.inputs, across.div_ceil(Self::TAPS));
        let terms = pieces * down * inputs;
        let evaluation = KernelEvaluation::new(Self::TAPS);
        let at_points: Vec<_> = (0..shape.outputs * terms)
            .map(|index| {
                let (output, term) = (index / terms, index % terms);
                let (piece, row, input) = (term / (down * inputs), term / inputs % down, term % inputs);
                let row = &weight[((output * inputs + input) * down + row) * across..][..across];
                evaluation.of(&row[piece * Self::TAPS..])
            })
            .collect();
        Self {
            kernel: shape.kernel,
            padding: shape.padding[1],
            dilation: shape.dilation[1],
            evaluation: Evaluation::new(),
            weights: std::array::from_fn(|point| {
                PackedWeights::new(shape.outputs, terms, |output, term| {
                    at_points[output * terms + term][point]
                })
            }),
        }
    }
}

/// One use of a convolution, on one map.
pub(super) struct WinogradPass<'a, const TILE: usize> {
    pub(super) convolution: &'a Winograd<TILE>,
    pub(super) vertical: VerticalTaps,
    pub(super) epilogue: Epilogue<'a>,
    pub(super) map: &'a RowMap,
    pub(super) target: TargetRows<'a>,
}

impl<const TILE: usize> WithSimd for WinogradPass<'_, TILE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let strip = columns_at_once::<S>();
        let (inputs, outputs) = (self.map.channels, self.target.channels);
        let (terms, blocks) = (self.kernel_terms(), outputs.div_ceil(OUTPUTS));
        let kernel_rows = self.convolution.kernel[0];
        let dilation = self.convolution.dilation;
        // The bands of a map are of few sizes: panel, sums and starts are made for the first and used again.
        let (mut panel, mut sums, mut starts) = (PooledBuffer::take(0), PooledBuffer::take(0), Vec::new());
        // With a dilation of d, every d-th column is a row of its own that an undilated kernel reads: tiles take d-th columns.
        let tiles = self.target.width.div_ceil(dilation).div_ceil(TILE);
        // Input and output at the points; the input twice, as its neighbouring rows are seen too.
        let values_per_tile = POINTS * (2 * inputs + outputs);
        for band in bands(self.target.rows, tiles, dilation, strip, values_per_tile) {
            let lines = band.lines(self.vertical);
            // A channel at a point is `stride` long: all tiles of all lines that the band sees. A vector that is not full goes
            // on into what lies behind.
            let stride = lines.count() * band.line() + S::F32_LANES;
            // The rows of the kernel look into the same lines, so only pieces and channels have values of their own.
            // The last strip of a point is a whole one and reads on behind its tiles.
            let point_stride = terms / kernel_rows * stride + MAX_COLUMNS;
            if panel.len() < POINTS * point_stride {
                panel = PooledBuffer::take(POINTS * point_stride);
            }
            starts.clear();
            starts.extend((0..terms).map(|term| {
                let (input, row, piece) = (
                    term % inputs,
                    term / inputs % kernel_rows,
                    term / inputs / kernel_rows,
                );
                // The tiles of the next output row are one line further for every tap, so one start a term serves the band.
                ((piece * inputs + input) * stride + lines.start(row) * band.line()) as u32
            }));
            self.evaluate(simd, &band, [point_stride, stride], &mut panel);
            let strips = band.tiles().div_ceil(strip);
            let size = POINTS * strips * blocks * OUTPUTS * MAX_COLUMNS;
            if sums.len() < size {
                sums = PooledBuffer::take(size);
            }
            // A point is finished for the whole band before the next one: its weights stay in the cache meanwhile.
            let sums: &mut [Tile] = sums[..size].as_chunks_mut().0.as_chunks_mut().0;
            for (point, weights) in self.convolution.weights.iter().enumerate() {
                for number in 0..strips {
                    // A strip further on every term is as far further on, so that all strips share the
                    // starts.
                    let panel = Panel {
                        values: &panel[point * point_stride + number * strip..],
                        starts: &starts,
                    };
                    let count = strip.min(band.tiles() - number * strip);
                    let sums = &mut sums[(point * strips + number) * blocks..][..blocks];
                    for (weights, sums) in weights.blocks().zip(sums) {
                        multiply(simd, panel, weights, count, sums);
                    }
                }
            }
            self.write(simd, &band, sums);
        }
    }
}

impl<const TILE: usize> WinogradPass<'_, TILE> {
    /// Number of terms of the product.
    fn kernel_terms(&self) -> usize {
        let [down, across] = self.convolution.kernel;
        across.div_ceil(Winograd::<TILE>::TAPS) * down * self.map.channels
    }

    /// Fills the panel: point by point, for each piece of the kernel and each channel, the values of the tiles of all lines.
    /// `strides` are those from point to point and from channel to channel.
    #[inline(always)]
    fn evaluate<S: Simd>(&self, simd: S, band: &Band, strides: [usize; 2], panel: &mut [f32]) {
        let Winograd {
            kernel,
            padding,
            dilation,
            evaluation,
            ..
        } = self.convolution;
        let (padding, dilation) = (*padding, *dilation);
        let lines = band.lines(self.vertical);
        let pieces = kernel[1].div_ceil(Winograd::<TILE>::TAPS);
        // A tile sees POINTS columns: its own TILE, and the rest in as many tiles after it.
        let beyond = (POINTS - 1) / TILE;
        let width = band.columns.len();
        let mut window = [[0.0; TILE]; 2 * MAX_COLUMNS];
        let mut parts = [[0.0; 2 * MAX_COLUMNS]; TILE];
        let [point_stride, stride] = strides;
        for (number, line) in lines.padded_rows().enumerate() {
            let row = line.checked_sub(self.vertical.padding);
            let row = row.filter(|&row| row < self.map.rows);
            for term in 0..pieces * self.map.channels {
                let (piece, channel) = (term / self.map.channels, term % self.map.channels);
                let start = term * stride + number * band.line();
                let Some(row) = row else {
                    // The transform is linear: a row of zeros is zero at every point.
                    for point in 0..POINTS {
                        panel[point * point_stride + start..][..band.line()].fill(0.0);
                    }
                    continue;
                };
                let input = self.map.channel(row, channel);
                for phase in 0..dilation {
                    let start = start + phase * width;
                    // A piece of the kernel sees what the first piece sees, its taps further right.
                    let first = TILE * band.columns.start + piece * Winograd::<TILE>::TAPS;
                    let window = &mut window[..width + beyond];
                    gather(
                        input,
                        padding,
                        0.0,
                        phase + dilation * first,
                        dilation,
                        window.as_flattened_mut(),
                    );
                    // Column c of all tiles side by side: then one vector is one column of as many tiles, and the transform
                    // needs no shuffles.
                    deinterleave(window, &mut parts);
                    for first in (0..width).step_by(S::F32_LANES) {
                        let mut columns = [simd.splat_f32s(0.0); POINTS];
                        for (point, column) in columns.iter_mut().enumerate() {
                            // Column `point` of a tile is column `point % TILE` of the tile `point / TILE` further on.
                            let part = &parts[point % TILE][point / TILE + first..];
                            *column = S::as_simd_f32s(&part[..S::F32_LANES]).0[0];
                        }
                        let values = evaluation.of(simd, columns);
                        for (point, value) in values.into_iter().enumerate() {
                            let target = &mut panel[point * point_stride + start + first..];
                            // A vector that is not full writes into the next phase or line, which is filled
                            // after this one, or into the room that is left behind the last.
                            S::as_mut_simd_f32s(&mut target[..S::F32_LANES]).0[0] = value;
                        }
                    }
                }
            }
        }
    }

    /// Interpolates the columns from the sums at the points and writes them, after the epilogue, to the target.
    #[inline(always)]
    fn write<S: Simd>(&mut self, simd: S, band: &Band, sums: &[Tile]) {
        let strip = columns_at_once::<S>();
        let (blocks, strips) = (
            self.target.channels.div_ceil(OUTPUTS),
            band.tiles().div_ceil(strip),
        );
        let mut columns = [[0.0; MAX_COLUMNS]; TILE];
        let mut tiles = [[0.0; TILE]; MAX_COLUMNS];
        for output in 0..self.target.channels {
            let (block, row_of_block) = (output / OUTPUTS, output % OUTPUTS);
            for number in 0..strips {
                let count = strip.min(band.tiles() - number * strip);
                for vector in 0..count.div_ceil(S::F32_LANES) {
                    let mut at_points = [simd.splat_f32s(0.0); POINTS];
                    for (point, value) in at_points.iter_mut().enumerate() {
                        let sums = &sums[(point * strips + number) * blocks + block];
                        *value = S::as_simd_f32s(&sums[row_of_block]).0[vector];
                    }
                    let values: [S::f32s; TILE] = interpolate(simd, at_points);
                    for (target, value) in columns.iter_mut().zip(values) {
                        S::as_mut_simd_f32s(target).0[vector] = value;
                    }
                }
                // The target has its columns side by side, not its tiles.
                let tiles = &mut tiles[..count];
                interleave(&columns, tiles);
                self.epilogue.finish(simd, output, tiles.as_flattened_mut());
                self.scatter_strip(band, number * strip, tiles, output);
            }
        }
    }

    /// Scatters tiles from the tile `first` of the band on to the target, line by line, where their columns have every
    /// `dilation`-th place.
    #[inline(always)]
    fn scatter_strip(&mut self, band: &Band, first: usize, mut tiles: &[[f32; TILE]], output: usize) {
        let dilation = self.convolution.dilation;
        for line in band.lines_of_strip(first, tiles.len()) {
            let (of_line, after) = tiles.split_at(line.tiles);
            tiles = after;
            let start = line.phase + dilation * TILE * line.first_tile;
            let target = self.target.channel_mut(line.row, output);
            scatter(
                of_line.as_flattened(),
                dilation,
                target.get_mut(start..).unwrap_or_default(),
            );
        }
    }
}

/// Deinterleaves tiles into their first columns, their second columns, and so on. All columns of a tile are read at once, which
/// the compiler makes shuffles of.
#[inline(always)]
fn deinterleave<const TILE: usize>(tiles: &[[f32; TILE]], parts: &mut [[f32; 2 * MAX_COLUMNS]; TILE]) {
    for (tile, values) in tiles.iter().enumerate() {
        for (part, &value) in parts.iter_mut().zip(values) {
            part[tile] = value;
        }
    }
}

/// Interleaves columns to tiles. All columns of a tile are written at once, which the compiler makes shuffles of.
#[inline(always)]
fn interleave<const TILE: usize>(columns: &[[f32; MAX_COLUMNS]; TILE], tiles: &mut [[f32; TILE]]) {
    for (tile, values) in tiles.iter_mut().enumerate() {
        for (value, column) in values.iter_mut().zip(columns) {
            *value = column[tile];
        }
    }
}

/// Scatters values to every `stride`-th place, as far as there is room: the last tile of a row may reach beyond it.
#[inline(always)]
fn scatter(values: &[f32], stride: usize, target: &mut [f32]) {
    if stride == 1 {
        let count = values.len().min(target.len());
        target[..count].copy_from_slice(&values[..count]);
        return;
    }
    for (target, &value) in target.iter_mut().step_by(stride).zip(values) {
        *target = value;
    }
}
