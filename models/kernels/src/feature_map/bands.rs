//! Maps that are computed band after band of rows, so that what lies between the layers stays in the cache.

use super::RowMap;
use crate::error::InferenceError;

/// Values of a map in a band.
const BAND: usize = 1 << 18;

/// Computes the result of `compute` for a map, band after band. Bands are of whole units of `unit` rows, and each is computed with the
/// units above and below it, whose rows of the result are left out.
pub(super) fn by_bands(
    map: &RowMap,
    unit: usize,
    compute: impl Fn(&RowMap) -> Result<RowMap, InferenceError>,
) -> Result<RowMap, InferenceError> {
    let of_a_unit = (unit * map.channels * map.width).max(1);
    let units = map.rows / unit;
    let bands = units.div_ceil((BAND / of_a_unit).max(1)).max(1);
    let at_once = units.div_ceil(bands).max(1);
    if bands == 1 || !map.rows.is_multiple_of(unit) {
        return compute(map);
    }
    let mut whole = None;
    for first in (0..units).step_by(at_once) {
        let band = first..units.min(first + at_once);
        let seen = first.saturating_sub(1)..units.min(band.end + 1);
        let part = compute(&map.rows_of(seen.start * unit..seen.end * unit))?;
        let rows = part.rows / seen.len();
        let target = whole.get_or_insert_with(|| RowMap::unset(units * rows, part.channels, part.width));
        let size = rows * part.channels * part.width;
        let (skipped, kept) = ((band.start - seen.start) * size, band.len() * size);
        target.values[band.start * size..band.end * size]
            .copy_from_slice(&part.values[skipped..skipped + kept]);
    }
    // A map without rows has no band.
    whole.map_or_else(|| compute(map), Ok)
}

#[cfg(test)]
mod tests {
    use super::super::FeatureMap;
    use super::*;
    use crate::activation::Activation;
    use crate::convolution::{Conv2dShape, ConvolutionWeights};
    use crate::device::Device;
    use crate::precision::Precision;

    #[test]
    fn bands_give_what_the_whole_map_gives() {
        let number = |index: usize| ((index * 31) % 23) as f32 / 23.0 - 0.5;
        let weights = |shape: Conv2dShape| ConvolutionWeights {
            weight: (0..9 * shape.inputs * shape.outputs).map(number).collect(),
            bias: vec![0.1; shape.outputs],
            of_zero: vec![0.1; shape.outputs],
        };
        let layer = |shape| RowMap::convolution(weights(shape), shape, Precision::Full, &Device::flex());
        let halving = layer(Conv2dShape::square(1, 3, 3, [2, 2]));
        let keeping = layer(Conv2dShape::square(3, 2, 3, [1, 1]));
        let (rows, width) = (4 * 301, 500);
        let map = RowMap {
            rows,
            channels: 1,
            width,
            values: (0..rows * width).map(number).collect::<Vec<_>>().into(),
        };
        assert!(map.values.len() > 2 * BAND, "it is computed in bands");
        let compute = |map: &RowMap| {
            map.convolve(&halving, Activation::Relu)?
                .convolve(&keeping, Activation::None)
        };
        let (whole, banded) = (compute(&map).unwrap(), map.by_bands(4, compute).unwrap());
        assert_eq!(banded.size(), whole.size());
        assert_eq!(*banded.values, *whole.values);
        let doubled = map.by_bands(1, |map| Ok(map.doubled())).unwrap();
        assert_eq!(*doubled.values, *RowMap::doubled(&map).values);
    }
}
