//! Convolutions of single pixels over panels of quantised features, `[quads][columns of a strip]`.

use archmage::prelude::*;

use super::super::map::SeenMap;
use super::super::strip::Strip;
use super::kernel::{LANES, OUTPUTS, ROUND, VECTORS, add_products, quantized_words, range_of_vectors};
use super::{Int8, QUAD, Quantization};

/// Largest number of columns of a panel.
pub(super) const COLUMNS: usize = VECTORS * LANES;

/// A convolution of single pixels.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Layer<'a> {
    pub(in super::super) convolution: &'a Int8,
    pub(in super::super) bias: &'a [f32],
}

impl Layer<'_> {
    /// Outputs with those that fill up the last block of weights.
    pub(super) fn outputs(self) -> usize {
        self.bias.len().next_multiple_of(OUTPUTS)
    }
}

/// A strip as floats and, in the words that it was quantised into, as bytes.
#[derive(Clone, Copy)]
pub(super) struct SeenStrip<'a> {
    /// Channels of the strip, `stride` apart.
    pub(super) panel: &'a [f32],
    pub(super) stride: usize,
    pub(super) features: Quantization,
}

/// Quantises a strip of `N` vectors of a map, each channel times its factor, into `words`. It is packed into `panel` where it cannot be read where it lies.
#[rite(v4x)]
pub(super) fn see<'a, const N: usize>(
    map: SeenMap<'a>,
    factors: Option<&[f32]>,
    strip: Strip,
    panel: &'a mut [f32],
    words: &mut [u32],
) -> SeenStrip<'a> {
    let columns = N * LANES;
    let whole_quads = factors.is_none() && map.channels.is_multiple_of(QUAD);
    let (panel, stride) = match map.in_place(strip, columns).filter(|_| whole_quads) {
        Some(panel) => (panel, map.stride),
        None => {
            let seen = &mut panel[..map.channels * columns];
            if strip.count < columns {
                // Values behind the last pixel must not widen the range.
                seen.fill(0.0);
            }
            strip.pack(map, factors, columns, seen);
            (&*panel, columns)
        }
    };
    let of_channels = (map.channels * stride).min(panel.len());
    let features = Quantization::of(range_of_vectors::<N>(&panel[..of_channels], stride));
    quantize::<N>(panel, stride, map.channels.div_ceil(QUAD), features, words);
    SeenStrip {
        panel,
        stride,
        features,
    }
}

/// Quantises `N` vectors of each channel of a panel into words, four channels to each; `stride` is the distance of the channels.
#[rite(v4x, import_intrinsics)]
pub(super) fn quantize<const N: usize>(
    panel: &[f32],
    stride: usize,
    quads: usize,
    features: Quantization,
    words: &mut [u32],
) {
    let factor = _mm512_set1_ps(features.factor);
    let zero = _mm512_set1_ps(features.zero_point + ROUND);
    let quads = panel
        .chunks(QUAD * stride)
        .zip(words.chunks_exact_mut(N * LANES))
        .take(quads);
    for (panel, words) in quads {
        // One by one: a closure may be compiled for another processor than its caller.
        let channels = [
            panel.as_chunks::<LANES>().0,
            panel[stride..].as_chunks().0,
            panel[2 * stride..].as_chunks().0,
            panel[3 * stride..].as_chunks().0,
        ];
        let words = words.as_chunks_mut::<LANES>().0;
        for (number, word) in words.iter_mut().enumerate() {
            let values = [
                _mm512_loadu_ps(&channels[0][number]),
                _mm512_loadu_ps(&channels[1][number]),
                _mm512_loadu_ps(&channels[2][number]),
                _mm512_loadu_ps(&channels[3][number]),
            ];
            _mm512_storeu_epi32(word, quantized_words(values, factor, zero));
        }
    }
}

/// Sums of a block of outputs over the quads of a panel.
#[rite(v4x, import_intrinsics)]
pub(super) fn sums<const N: usize>(
    words: &[u32],
    weights: &[[[i8; QUAD]; OUTPUTS]],
) -> [[__m512i; N]; OUTPUTS] {
    let mut sums = [[_mm512_setzero_si512(); N]; OUTPUTS];
    for (seen, weights) in words.chunks_exact(N * LANES).zip(weights) {
        let vectors = seen.as_chunks::<LANES>().0;
        let seen: [__m512i; N] = std::array::from_fn(|number| _mm512_loadu_epi32(&vectors[number]));
        add_products(&mut sums, seen, weights);
    }
    sums
}
