//! The likeliest of very many classes, whose scores never leave the registers: an online softmax (Milakov and Gimelshein,
//! "Online normalizer calculation for softmax", 2018) behind the product.

use std::f32::consts::LOG2_E;

use archmage::prelude::*;

use super::super::RowMap;
use super::super::buffer_pool::PooledBuffer;
use super::super::strip::Strip;
use super::QUAD;
use super::kernel::{LANES, OUTPUTS, VECTORS};
use super::layer::{COLUMNS, Layer, see, sums};
use super::scales::Scales;

impl Layer<'_> {
    /// Finds for each pixel the output with the largest value, and its share of the softmax over all.
    pub(in super::super) fn likeliest(self, map: &RowMap) -> Vec<(u32, f32)> {
        let pixels = map.rows * map.width;
        let mut pass = Pass {
            layer: self,
            map,
            seen: PooledBuffer::take(map.channels.next_multiple_of(QUAD) * COLUMNS),
            words: PooledBuffer::take(self.convolution.quads * COLUMNS),
            scales: Scales::new(self.bias.len(), f32::MIN),
            found: Vec::with_capacity(pixels),
        };
        run(self.convolution.processor, &mut pass);
        pass.found
    }
}

/// One search, in one map.
struct Pass<'a> {
    layer: Layer<'a>,
    map: &'a RowMap,
    seen: PooledBuffer,
    words: PooledBuffer,
    scales: Scales,
    found: Vec<(u32, f32)>,
}

#[arcane]
fn run(_: X64V4xToken, pass: &mut Pass<'_>) {
    for strip in Strip::all([pass.map.rows, pass.map.width], COLUMNS, LANES) {
        match strip.count.div_ceil(LANES) {
            0 | 1 => search::<1>(pass, strip),
            2 => search::<2>(pass, strip),
            _ => search::<VECTORS>(pass, strip),
        }
    }
}

/// Searches a strip of `N` vectors.
#[rite(v4x, import_intrinsics)]
fn search<const N: usize>(pass: &mut Pass<'_>, strip: Strip) {
    let words: &mut [u32] = bytemuck::cast_slice_mut(&mut pass.words);
    let seen = see::<N>(pass.map.all_seen(), None, strip, &mut pass.seen, words);
    let Layer { convolution, bias } = pass.layer;
    pass.scales.set(convolution, bias, seen.features);

    let mut found = [Likeliest {
        score: _mm512_set1_ps(f32::MIN),
        class: _mm512_setzero_si512(),
        sum: _mm512_setzero_ps(),
    }; N];
    let blocks = convolution.weights.blocks().zip(pass.scales.blocks());
    for (block, (weights, scales)) in blocks.enumerate() {
        let sums = sums::<N>(words, weights);
        for number in 0..N {
            let scores: [__m512; OUTPUTS] = std::array::from_fn(|output| {
                // Powers of two are what the processor has an instruction for.
                let factor = _mm512_set1_ps(scales.factors[output] * LOG2_E);
                let offset = _mm512_set1_ps(scales.offsets[output] * LOG2_E);
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[output][number]), factor, offset)
            });
            found[number] = among(found[number], scores, (block * OUTPUTS) as i32);
        }
    }
    let mut left = strip.count;
    for found in found {
        let (mut classes, mut sums) = ([0_u32; LANES], [0.0_f32; LANES]);
        _mm512_storeu_epi32(&mut classes, found.class);
        _mm512_storeu_ps(&mut sums, found.sum);
        let shares = sums.map(|sum| 1.0 / sum);
        let counted = left.min(LANES);
        pass.found.extend(classes.into_iter().zip(shares).take(counted));
        left -= counted;
    }
}

/// The likeliest of the classes so far, in each lane.
#[derive(Debug, Clone, Copy)]
struct Likeliest {
    /// Logarithm to the base 2.
    score: __m512,
    class: __m512i,
    /// Sum over all classes, in shares of the likeliest.
    sum: __m512,
}

/// The likeliest with a block of classes from `first` on.
#[rite(v4x, import_intrinsics)]
fn among(found: Likeliest, scores: [__m512; OUTPUTS], first: i32) -> Likeliest {
    let mut found = found;
    let mut highest = scores[0];
    for score in &scores[1..] {
        highest = _mm512_max_ps(highest, *score);
    }
    // Seldom so, after the first few blocks.
    if _mm512_cmp_ps_mask::<_CMP_GT_OQ>(highest, found.score) != 0 {
        let before = found.score;
        for (score, class) in scores.into_iter().zip(first..) {
            let better = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(score, found.score);
            found.class = _mm512_mask_mov_epi32(found.class, better, _mm512_set1_epi32(class));
            found.score = _mm512_max_ps(found.score, score);
        }
        found.sum = _mm512_mul_ps(found.sum, power_of_two(_mm512_sub_ps(before, found.score)));
    }
    for score in scores {
        let share = power_of_two(_mm512_sub_ps(score, found.score));
        found.sum = _mm512_add_ps(found.sum, share);
    }
    found
}

/// Two to the power of a number, within 3 millionths of it.
#[rite(v4x, import_intrinsics)]
pub(super) fn power_of_two(exponent: __m512) -> __m512 {
    /// Coefficients of the exponential series to the base 2, from the highest power.
    const SERIES: [f32; 6] = [
        1.333_355_8e-3,
        9.618_129e-3,
        5.550_411e-2,
        2.402_265e-1,
        std::f32::consts::LN_2,
        1.0,
    ];
    let whole = _mm512_roundscale_ps::<0>(exponent);
    let rest = _mm512_sub_ps(exponent, whole);
    let mut series = _mm512_set1_ps(SERIES[0]);
    for coefficient in &SERIES[1..] {
        series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(*coefficient));
    }
    _mm512_scalef_ps(series, whole)
}
