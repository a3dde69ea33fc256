//! Convolutions that follow each other, of which no map between them is ever whole: it never leaves the cache.

use super::rows::HostConvolution;
use super::{Activation, Perceptron, ResidualBlock};
use crate::row_convolution::{Added, DepthwiseConvolution, RowMap, RowPerceptron};

/// Values between the convolutions of a residual block that stay in the second-level cache.
const BAND: usize = 1 << 15;

/// The map after a residual block, band after band of rows; `None` for forms of convolutions that do not go together.
pub(super) fn residual_block(map: &RowMap, block: &ResidualBlock<HostConvolution>) -> Option<RowMap> {
    let ResidualBlock {
        depthwise: HostConvolution::Depthwise(depthwise),
        widen: HostConvolution::Dense(widen),
        narrow: HostConvolution::Dense(narrow),
    } = block
    else {
        return None;
    };
    let rows_at_once = (BAND / (map.channels * map.width).max(1)).max(1);
    // A depthwise convolution computes so many rows together; another number would leave it single ones
    // in each band.
    let rows_at_once = rows_at_once.next_multiple_of(DepthwiseConvolution::ROWS);
    let mut result = RowMap::unset(map.rows, map.channels, map.width);
    for first in (0..map.rows).step_by(rows_at_once) {
        let rows = first..map.rows.min(first + rows_at_once);
        let mixed = depthwise.rows_in_one(map, rows.clone(), Activation::None);
        let perceptron = RowPerceptron {
            widen,
            between: Activation::Relu,
            narrow,
            added: Added::Map(map.seen(rows.clone())),
            after: Activation::Relu,
        };
        perceptron.fill(mixed.all_seen(), None, result.target(rows))?;
    }
    Some(result)
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
