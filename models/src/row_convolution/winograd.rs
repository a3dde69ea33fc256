//! The convolution with fewer multiplications along its rows: see [`toom_cook`](super::toom_cook).

use pulp::{Simd, WithSimd};

use super::panel::pick;
use super::product::{
    EMPTY_TILE, MAX_COLUMNS, OUTPUTS, PackedWeights, Panel, Tile, columns_at_once, multiply,
};
use super::toom_cook::{Evaluation, POINTS, interpolate, kernel_at_points};
use super::{Epilogue, RowMap, VerticalTaps};
use crate::weights::layers::Conv2dShape;

/// A convolution that computes tiles of `TILE` columns. Kernels with more taps than a tile takes are cut into pieces.
#[derive(Debug)]
pub(super) struct Winograd<const TILE: usize> {
    kernel: [usize; 2],
    padding: usize,
    dilation: usize,
    evaluation: Evaluation,
    /// For each point. Terms are the pieces of the kernel, in each its rows, in each the channels.
    weights: [PackedWeights; POINTS],
}

impl<const TILE: usize> Winograd<TILE> {
    /// Taps of a piece of the kernel.
    const TAPS: usize = POINTS + 1 - TILE;

    /// `weight` is `[outputs][inputs][kernel rows][kernel columns]`. The shape has no stride along the rows.
    pub(super) fn new(weight: &[f32], shape: &Conv2dShape) -> Self {
        let [down, across] = shape.kernel;
        let (inputs, pieces) = (shape.inputs, across.div_ceil(Self::TAPS));
        let terms = pieces * down * inputs;
        let at_points: Vec<_> = (0..shape.outputs * terms)
            .map(|place| {
                let (output, term) = (place / terms, place % terms);
                let (piece, row, input) = (term / (down * inputs), term / inputs % down, term % inputs);
                let row = &weight[((output * inputs + input) * down + row) * across..][..across];
                let mut kernel = vec![0.0; Self::TAPS];
                for (tap, &value) in kernel.iter_mut().zip(&row[piece * Self::TAPS..]) {
                    *tap = value;
                }
                kernel_at_points(&kernel)
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

/// Tiles of one row that lie side by side: of the columns `first_column`, and every `dilation`-th from there.
#[derive(Debug, Clone, Copy)]
struct Segment {
    row: usize,
    /// Where the row of columns starts, less than the dilation.
    first_column: usize,
    first_tile: usize,
    tiles: usize,
}

/// One use of it, on one map.
pub(super) struct WinogradPass<'a, const TILE: usize> {
    pub(super) convolution: &'a Winograd<TILE>,
    pub(super) vertical: VerticalTaps,
    pub(super) epilogue: Epilogue<'a>,
    pub(super) map: &'a RowMap,
    pub(super) target: &'a mut RowMap,
}

impl<const TILE: usize> WithSimd for WinogradPass<'_, TILE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let strip = columns_at_once::<S>();
        let terms = self.kernel_terms();
        let blocks = self.target.channels.div_ceil(OUTPUTS);
        let starts: Vec<u32> = (0..terms).map(|term| (term * strip) as u32).collect();
        let mut panel = vec![0.0; POINTS * terms * strip];
        let mut sums = vec![EMPTY_TILE; POINTS * blocks];
        for segments in self.strips(strip) {
            let count = segments.iter().map(|segment| segment.tiles).sum();
            self.evaluate(simd, &segments, &mut panel);
            for (point, weights) in self.convolution.weights.iter().enumerate() {
                let panel = Panel {
                    values: &panel[point * terms * strip..][..terms * strip],
                    starts: &starts,
                };
                for (weights, sums) in weights.blocks().zip(&mut sums[point * blocks..]) {
                    multiply(simd, panel, weights, count, sums);
                }
            }
            self.write(simd, &segments, &sums);
        }
    }
}

impl<const TILE: usize> WinogradPass<'_, TILE> {
    fn kernel_terms(&self) -> usize {
        let [down, across] = self.convolution.kernel;
        across.div_ceil(Winograd::<TILE>::TAPS) * down * self.map.channels
    }

    /// The tiles of the output, as many at a time as a product has columns.
    fn strips(&self, columns: usize) -> Vec<Vec<Segment>> {
        let dilation = self.convolution.dilation;
        let mut strips = Vec::new();
        let (mut strip, mut room) = (Vec::new(), columns);
        for row in 0..self.target.rows {
            for first_column in 0..dilation.min(self.target.width) {
                let mut left = (self.target.width - first_column)
                    .div_ceil(dilation)
                    .div_ceil(TILE);
                let mut first_tile = 0;
                while left > 0 {
                    let tiles = left.min(room);
                    strip.push(Segment {
                        row,
                        first_column,
                        first_tile,
                        tiles,
                    });
                    (left, room, first_tile) = (left - tiles, room - tiles, first_tile + tiles);
                    if room == 0 {
                        strips.push(std::mem::take(&mut strip));
                        room = columns;
                    }
                }
            }
        }
        if !strip.is_empty() {
            strips.push(strip);
        }
        strips
    }

    /// Fills the panel: point by point, for each term what the tiles see there.
    #[inline(always)]
    fn evaluate<S: Simd>(&self, simd: S, segments: &[Segment], panel: &mut [f32]) {
        let Winograd {
            kernel,
            padding,
            dilation,
            evaluation,
            ..
        } = self.convolution;
        let (strip, terms) = (columns_at_once::<S>(), self.kernel_terms());
        // Two tiles more than a strip has, as the last ones see beyond their columns.
        let mut parts = [[0.0; MAX_COLUMNS + POINTS]; TILE];
        let mut seen = [[0.0; MAX_COLUMNS]; POINTS];
        for term in 0..terms {
            let channel = term % self.map.channels;
            let row = term / self.map.channels % kernel[0];
            let piece = term / self.map.channels / kernel[0] * Winograd::<TILE>::TAPS;
            let mut place = 0;
            for segment in segments {
                let tiles = segment.tiles;
                let input = self.vertical.input_in(segment.row, row, self.map.rows);
                let Some(input) = input.map(|row| self.map.channel(row, channel)) else {
                    for seen in &mut seen {
                        seen[place..place + tiles].fill(0.0);
                    }
                    place += tiles;
                    continue;
                };
                let beyond = (POINTS - 1) / TILE;
                for (part, target) in parts.iter_mut().enumerate() {
                    let start = segment.first_column + dilation * (TILE * segment.first_tile + part + piece);
                    pick(
                        input,
                        *padding,
                        start,
                        dilation * TILE,
                        &mut target[..tiles + beyond],
                    );
                }
                for (point, seen) in seen.iter_mut().enumerate() {
                    let part = &parts[point % TILE][point / TILE..][..tiles];
                    seen[place..place + tiles].copy_from_slice(part);
                }
                place += tiles;
            }
            for vector in 0..place.div_ceil(S::F32_LANES) {
                let mut columns = [simd.splat_f32s(0.0); POINTS];
                for (column, seen) in columns.iter_mut().zip(&seen) {
                    *column = S::as_simd_f32s(seen).0[vector];
                }
                for (point, value) in evaluation.of(simd, columns).into_iter().enumerate() {
                    let target = &mut panel[(point * terms + term) * strip..][..strip];
                    S::as_mut_simd_f32s(target).0[vector] = value;
                }
            }
        }
    }

    /// Interpolates the columns and puts them in their places.
    #[inline(always)]
    fn write<S: Simd>(&mut self, simd: S, segments: &[Segment], sums: &[Tile]) {
        let blocks = sums.len() / POINTS;
        let dilation = self.convolution.dilation;
        let count: usize = segments.iter().map(|segment| segment.tiles).sum();
        let mut columns = [[0.0; MAX_COLUMNS]; TILE];
        let mut line = [[0.0; TILE]; MAX_COLUMNS];
        for output in 0..self.target.channels {
            let (block, place) = (output / OUTPUTS, output % OUTPUTS);
            for vector in 0..count.div_ceil(S::F32_LANES) {
                let mut at_points = [simd.splat_f32s(0.0); POINTS];
                for (point, value) in at_points.iter_mut().enumerate() {
                    *value = S::as_simd_f32s(&sums[point * blocks + block][place]).0[vector];
                }
                let values: [S::f32s; TILE] = interpolate(simd, at_points);
                for (target, value) in columns.iter_mut().zip(values) {
                    S::as_mut_simd_f32s(target).0[vector] = value;
                }
            }
            for (number, column) in columns.iter().enumerate() {
                for (tile, &value) in line.iter_mut().zip(column) {
                    tile[number] = value;
                }
            }
            let mut rest = line.as_slice();
            for segment in segments {
                let (tiles, after) = rest.split_at(segment.tiles);
                rest = after;
                let target = self.target.channel_mut(segment.row, output);
                let target = &mut target[segment.first_column + dilation * TILE * segment.first_tile..];
                let epilogue = self.epilogue;
                if dilation == 1 {
                    epilogue.write(output, tiles.as_flattened(), target);
                } else {
                    for (&sum, target) in tiles
                        .as_flattened()
                        .iter()
                        .zip(target.iter_mut().step_by(dilation))
                    {
                        epilogue.write(output, &[sum], std::slice::from_mut(target));
                    }
                }
            }
        }
    }
}
