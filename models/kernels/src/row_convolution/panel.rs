//! Panels: the part of the input that the columns of one output row see, laid out for the product.

use super::RowMap;
use crate::convolution::Conv2dShape;

/// Positions along a row at which the taps of a kernel look. With a stride of `s`, a row is deinterleaved into `s` parts of
/// every `s`-th value, so that neighbouring columns of the output see neighbouring values and a vector can load them.
#[derive(Debug)]
pub(super) struct Windows {
    stride: usize,
    padding: usize,
    /// Those parts of a row, out of `stride`, that some tap sees; the others are not copied.
    parts: Vec<usize>,
    /// Index into `parts` and shift in that part, for each tap.
    taps: Vec<(usize, usize)>,
    /// The largest shift.
    reach: usize,
}

impl Windows {
    pub(super) fn new(shape: &Conv2dShape) -> Self {
        let stride = shape.stride[1];
        let offsets = || (0..shape.kernel[1]).map(|tap| tap * shape.dilation[1]);
        let parts: Vec<usize> = (0..stride)
            .filter(|&part| offsets().any(|offset| offset % stride == part))
            .collect();
        let taps: Vec<_> = offsets()
            .map(|offset| {
                // Tap `offset` of column `c` sees the value `c * stride + offset`, which is number `c + offset / stride` of the
                // part `offset % stride`.
                let part = parts.iter().take_while(|&&part| part != offset % stride).count();
                (part, offset / stride)
            })
            .collect();
        let reach = taps.iter().map(|&(_, shift)| shift).max().unwrap_or(0);
        Self {
            stride,
            padding: shape.padding[1],
            parts,
            taps,
            reach,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.taps.len()
    }

    /// Returns whether a column sees nothing but the pixel in its own place.
    pub(super) fn are_one_pixel(&self) -> bool {
        self.stride == 1 && self.padding == 0 && self.taps == [(0, 0)]
    }

    /// Values of one part for a product of `columns` columns.
    fn part_width(&self, columns: usize) -> usize {
        columns + self.reach
    }

    /// Values of one channel of a panel.
    pub(super) fn channel_width(&self, columns: usize) -> usize {
        self.parts.len() * self.part_width(columns)
    }

    /// Start of each tap's window in a channel of a panel.
    pub(super) fn starts(&self, columns: usize) -> impl Iterator<Item = usize> {
        let width = self.part_width(columns);
        self.taps.iter().map(move |&(part, shift)| part * width + shift)
    }

    /// Fills `panel` with what the columns from `first` see of the input row `row`, channel after channel. A row outside the
    /// map is all zeros.
    #[inline(always)]
    pub(super) fn fill(&self, map: &RowMap, row: usize, first: usize, columns: usize, panel: &mut [f32]) {
        let Some(row) = map.row(row) else {
            panel.fill(0.0);
            return;
        };
        let channels = row.chunks_exact(map.width.max(1));
        for (channel, target) in channels.zip(panel.chunks_exact_mut(self.channel_width(columns))) {
            self.fill_channel(channel, 0.0, first, columns, target);
        }
    }

    /// Fills the panel of one channel of a row, with `outside` around it.
    #[inline(always)]
    pub(super) fn fill_channel<T: Copy>(
        &self,
        channel: &[T],
        outside: T,
        first: usize,
        columns: usize,
        target: &mut [T],
    ) {
        let parts = target.chunks_exact_mut(self.part_width(columns));
        for (&part, target) in self.parts.iter().zip(parts) {
            let start = first * self.stride + part;
            gather(channel, self.padding, outside, start, self.stride, target);
        }
    }
}

/// Gathers every `stride`-th value from `start` of a row with `padding` times `outside` before it, and after it as many as it
/// takes.
#[inline(always)]
pub(crate) fn gather<T: Copy>(
    row: &[T],
    padding: usize,
    outside: T,
    start: usize,
    stride: usize,
    target: &mut [T],
) {
    // The positions start, start + stride, ... count the padding; the first that is not below `padding` is inside the row.
    let before = padding.saturating_sub(start).div_ceil(stride);
    let before = before.min(target.len());
    let (ahead, inside) = target.split_at_mut(before);
    ahead.fill(outside);
    // With a start behind the end of the row all of the target is outside.
    let seen = row
        .get((start + before * stride).saturating_sub(padding)..)
        .unwrap_or_default();
    let count = seen.len().div_ceil(stride).min(inside.len());
    let (inside, after) = inside.split_at_mut(count);
    // The strides of the networks as constants: only then does the compiler make shuffles of the loop.
    match stride {
        1 => inside.copy_from_slice(&seen[..count]),
        2 => gather_every::<T, 2>(seen, inside),
        4 => gather_every::<T, 4>(seen, inside),
        6 => gather_every::<T, 6>(seen, inside),
        8 => gather_every::<T, 8>(seen, inside),
        stride => {
            for (target, &value) in inside.iter_mut().zip(seen.iter().step_by(stride)) {
                *target = value;
            }
        }
    }
    after.fill(outside);
}

/// Gathers every `STRIDE`-th value, in a form that becomes shuffles of vectors.
#[inline(always)]
fn gather_every<T: Copy, const STRIDE: usize>(values: &[T], target: &mut [T]) {
    let (groups, rest) = values.as_chunks::<STRIDE>();
    for (target, group) in target.iter_mut().zip(groups) {
        *target = group[0];
    }
    // The last group may be short; its first value still counts.
    if let (Some(target), Some(&last)) = (target.get_mut(groups.len()), rest.first()) {
        *target = last;
    }
}
