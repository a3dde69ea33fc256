//! Strips: pixels of a map that follow each other from row to row, as many as a product has columns.

use super::TargetRows;
use super::map::SeenMap;

/// Pixels that follow each other from row to row, as a strip of a product.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strip {
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Strip {
    /// Strips of at most `columns` pixels that cover `rows` rows of `width` pixels. They end with the rows where those are long and whole vectors of
    /// `lanes` pixels: such strips need not be copied.
    pub(super) fn all([rows, width]: [usize; 2], columns: usize, lanes: usize) -> impl Iterator<Item = Self> {
        let in_rows = width >= columns && width.is_multiple_of(lanes);
        let (runs, length) = if in_rows { (rows, width) } else { (1, rows * width) };
        (0..runs).flat_map(move |run| {
            (0..length).step_by(columns).map(move |first| Self {
                first: run * length + first,
                count: columns.min(length - first),
            })
        })
    }

    /// Parts of the strip that lie in one row: the row, its first column and the number of columns.
    #[inline(always)]
    fn pieces(self, width: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let (mut pixel, end) = (self.first, self.first + self.count);
        std::iter::from_fn(move || {
            let (row, column) = (pixel / width, pixel % width);
            let count = (width - column).min(end - pixel);
            pixel += count;
            (count > 0).then_some((row, column, count))
        })
    }

    /// Copies the strip into a panel of `columns` columns a channel, each channel times its factor.
    #[inline(always)]
    pub(super) fn pack(self, map: SeenMap<'_>, factors: Option<&[f32]>, columns: usize, panel: &mut [f32]) {
        let mut place = 0;
        for (row, column, count) in self.pieces(map.width) {
            let row = &map.values[row * map.channels * map.stride..][..map.channels * map.stride];
            let channels = row.chunks_exact(map.stride).zip(panel.chunks_exact_mut(columns));
            match factors {
                // Most strips lie in one row, and copies of a known length are a few instructions.
                None if count == columns => {
                    for (source, target) in channels {
                        target.copy_from_slice(&source[column..column + columns]);
                    }
                }
                None => {
                    for (source, target) in channels {
                        target[place..place + count].copy_from_slice(&source[column..column + count]);
                    }
                }
                Some(factors) => {
                    for ((source, target), &factor) in channels.zip(factors) {
                        let source = &source[column..column + count];
                        for (target, &value) in target[place..place + count].iter_mut().zip(source) {
                            *target = value * factor;
                        }
                    }
                }
            }
            place += count;
        }
    }

    /// Copies a panel of `columns` columns a channel to where the strip lies in a map.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(super) fn unpack(self, panel: &[f32], columns: usize, target: &mut TargetRows<'_>) {
        let mut place = 0;
        let (channels, width) = (target.channels, target.width);
        for (row, column, count) in self.pieces(width) {
            let row = &mut target.values[row * channels * width..][..channels * width];
            let channels = panel.chunks_exact(columns).zip(row.chunks_exact_mut(width));
            if count == columns {
                for (source, target) in channels {
                    target[column..column + columns].copy_from_slice(source);
                }
            } else {
                for (source, target) in channels {
                    target[column..column + count].copy_from_slice(&source[place..place + count]);
                }
            }
            place += count;
        }
    }

    /// Copies the start of `values` to where the strip lies in a channel of the target.
    #[inline(always)]
    pub(super) fn scatter(self, values: &[f32], target: &mut TargetRows<'_>, channel: usize) {
        let mut place = 0;
        for (row, column, count) in self.pieces(target.width) {
            target.channel_mut(row, channel)[column..column + count]
                .copy_from_slice(&values[place..place + count]);
            place += count;
        }
    }

    /// Copies what lies where the strip does in a channel of the target to the start of `values`.
    #[inline(always)]
    pub(super) fn gather(self, target: &mut TargetRows<'_>, channel: usize, values: &mut [f32]) {
        let mut place = 0;
        for (row, column, count) in self.pieces(target.width) {
            values[place..place + count]
                .copy_from_slice(&target.channel_mut(row, channel)[column..column + count]);
            place += count;
        }
    }
}
