//! Vector code of the int8-quantised convolution.

use archmage::prelude::*;

use super::scales::Scales;
use super::{Int8, PackedWeights, QUAD, Quantization};

/// Columns of a vector.
pub(super) const LANES: usize = 16;
/// Vectors of columns that are summed together: with [`OUTPUTS`] times as many sums, 24 of the 32 registers, they leave room for
/// what is multiplied.
pub(super) const VECTORS: usize = 3;
/// Outputs of one block of weights.
pub(super) const OUTPUTS: usize = 8;

pub(super) type Weights = PackedWeights<[i8; QUAD], OUTPUTS>;

/// Inputs of one row of the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    /// Quantised features, four channels to a word, from the word that the first tap of the first column sees.
    pub(super) seen: &'a [u32],
    /// Start in `seen` of the words of each term; from there lie the columns of the row, and room for a strip.
    pub(super) starts: &'a [u32],
    pub(super) weights: &'a Weights,
    pub(super) scales: &'a Scales,
    /// Value in place of those below it.
    pub(super) least: f32,
    pub(super) width: usize,
}

/// Smallest and largest of some values and zero.
#[arcane]
pub(super) fn range(_: X64V4xToken, values: &[f32]) -> (f32, f32) {
    // Four minima and maxima that do not depend on each other: one alone would wait for its own result at
    // every step.
    const AT_ONCE: usize = 4;
    let (groups, rest) = values.as_chunks::<{ AT_ONCE * LANES }>();
    let (low, high) = range_of_vectors::<AT_ONCE>(groups.as_flattened(), AT_ONCE * LANES);
    (
        rest.iter().copied().fold(low, f32::min),
        rest.iter().copied().fold(high, f32::max),
    )
}

/// Smallest and largest value of the first `N` vectors of each `stride` values, and zero, with which the padding around a map is
/// quantised.
#[rite(v4x, import_intrinsics)]
pub(super) fn range_of_vectors<const N: usize>(values: &[f32], stride: usize) -> (f32, f32) {
    let (mut low, mut high) = ([_mm512_setzero_ps(); N], [_mm512_setzero_ps(); N]);
    for channel in values.chunks(stride) {
        let vectors = channel.as_chunks::<LANES>().0;
        for number in 0..N {
            let values = _mm512_loadu_ps(&vectors[number]);
            low[number] = _mm512_min_ps(low[number], values);
            high[number] = _mm512_max_ps(high[number], values);
        }
    }
    let low = low.into_iter().reduce(|one, other| _mm512_min_ps(one, other));
    let high = high.into_iter().reduce(|one, other| _mm512_max_ps(one, other));
    (
        low.map_or(0.0, |low| _mm512_reduce_min_ps(low)),
        high.map_or(0.0, |high| _mm512_reduce_max_ps(high)),
    )
}

/// Quantises four channels of a row, as far as `target` goes.
#[arcane(import_intrinsics)]
pub(super) fn quantize(_: X64V4xToken, channels: [&[f32]; QUAD], features: Quantization, target: &mut [u32]) {
    let factor = _mm512_set1_ps(features.factor);
    let zero = _mm512_set1_ps(features.zero_point + ROUND);
    let (vectors, rest) = target.as_chunks_mut::<LANES>();
    let whole = channels.map(|channel| channel.as_chunks::<LANES>());
    for (number, target) in vectors.iter_mut().enumerate() {
        // One by one: a closure may be compiled for another processor than its caller.
        let values = [
            _mm512_loadu_ps(&whole[0].0[number]),
            _mm512_loadu_ps(&whole[1].0[number]),
            _mm512_loadu_ps(&whole[2].0[number]),
            _mm512_loadu_ps(&whole[3].0[number]),
        ];
        _mm512_storeu_epi32(target, quantized_words(values, factor, zero));
    }
    if !rest.is_empty() {
        let values = whole.map(|(_, channel)| {
            let mut values = [0.0; LANES];
            values[..rest.len()].copy_from_slice(&channel[..rest.len()]);
            _mm512_loadu_ps(&values)
        });
        let mut words = [0_u32; LANES];
        _mm512_storeu_epi32(&mut words, quantized_words(values, factor, zero));
        rest.copy_from_slice(&words[..rest.len()]);
    }
}

/// Number to add to the zero point for [`quantized_words`]: floats around 1.5 * 2^23 are one apart, so that adding it rounds to whole numbers, whose
/// lowest byte is that of the float.
pub(super) const ROUND: f32 = 12_582_912.0;

/// Words with a byte for each of four values, the first one lowest; `zero` is the zero point and [`ROUND`].
#[rite(v4x, import_intrinsics)]
pub(super) fn quantized_words(values: [__m512; QUAD], factor: __m512, zero: __m512) -> __m512i {
    // The values lie between 0 and 255 after the product, as the quantisation covers the range of the map: no clamping.
    let [a, b, c, d] = values.map(|values| _mm512_castps_si512(_mm512_fmadd_ps(values, factor, zero)));
    // Each shift brings the lowest byte of the next value in from above.
    let ab = _mm512_shrdi_epi32::<8>(_mm512_slli_epi32::<24>(a), b);
    _mm512_shrdi_epi32::<8>(_mm512_shrdi_epi32::<8>(ab, c), d)
}

/// Fills in a row of the output, strip after strip of columns.
#[arcane]
pub(super) fn multiply(_: X64V4xToken, row: &Row<'_>, target: &mut [f32]) {
    for first in (0..row.width).step_by(VECTORS * LANES) {
        let count = (VECTORS * LANES).min(row.width - first);
        match count.div_ceil(LANES) {
            0 | 1 => strip::<1>(row, first, count, target),
            2 => strip::<2>(row, first, count, target),
            _ => strip::<VECTORS>(row, first, count, target),
        }
    }
}

/// Fills in `count` columns from the column `first`, in `N` vectors, for all outputs.
#[rite(v4x, import_intrinsics)]
fn strip<const N: usize>(row: &Row<'_>, first: usize, count: usize, target: &mut [f32]) {
    let floor = _mm512_set1_ps(row.least);
    let seen = &row.seen[first..];
    let Scales { factors, offsets } = row.scales;
    let outputs = factors
        .iter()
        .zip(offsets)
        .zip(target.chunks_exact_mut(row.width));
    // One iterator over all outputs, of which each block of weights takes its share: the last block is filled up with outputs
    // of zeros, for whose sums there is nothing left to take.
    let mut outputs = outputs.map(|(of, target)| (of, &mut target[first..first + count]));
    for weights in row.weights.blocks() {
        for (sums, ((&factor, &offset), target)) in
            sums::<N>(seen, row.starts, weights).into_iter().zip(&mut outputs)
        {
            let (factor, offset) = (_mm512_set1_ps(factor), _mm512_set1_ps(offset));
            let finished =
                |sum| _mm512_max_ps(_mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), factor, offset), floor);
            let (whole, rest) = target.as_chunks_mut::<LANES>();
            for (target, &sum) in whole.iter_mut().zip(&sums) {
                _mm512_storeu_ps(target, finished(sum));
            }
            if !rest.is_empty() {
                // A vector that is not full would write over the next channel: it goes by way of an array.
                let mut values = [0.0; LANES];
                _mm512_storeu_ps(&mut values, finished(sums[N - 1]));
                rest.copy_from_slice(&values[..rest.len()]);
            }
        }
    }
}

/// Sets the numbers that make values of the sums of a convolution.
#[arcane]
pub(super) fn set_scales(
    _: X64V4xToken,
    scales: &mut Scales,
    convolution: &Int8,
    bias: &[f32],
    features: Quantization,
) {
    scales.set(convolution, bias, features);
}

/// Sums of a block of outputs over all terms, in `N` vectors of columns.
#[rite(v4x, import_intrinsics)]
fn sums<const N: usize>(
    seen: &[u32],
    starts: &[u32],
    weights: &[[[i8; QUAD]; OUTPUTS]],
) -> [[__m512i; N]; OUTPUTS] {
    let mut sums = [[_mm512_setzero_si512(); N]; OUTPUTS];
    for (&start, weights) in starts.iter().zip(weights) {
        let vectors = seen[start as usize..][..N * LANES].as_chunks::<LANES>().0;
        let seen: [__m512i; N] = std::array::from_fn(|number| _mm512_loadu_epi32(&vectors[number]));
        add_products(&mut sums, seen, weights);
    }
    sums
}

/// Adds the products of a quad of features and its weights to the sums of a block of outputs.
#[rite(v4x, import_intrinsics)]
pub(super) fn add_products<const N: usize>(
    sums: &mut [[__m512i; N]; OUTPUTS],
    seen: [__m512i; N],
    weights: &[[i8; QUAD]; OUTPUTS],
) {
    for (sums, weights) in sums.iter_mut().zip(weights) {
        // The four weights of a quad are one word, which one instruction spreads over the vector and one multiplies: each
        // lane adds four products of a byte of `seen` and a byte of the weights to its sum, without saturation.
        let weights = _mm512_set1_epi32(i32::from_ne_bytes(weights.map(i8::cast_unsigned)));
        for (sum, seen) in sums.iter_mut().zip(seen) {
            *sum = _mm512_dpbusd_epi32(*sum, seen, weights);
        }
    }
}
