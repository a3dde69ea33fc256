//! What the sequence of a line is read with on a processor: attention, norms over channels, and the choice of a class.
//!
//! A map of one row has its columns side by side, so each step is a loop along them that becomes vectors.

use pulp::{Simd, WithSimd};

use super::LayerNorm;
use crate::activation::exp;
use crate::row_convolution::{InstructionSet, RowMap};

/// A plain loop that is compiled for the vectors of this processor.
struct Vectorised<F>(F);

impl<T, F: FnOnce() -> T> WithSimd for Vectorised<F> {
    type Output = T;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> T {
        (self.0)()
    }
}

/// Self-attention along a map of one row, `[queries, keys, values][heads][channels of a head]`.
pub(super) fn attend(map: &RowMap, heads: usize) -> RowMap {
    InstructionSet::detect().run(Vectorised(
        #[inline(always)]
        || attend_in_loops(map, heads),
    ))
}

#[inline(always)]
fn attend_in_loops(map: &RowMap, heads: usize) -> RowMap {
    let (width, channels) = (map.width, map.channels / 3);
    let depth = channels / heads.max(1);
    let scale = 1.0 / (depth as f32).sqrt();
    let mut target = RowMap::unset(1, channels, width);
    let mut shares = vec![0.0_f32; width];
    for head in 0..heads {
        let channel = |part: usize, number: usize| map.channel(0, part * channels + head * depth + number);
        for column in 0..width {
            shares.fill(0.0);
            for number in 0..depth {
                let query = channel(0, number)[column] * scale;
                for (share, &key) in shares.iter_mut().zip(channel(1, number)) {
                    *share += query * key;
                }
            }
            let sum = soften(&mut shares);
            for number in 0..depth {
                let value = dot(&shares, channel(2, number)) / sum;
                target.values[(head * depth + number) * width + column] = value;
            }
        }
    }
    target
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

#[inline(always)]
fn dot(left: &[f32], right: &[f32]) -> f32 {
    const LANES: usize = 16;
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (left, right) in left.iter().zip(right) {
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum += left * right;
        }
    }
    let rest = left_rest.iter().zip(right_rest).map(|(left, right)| left * right);
    sums.into_iter().chain(rest).sum()
}

/// Norm of each pixel over its channels.
pub(super) fn layer_norm(map: &RowMap, norm: &LayerNorm) -> RowMap {
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
    InstructionSet::detect().run(Vectorised(
        #[inline(always)]
        || likeliest_in_loops(scores),
    ))
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
