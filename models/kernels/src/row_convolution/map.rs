//! Maps of features in host memory.

use std::ops::Range;

use super::buffer_pool::{LINE, PooledBuffer};
use super::strip::Strip;

/// A map of features in host memory, `[rows][channels][width]`.
#[derive(Debug, Clone)]
pub struct RowMap {
    pub(crate) rows: usize,
    pub(crate) channels: usize,
    pub(crate) width: usize,
    pub(crate) values: PooledBuffer,
}

impl RowMap {
    /// A map whose values are for the caller to set; they are those of a map that is no longer there, or zero.
    pub(crate) fn unset(rows: usize, channels: usize, width: usize) -> Self {
        Self {
            rows,
            channels,
            width,
            values: PooledBuffer::take(rows * channels * width),
        }
    }

    /// The channels of a row, one after the other; `None` outside the map.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> Option<&[f32]> {
        let size = self.channels * self.width;
        self.values.get(row * size..(row + 1) * size)
    }

    #[inline(always)]
    pub(crate) fn channel(&self, row: usize, channel: usize) -> &[f32] {
        let start = (row * self.channels + channel) * self.width;
        &self.values[start..start + self.width]
    }

    /// A copy of some rows.
    pub(crate) fn rows_of(&self, rows: Range<usize>) -> Self {
        let mut copy = Self::unset(rows.len(), self.channels, self.width);
        let size = self.channels * self.width;
        copy.values
            .copy_from_slice(&self.values[rows.start * size..rows.end * size]);
        copy
    }

    /// Some of the rows, where they lie.
    pub(crate) fn seen(&self, rows: Range<usize>) -> SeenMap<'_> {
        let size = self.channels * self.width;
        SeenMap {
            rows: rows.len(),
            channels: self.channels,
            width: self.width,
            stride: self.width,
            values: &self.values[rows.start * size..rows.end * size],
        }
    }

    /// All rows, where they lie.
    pub(crate) fn all_seen(&self) -> SeenMap<'_> {
        self.seen(0..self.rows)
    }

    /// All rows, to fill in.
    pub(crate) fn all_rows(&mut self) -> TargetRows<'_> {
        TargetRows {
            rows: self.rows,
            channels: self.channels,
            width: self.width,
            values: &mut self.values,
        }
    }

    /// Some of the channels.
    pub(crate) fn channels(&self, range: Range<usize>) -> Self {
        let mut part = Self::unset(self.rows, range.len(), self.width);
        let size = (range.len() * self.width).max(1);
        let rows = self.values.chunks_exact((self.channels * self.width).max(1));
        for (target, row) in part.values.chunks_exact_mut(size).zip(rows) {
            target.copy_from_slice(&row[range.start * self.width..range.end * self.width]);
        }
        part
    }

    /// This map with each pixel twice in its row, and each row twice.
    pub(crate) fn doubled(&self) -> Self {
        let mut doubled = Self::unset(2 * self.rows, self.channels, 2 * self.width);
        let size = (self.channels * self.width).max(1);
        let pairs_of_rows = doubled.values.chunks_exact_mut(4 * size);
        for (target, row) in pairs_of_rows.zip(self.values.chunks_exact(size)) {
            let (first, second) = target.split_at_mut(2 * size);
            for (pair, &value) in first.as_chunks_mut::<2>().0.iter_mut().zip(row) {
                *pair = [value; 2];
            }
            second.copy_from_slice(first);
        }
        doubled
    }

    /// Adds a map of half the rows and columns, each of its pixels to four.
    #[inline(always)]
    pub(crate) fn add_doubled(&mut self, coarse: &Self) {
        let size = (coarse.channels * coarse.width).max(1);
        let rows = coarse.values.chunks_exact(size).flat_map(|row| [row; 2]);
        for (target, row) in self.values.chunks_exact_mut(2 * size).zip(rows) {
            for (pair, &value) in target.as_chunks_mut::<2>().0.iter_mut().zip(row) {
                *pair = [pair[0] + value, pair[1] + value];
            }
        }
    }

    /// The first `rows` rows and `columns` columns.
    pub(crate) fn cropped(&self, rows: usize, columns: usize) -> Self {
        let mut cropped = Self::unset(rows, self.channels, columns);
        let channels = self.values.chunks_exact(self.width.max(1));
        for (target, channel) in cropped.values.chunks_exact_mut(columns.max(1)).zip(channels) {
            target.copy_from_slice(&channel[..columns]);
        }
        cropped
    }

    /// This map at `side` times the rows and columns, with the channels of a pixel as patches: those of the upper left pixel first, and so on along its
    /// rows.
    #[inline(always)]
    pub(crate) fn interleaved(&self, side: usize) -> Self {
        let channels = self.channels / (side * side);
        let width = side * self.width;
        let mut target = Self::unset(side * self.rows, channels, width);
        let rows = target.values.chunks_exact_mut((channels * width).max(1));
        for (row, target) in rows.enumerate() {
            for (channel, target) in target.chunks_exact_mut(width.max(1)).enumerate() {
                let first = row % side * side;
                let seen = |column: usize| self.channel(row / side, (first + column) * channels + channel);
                // The sides that networks have as constants: only then does the compiler make shuffles of the loop.
                match side {
                    2 => {
                        let pixels = seen(0).iter().zip(seen(1));
                        for (target, (&first, &second)) in target.as_chunks_mut().0.iter_mut().zip(pixels) {
                            *target = [first, second];
                        }
                    }
                    4 => {
                        let pixels = seen(0).iter().zip(seen(1)).zip(seen(2).iter().zip(seen(3)));
                        let targets = target.as_chunks_mut().0.iter_mut();
                        for (target, ((&first, &second), (&third, &fourth))) in targets.zip(pixels) {
                            *target = [first, second, third, fourth];
                        }
                    }
                    _ => {
                        for column in 0..side {
                            let targets = target.iter_mut().skip(column).step_by(side);
                            for (target, &value) in targets.zip(seen(column)) {
                                *target = value;
                            }
                        }
                    }
                }
            }
        }
        target
    }

    /// This map as one row, in which the rows of each channel are channels of their own, channel by channel.
    pub(crate) fn rows_as_channels(&self) -> Self {
        let mut sequence = Self::unset(1, self.rows * self.channels, self.width);
        let channels = (0..self.channels).flat_map(|channel| (0..self.rows).map(move |row| (row, channel)));
        let targets = sequence.values.chunks_exact_mut(self.width.max(1));
        for (target, (row, channel)) in targets.zip(channels) {
            target.copy_from_slice(self.channel(row, channel));
        }
        sequence
    }

    /// The sum of this map and one of the same size.
    pub(crate) fn add(mut self, other: &Self) -> Self {
        for (value, added) in self.values.iter_mut().zip(other.values.iter()) {
            *value += added;
        }
        self
    }

    /// The values of a map of one row as `[width][channels]`.
    pub(crate) fn into_columns(self) -> Vec<f32> {
        /// Columns at a time: as many as a line of the cache holds.
        const BLOCK: usize = 16;
        let (channels, width) = (self.channels, self.width);
        let mut values = vec![0.0; channels * width];
        for (block, columns) in values.chunks_mut((BLOCK * channels).max(1)).enumerate() {
            for channel in 0..channels {
                let source = &self.values[channel * width + BLOCK * block..];
                for (column, &value) in columns.chunks_exact_mut(channels).zip(source) {
                    column[channel] = value;
                }
            }
        }
        values
    }
}

/// Rows of a map, as a convolution sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenMap<'a> {
    pub(super) rows: usize,
    pub(super) channels: usize,
    pub(super) width: usize,
    /// Values from a channel to the next one.
    pub(super) stride: usize,
    /// `[rows][channels][stride]`
    pub(super) values: &'a [f32],
}

impl<'a> SeenMap<'a> {
    /// The strip of `columns` pixels where it lies, each channel `stride` after the one before; `None` where it is to be [packed](Strip::pack): because it
    /// is short, does not lie in one row, or because its channels would drive each other out of the first-level cache.
    #[inline(always)]
    pub(super) fn in_place(self, strip: Strip, columns: usize) -> Option<&'a [f32]> {
        let (row, column) = (strip.first / self.width, strip.first % self.width);
        let size = self.channels * self.stride;
        (strip.count == columns && column + columns <= self.width && self.is_spread())
            .then(|| &self.values[row * size + column..(row + 1) * size])
    }

    /// Returns whether the same column of all channels stays in a first-level cache: where a channel begins in one of few sets, only some do.
    #[inline(always)]
    fn is_spread(self) -> bool {
        /// Sets of lines of the cache, and half of the lines of each.
        const SETS: usize = 64;
        const WAYS: usize = 4;
        let lines = self.stride / LINE;
        // An odd number of lines goes through all sets, and each factor of two halves them.
        let sets = SETS >> lines.trailing_zeros().min(SETS.trailing_zeros());
        self.stride.is_multiple_of(LINE) && (sets == SETS || self.channels <= sets * WAYS)
    }
}

/// Rows of a map one after the other, as one row.
#[derive(Debug)]
pub(crate) struct RowsInOne {
    pub(super) channels: usize,
    pub(super) width: usize,
    /// `[channels][stride]`
    pub(super) values: PooledBuffer,
}

impl RowsInOne {
    /// A row whose values are for the caller to set.
    pub(super) fn unset(channels: usize, width: usize) -> Self {
        Self {
            channels,
            width,
            values: PooledBuffer::take(channels * Self::stride_of(width)),
        }
    }

    fn stride_of(width: usize) -> usize {
        let lines = width.div_ceil(LINE);
        LINE * (lines + usize::from(lines.is_multiple_of(2)))
    }

    /// Values from a channel to the next one.
    pub(super) fn stride(&self) -> usize {
        Self::stride_of(self.width)
    }

    pub(crate) fn seen(&self) -> SeenMap<'_> {
        SeenMap {
            rows: 1,
            channels: self.channels,
            width: self.width,
            stride: self.stride(),
            values: &self.values,
        }
    }
}

/// Rows of a map, as a convolution fills them in.
#[derive(Debug)]
pub(crate) struct TargetRows<'a> {
    pub(super) rows: usize,
    pub(super) channels: usize,
    pub(super) width: usize,
    /// `[rows][channels][width]`
    pub(super) values: &'a mut [f32],
}

impl TargetRows<'_> {
    /// The rows as they are.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn seen(&self) -> SeenMap<'_> {
        SeenMap {
            rows: self.rows,
            channels: self.channels,
            width: self.width,
            stride: self.width,
            values: self.values,
        }
    }

    /// Some of the rows.
    pub(crate) fn part(&mut self, rows: Range<usize>) -> TargetRows<'_> {
        let size = self.channels * self.width;
        TargetRows {
            rows: rows.len(),
            values: &mut self.values[rows.start * size..rows.end * size],
            ..*self
        }
    }

    #[inline(always)]
    pub(super) fn channel_mut(&mut self, row: usize, channel: usize) -> &mut [f32] {
        let start = (row * self.channels + channel) * self.width;
        &mut self.values[start..start + self.width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_channels_channel_by_channel() {
        let map = RowMap {
            rows: 2,
            channels: 2,
            width: 1,
            values: vec![0.0, 10.0, 1.0, 11.0].into(),
        };
        assert_eq!(*map.rows_as_channels().values, [0.0, 1.0, 10.0, 11.0]);
    }
}
