//! What the sequence of a line or of tokens is read with on a processor: attention, windows, norms over channels, and the choice of a class.
//!
//! A map of one row has its columns side by side, so each step is a loop along them that becomes vectors.

use pulp::{Simd, WithSimd};

use super::LayerNorm;
use crate::activation::exp;
use crate::row_convolution::{InstructionSet, RowMap};

/// Self-attention along a map of one row, `[queries, keys, values][heads][channels of a head]`.
pub(super) fn attend(map: &RowMap, heads: usize) -> RowMap {
    let mut target = RowMap::unset(1, map.channels / 3, map.width);
    InstructionSet::detect().run(Attention {
        map,
        heads,
        target: &mut target,
    });
    target
}

/// Columns whose queries are answered together, so that keys and values are loaded once for all of them.
const TOGETHER: usize = 4;

struct Attention<'a> {
    map: &'a RowMap,
    heads: usize,
    target: &'a mut RowMap,
}

impl WithSimd for Attention<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { map, heads, target } = self;
        let (width, channels) = (map.width, map.channels / 3);
        let depth = channels / heads.max(1);
        let scale = 1.0 / (depth as f32).sqrt();
        let padded = width.next_multiple_of(S::F32_LANES);
        // Keys and values of a head, `[channels][padded]`, with zeros behind the last column.
        let (mut keys, mut values) = (vec![0.0; depth * padded], vec![0.0; depth * padded]);
        let mut shares = vec![0.0_f32; TOGETHER * padded];
        for head in 0..heads {
            let channel =
                |part: usize, number: usize| map.channel(0, part * channels + head * depth + number);
            for number in 0..depth {
                keys[number * padded..][..width].copy_from_slice(channel(1, number));
                values[number * padded..][..width].copy_from_slice(channel(2, number));
            }
            for first in (0..width).step_by(TOGETHER) {
                // The last column is asked for again where fewer are left.
                let column = |query: usize| (first + query).min(width - 1);
                for place in 0..padded / S::F32_LANES {
                    let mut sums = [simd.splat_f32s(0.0); TOGETHER];
                    for number in 0..depth {
                        let seen = S::as_simd_f32s(&keys[number * padded..][..padded]).0[place];
                        let queries = channel(0, number);
                        for (query, sum) in sums.iter_mut().enumerate() {
                            let asked = simd.splat_f32s(queries[column(query)] * scale);
                            *sum = simd.mul_add_e_f32s(asked, seen, *sum);
                        }
                    }
                    for (shares, sum) in shares.chunks_exact_mut(padded).zip(sums) {
                        S::as_mut_simd_f32s(shares).0[place] = sum;
                    }
                }
                let mut wholes = [0.0; TOGETHER];
                for (shares, whole) in shares.chunks_exact_mut(padded).zip(&mut wholes) {
                    *whole = soften(&mut shares[..width]);
                    // Columns behind the last one have no share: their values are zero.
                    shares[width..].fill(0.0);
                }
                for number in 0..depth {
                    let seen = S::as_simd_f32s(&values[number * padded..][..padded]).0;
                    let mut sums = [simd.splat_f32s(0.0); TOGETHER];
                    for (shares, sum) in shares.chunks_exact(padded).zip(&mut sums) {
                        for (&share, &seen) in S::as_simd_f32s(shares).0.iter().zip(seen) {
                            *sum = simd.mul_add_e_f32s(share, seen, *sum);
                        }
                    }
                    let target = &mut target.values[(head * depth + number) * width..][..width];
                    for (query, (sum, whole)) in sums.into_iter().zip(wholes).enumerate() {
                        target[column(query)] = simd.reduce_sum_f32s(sum) / whole;
                    }
                }
            }
        }
    }
}

/// Replaces values by their exponentials, relative to the largest, and returns their sum.
#[inline(always)]
fn soften(values: &mut [f32]) -> f32 {
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for value in values.iter_mut() {
        *value = exp(*value - largest);
    }
    values.iter().sum()
}

/// Norm of each pixel over its channels.
pub(super) fn layer_norm(map: &RowMap, norm: &LayerNorm) -> RowMap {
    InstructionSet::detect().run_loops(
        #[inline(always)]
        || layer_norm_in_loops(map, norm),
    )
}

#[inline(always)]
fn layer_norm_in_loops(map: &RowMap, norm: &LayerNorm) -> RowMap {
    let mut target = map.clone();
    let (channels, width) = (map.channels, map.width.max(1));
    let mut sums = vec![0.0_f32; width];
    for row in target.values.chunks_exact_mut((channels * width).max(1)) {
        sums.fill(0.0);
        for channel in row.chunks_exact(width) {
            for (sum, value) in sums.iter_mut().zip(channel) {
                *sum += value;
            }
        }
        for channel in row.chunks_exact_mut(width) {
            for (value, sum) in channel.iter_mut().zip(&sums) {
                *value -= sum / channels as f32;
            }
        }
        sums.fill(0.0);
        for channel in row.chunks_exact(width) {
            for (sum, value) in sums.iter_mut().zip(channel) {
                *sum += value * value;
            }
        }
        for sum in &mut sums {
            *sum = 1.0 / (*sum / channels as f32 + norm.epsilon).sqrt();
        }
        let affine = norm.scale.iter().zip(&norm.shift);
        for (channel, (scale, shift)) in row.chunks_exact_mut(width).zip(affine) {
            for (value, factor) in channel.iter_mut().zip(&sums) {
                *value = *value * factor * scale + shift;
            }
        }
    }
    target
}

/// The class of the largest score in each column, and its share of the softmax.
pub(super) fn likeliest(scores: &RowMap) -> Vec<(u32, f32)> {
    InstructionSet::detect().run_loops(
        #[inline(always)]
        || likeliest_in_loops(scores),
    )
}

#[inline(always)]
fn likeliest_in_loops(scores: &RowMap) -> Vec<(u32, f32)> {
    let width = scores.width;
    let (mut largest, mut classes) = (vec![f32::NEG_INFINITY; width], vec![0_u32; width]);
    for (class, channel) in scores.values.chunks_exact(width.max(1)).enumerate() {
        for ((largest, best), &score) in largest.iter_mut().zip(&mut classes).zip(channel) {
            let better = score > *largest;
            *best = if better { class as u32 } else { *best };
            *largest = if better { score } else { *largest };
        }
    }
    let mut sums = vec![0.0_f32; width];
    for channel in scores.values.chunks_exact(width.max(1)) {
        for ((sum, largest), &score) in sums.iter_mut().zip(&largest).zip(channel) {
            *sum += exp(score - largest);
        }
    }
    classes
        .into_iter()
        .zip(sums.into_iter().map(|sum| 1.0 / sum))
        .collect()
}

/// For each column, the channels of `count` columns from the `before`th before it on.
pub(super) fn windows(map: &RowMap, before: usize, count: usize) -> RowMap {
    let mut target = RowMap::unset(1, count * map.channels, map.width);
    let width = map.width.max(1);
    let parts = target.values.chunks_exact_mut((map.channels * width).max(1));
    for (number, part) in parts.enumerate() {
        // One of the two is zero.
        let later = number.saturating_sub(before).min(width);
        let earlier = before.saturating_sub(number).min(width);
        let seen = width - later - earlier;
        for (target, channel) in part.chunks_exact_mut(width).zip(map.values.chunks_exact(width)) {
            target.fill(0.0);
            target[earlier..earlier + seen].copy_from_slice(&channel[later..later + seen]);
        }
    }
    target
}

/// The largest value of each channel of a map of one row.
pub(super) fn peaks(map: &RowMap) -> Vec<f32> {
    InstructionSet::detect().run_loops(
        #[inline(always)]
        || map.values.chunks_exact(map.width.max(1)).map(largest).collect(),
    )
}

/// The largest of some values, in lanes that the compiler makes vectors of.
#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (groups, rest) = values.as_chunks::<LANES>();
    let mut largest = [f32::NEG_INFINITY; LANES];
    for group in groups {
        for (largest, &value) in largest.iter_mut().zip(group) {
            *largest = larger(*largest, value);
        }
    }
    largest
        .iter()
        .chain(rest)
        .copied()
        .fold(f32::NEG_INFINITY, larger)
}

/// The larger of two values, or NaN where one is: that of a broken device must show.
#[inline(always)]
fn larger(one: f32, other: f32) -> f32 {
    if one >= other || one.is_nan() { one } else { other }
}
