//! Convolutions that follow each other, of which no map between them is ever whole: it never leaves the cache.

use super::rows::HostConvolution;
use super::{Activation, Perceptron, ResidualBlock};
use crate::row_convolution::{Added, DepthwiseConvolution, RowMap, RowPerceptron};

/// Values between the convolutions of a residual block that stay in the second-level cache.
const BAND: usize = 1 << 15;

/// Puts a map through a residual block, band after band of rows; returns `None`, and leaves the map as it is, for forms of convolutions that
/// do not go together.
pub(super) fn residual_block(map: &mut RowMap, block: &ResidualBlock<HostConvolution>) -> Option<()> {
    let ResidualBlock {
        depthwise: HostConvolution::Depthwise(depthwise),
        widen: HostConvolution::Dense(widen),
        narrow: HostConvolution::Dense(narrow),
    } = block
    else {
        return None;
    };
    let rows_at_once = (BAND / (map.channels * map.width).max(1))
        .max(depthwise.rows_above())
        .max(1);
    // A depthwise convolution computes so many rows together; another number would leave it single ones
    // in each band.
    let rows_at_once = rows_at_once.next_multiple_of(DepthwiseConvolution::ROWS);
    let height = map.rows;
    let band = |first: usize| first..height.min(first + rows_at_once);
    let mix = |map: &RowMap, rows| depthwise.rows_in_one(map, rows, Activation::None);
    let mut next = None;
    for first in (0..height).step_by(rows_at_once) {
        let rows = band(first);
        let mixed = next.take().unwrap_or_else(|| mix(map, rows.clone()));
        // The next band sees the last rows of this one as they were.
        next = (rows.end < height).then(|| mix(map, band(rows.end)));
        let perceptron = RowPerceptron {
            widen,
            between: Activation::Relu,
            narrow,
            added: Added::Target,
            after: Activation::Relu,
        };
        perceptron.fill(mixed.seen(), None, map.all_rows().part(rows))?;
    }
    Some(())
}

/// The map after a perceptron, strip after strip of pixels; `None` for forms of convolutions that do not go together.
pub(super) fn perceptron(
    map: &RowMap,
    perceptron: &Perceptron<HostConvolution>,
    factors: Option<&RowMap>,
) -> Option<RowMap> {
    let Perceptron {
        widen: HostConvolution::Dense(widen),
        activation,
        narrow: HostConvolution::Dense(narrow),
        residual,
    } = perceptron
    else {
        return None;
    };
    let in_strips = RowPerceptron {
        widen,
        between: *activation,
        narrow,
        added: if *residual { Added::Input } else { Added::Nothing },
        after: Activation::None,
    };
    let mut result = RowMap::unset(map.rows, narrow.outputs(), map.width);
    let factors = factors.map(|factors| &*factors.values);
    in_strips.fill(map.all_seen(), factors, result.all_rows())?;
    Some(result)
}
