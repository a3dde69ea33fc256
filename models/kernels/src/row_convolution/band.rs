//! Bands of a Winograd convolution, the tiles that are computed together: some rows of the output, some tiles of each.
//!
//! The tiles of a band lie in one sequence, line after line, a line for each row and, in a row, for each column that a
//! dilated kernel starts from. What they see lies in the same way, with the rows of the input put in order of their place
//! in the vertical stride; so the tiles that one tap of the kernel sees follow each other too, from a start of its own, and
//! vectors run on from line to line.

use std::ops::Range;

use super::VerticalTaps;

/// Largest number of values at the points, of input and output, that a band may have. Those of one point out of eight, which a product sees, fit into
/// the second-level cache. Larger bands evaluate fewer rows twice, and go through the weights less often.
const MAX_VALUES: usize = 1 << 20;

/// A part of the output whose tiles are computed together.
#[derive(Debug, Clone)]
pub(super) struct Band {
    /// Rows of the output.
    rows: Range<usize>,
    /// Tiles of each line.
    pub(super) columns: Range<usize>,
    dilation: usize,
}

/// Tiles of the output that lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) row: usize,
    /// Column that the line starts from, less than the dilation.
    pub(super) phase: usize,
    pub(super) first_tile: usize,
    pub(super) tiles: usize,
}

/// Bands that cover `rows` rows of the output with `tiles` tiles in each line. A product has `strip` columns.
pub(super) fn bands(
    rows: usize,
    tiles: usize,
    dilation: usize,
    strip: usize,
    values_per_tile: usize,
) -> impl Iterator<Item = Band> {
    // At most one strip wide: the windows of the pass have room for that.
    let across = (strip / dilation).max(1);
    (0..tiles).step_by(across).flat_map(move |first| {
        let columns = first..tiles.min(first + across);
        let tiles_of_row = dilation * columns.len();
        let down = (MAX_VALUES / values_per_tile.max(1) / tiles_of_row).max(1);
        (0..rows).step_by(down).map(move |first| Band {
            rows: first..rows.min(first + down),
            columns: columns.clone(),
            dilation,
        })
    })
}

impl Band {
    /// Number of tiles of the band.
    pub(super) fn tiles(&self) -> usize {
        self.rows.len() * self.line()
    }

    /// Number of tiles of a row.
    pub(super) fn line(&self) -> usize {
        self.dilation * self.columns.len()
    }

    /// The lines that `count` tiles from the tile `first` of the band lie in.
    #[inline(always)]
    pub(super) fn lines_of_strip(&self, first: usize, count: usize) -> impl Iterator<Item = Line> {
        let (length, dilation, end) = (self.columns.len(), self.dilation, first + count);
        let (first_row, first_column) = (self.rows.start, self.columns.start);
        (first / length..end.div_ceil(length)).map(
            #[inline(always)]
            move |number| {
                let start = first.max(number * length);
                Line {
                    row: first_row + number / dilation,
                    phase: number % dilation,
                    first_tile: first_column + start - number * length,
                    tiles: end.min((number + 1) * length) - start,
                }
            },
        )
    }

    /// The rows of the input that the band sees.
    pub(super) fn lines(&self, vertical: VerticalTaps) -> SeenRows {
        SeenRows {
            first: self.rows.start * vertical.stride,
            rows: self.rows.len(),
            vertical,
        }
    }
}

/// Rows of the input in the order in which they lie: first those that are whole strides away from the first, then those one
/// row further, and so on, as far as a tap sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenRows {
    /// First row that is seen, counted with the padding above the map.
    first: usize,
    /// Number of rows of the output.
    rows: usize,
    vertical: VerticalTaps,
}

impl SeenRows {
    /// Number of rows with one remainder by the stride.
    fn with_remainder(self, remainder: usize) -> usize {
        let VerticalTaps {
            kernel,
            stride,
            dilation,
            ..
        } = self.vertical;
        let offsets = (0..kernel).map(|tap| tap * dilation);
        let last = offsets.filter(|offset| offset % stride == remainder).max();
        // From the first output row a tap sees place `offset / stride` of these rows, and from each next one
        // the next place.
        last.map_or(0, |last| self.rows + last / stride)
    }

    /// Number of rows.
    pub(super) fn count(self) -> usize {
        (0..self.vertical.stride)
            .map(|remainder| self.with_remainder(remainder))
            .sum()
    }

    /// Place of the row that a tap sees from the first row of the output; the rows after it see the places after it.
    pub(super) fn start(self, tap: usize) -> usize {
        let VerticalTaps { stride, dilation, .. } = self.vertical;
        let offset = tap * dilation;
        let before: usize = (0..offset % stride)
            .map(|remainder| self.with_remainder(remainder))
            .sum();
        before + offset / stride
    }

    /// The rows, counted with the padding above.
    pub(super) fn padded_rows(self) -> impl Iterator<Item = usize> {
        let stride = self.vertical.stride;
        (0..stride).flat_map(move |remainder| {
            (0..self.with_remainder(remainder)).map(move |number| self.first + remainder + number * stride)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bands_have_each_tile_once(
            rows in 1_usize..9,
            tiles in 1_usize..200,
            dilation in 1_usize..4,
            values_per_tile in 100_usize..20_000,
        ) {
            let mut seen = vec![0; rows * dilation * tiles];
            for band in bands(rows, tiles, dilation, 64, values_per_tile) {
                for first in (0..band.tiles()).step_by(64) {
                    let count = 64.min(band.tiles() - first);
                    let mut left = count;
                    for line in band.lines_of_strip(first, count) {
                        left -= line.tiles;
                        let start = (line.row * dilation + line.phase) * tiles + line.first_tile;
                        for times in &mut seen[start..start + line.tiles] {
                            *times += 1;
                        }
                    }
                    prop_assert_eq!(left, 0);
                }
            }
            prop_assert!(seen.into_iter().all(|times| times == 1));
        }

        #[test]
        fn rows_lie_where_the_taps_look_for_them(
            kernel in 1_usize..6,
            stride in 1_usize..4,
            dilation in 1_usize..4,
            first in 0_usize..5,
            count in 1_usize..6,
        ) {
            let vertical = VerticalTaps { kernel, stride, dilation, padding: 0 };
            let band = Band { rows: first..first + count, columns: 0..1, dilation: 1 };
            let lines = band.lines(vertical);
            let rows: Vec<usize> = lines.padded_rows().collect();
            prop_assert_eq!(rows.len(), lines.count());
            for tap in 0..kernel {
                for row in 0..count {
                    prop_assert_eq!(rows[lines.start(tap) + row], (first + row) * stride + tap * dilation);
                }
            }
        }
    }
}
