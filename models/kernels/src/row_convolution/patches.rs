//! Convolutions that cut a map into patches, whose kernel is as large as their stride: those of single pixels, once the values of a patch are
//! channels of one pixel.

use std::ops::Range;

use super::map::{RowMap, RowsInOne};
use crate::convolution::Conv2dShape;

/// Sides of a patch, in rows and columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patches {
    rows: usize,
    columns: usize,
}

impl Patches {
    /// The patches that a convolution cuts a map into, or `None` for one that sees a pixel twice, or zeros around the map.
    pub(super) fn of(shape: &Conv2dShape) -> Option<Self> {
        let [rows, columns] = shape.kernel;
        let cuts = shape.stride == shape.kernel
            && shape.dilation == [1, 1]
            && (shape.padding, shape.after) == ([0, 0], [0, 0]);
        (cuts && rows * columns > 1).then_some(Self { rows, columns })
    }

    /// Number of values of a patch of so many channels.
    pub(super) fn values(self, channels: usize) -> usize {
        self.rows * channels * self.columns
    }

    /// Weights `[outputs][channels][rows][columns]` in the order of the values of a patch: `[outputs][rows][channels][columns]`.
    pub(super) fn order(self, weight: &[f32], channels: usize) -> Vec<f32> {
        let outputs = weight.chunks_exact(self.values(channels));
        let by_row = |output: &'_ [f32], row: usize| -> Vec<f32> {
            let kernels = output.chunks_exact(self.rows * self.columns);
            kernels
                .flat_map(|kernel| kernel[row * self.columns..][..self.columns].iter().copied())
                .collect()
        };
        outputs
            .flat_map(|output| (0..self.rows).flat_map(move |row| by_row(output, row)))
            .collect()
    }

    /// Some rows of the patches of a map as one long row, a pixel for each patch; `width` is how many of them a row has.
    #[inline(always)]
    pub(super) fn rows_in_one(self, map: &RowMap, rows: Range<usize>, width: usize) -> RowsInOne {
        let mut seen = RowsInOne::unset(self.values(map.channels), rows.len() * width);
        let stride = seen.stride();
        let size = (map.channels * map.width).max(1);
        for (number, row) in rows.enumerate() {
            let rows = map
                .values
                .chunks_exact(size)
                .skip(row * self.rows)
                .take(self.rows);
            let channels = rows.flat_map(|row| row.chunks_exact(map.width));
            let targets = seen.values.chunks_exact_mut(self.columns * stride);
            for (channel, target) in channels.zip(targets) {
                let target = &mut target[number * width..];
                // The sides that networks have as constants: only then does the compiler make shuffles of the loop.
                match self.columns {
                    2 => halves(channel, stride, width, target),
                    4 => quarters(channel, stride, width, target),
                    columns => {
                        for (first, target) in target.chunks_mut(stride).take(columns).enumerate() {
                            let values = channel.iter().skip(first).step_by(columns);
                            for (target, &value) in target[..width].iter_mut().zip(values) {
                                *target = value;
                            }
                        }
                    }
                }
            }
        }
        seen
    }
}

/// Parts a channel of a row into two channels, `stride` apart, that take turns in it. The channels are parts of one loop, which the compiler makes
/// shuffles of.
#[inline(always)]
fn halves(channel: &[f32], stride: usize, width: usize, target: &mut [f32]) {
    let (first, second) = target.split_at_mut(stride);
    let targets = first[..width].iter_mut().zip(&mut second[..width]);
    for ((first, second), group) in targets.zip(channel.as_chunks::<2>().0) {
        [*first, *second] = *group;
    }
}

/// Parts a channel of a row into four channels.
#[inline(always)]
fn quarters(channel: &[f32], stride: usize, width: usize, target: &mut [f32]) {
    let (upper, lower) = target.split_at_mut(2 * stride);
    let ((first, second), (third, fourth)) = (upper.split_at_mut(stride), lower.split_at_mut(stride));
    let targets = first[..width].iter_mut().zip(&mut second[..width]);
    let targets = targets.zip(&mut third[..width]).zip(&mut fourth[..width]);
    for ((((first, second), third), fourth), group) in targets.zip(channel.as_chunks::<4>().0) {
        [*first, *second, *third, *fourth] = *group;
    }
}
