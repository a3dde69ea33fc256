//! Direct convolutions: the weights of every tap times the values that it sees, as the definition says.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::buffer_pool::PooledBuffer;
use super::panel::Windows;
use super::product::{OUTPUTS, PackedWeights, Panel, columns_at_once, sums};
use super::{Epilogue, RowMap, TargetRows, VerticalTaps};
use crate::convolution::Conv2dShape;

/// A convolution without a transform.
#[derive(Debug)]
pub(super) struct Direct {
    windows: Windows,
    /// Weights by output and term. Terms are the rows of the kernel, in each the channels, in each the taps along the row.
    weights: PackedWeights,
}

impl Direct {
    /// Packs the weights; `weight` is `[outputs][inputs][kernel rows][kernel columns]`.
    pub(super) fn new(weight: &[f32], shape: &Conv2dShape) -> Self {
        let [down, across] = shape.kernel;
        let taps = down * across;
        let weights = PackedWeights::new(shape.outputs, taps * shape.inputs, |output, term| {
            let (row, input, column) = (
                term / (shape.inputs * across),
                term / across % shape.inputs,
                term % across,
            );
            weight[(output * shape.inputs + input) * taps + row * across + column]
        });
        Self {
            windows: Windows::new(shape),
            weights,
        }
    }
}

/// One use of a convolution, on one map.
pub(super) struct DirectPass<'a> {
    pub(super) convolution: &'a Direct,
    pub(super) vertical: VerticalTaps,
    pub(super) epilogue: Epilogue<'a>,
    pub(super) map: &'a RowMap,
    pub(super) target: TargetRows<'a>,
}

impl WithSimd for DirectPass<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            convolution: Direct { windows, weights },
            vertical,
            epilogue,
            map,
            target,
        } = self;
        let columns = columns_at_once::<S>();
        let stride = windows.channel_width(columns);
        let starts: Vec<u32> = (0..vertical.kernel * map.channels)
            .flat_map(|channel| {
                windows
                    .starts(columns)
                    .map(move |start| (channel * stride + start) as u32)
            })
            .collect();
        let (row_terms, row_values) = (map.channels * windows.len(), map.channels * stride);
        // One panel for all strips: it is filled anew for each, and stays in the cache.
        let mut panel = PooledBuffer::take(vertical.kernel * row_values);
        let (width, channels) = (target.width, target.channels);
        for (row, target) in target
            .values
            .chunks_exact_mut((channels * width).max(1))
            .enumerate()
        {
            // Taps above and below the map see zeros, which are left out.
            let seen = vertical.inside(row, map.rows);
            for first in (0..width).step_by(columns) {
                let count = columns.min(width - first);
                for (tap, panel) in seen.clone().zip(panel.chunks_exact_mut(row_values)) {
                    windows.fill(map, vertical.input(row, tap), first, columns, panel);
                }
                let panel = Panel {
                    values: &panel,
                    starts: &starts[..seen.len() * row_terms],
                };
                for (block, weights) in weights.blocks().enumerate() {
                    // Rows are the outermost of the terms, so the taps that see the map are one run of the
                    // weights.
                    let weights = &weights[seen.start * row_terms..seen.end * row_terms];
                    let block = Block {
                        panel,
                        weights,
                        epilogue,
                        outputs: block * OUTPUTS..channels.min((block + 1) * OUTPUTS),
                        columns: first..first + count,
                    };
                    match count.div_ceil(S::F32_LANES) {
                        0 | 1 => block.compute::<S, 1>(simd, width, target),
                        2 => block.compute::<S, 2>(simd, width, target),
                        3 => block.compute::<S, 3>(simd, width, target),
                        _ => block.compute::<S, 4>(simd, width, target),
                    }
                }
            }
        }
    }
}

/// Part of a row that is computed at once: some outputs at some columns.
struct Block<'a> {
    panel: Panel<'a>,
    weights: &'a [[f32; OUTPUTS]],
    epilogue: Epilogue<'a>,
    outputs: Range<usize>,
    columns: Range<usize>,
}

impl Block<'_> {
    /// Fills in its part of a row of the output.
    #[inline(always)]
    fn compute<S: Simd, const N: usize>(&self, simd: S, width: usize, row: &mut [f32]) {
        let sums = sums::<S, N>(simd, self.panel, self.weights);
        for (output, sums) in self.outputs.clone().zip(sums) {
            let start = output * width;
            let target = &mut row[start + self.columns.start..start + self.columns.end];
            self.epilogue.write_vectors(simd, output, sums, false, target);
            self.epilogue.activate(simd, target);
        }
    }
}
