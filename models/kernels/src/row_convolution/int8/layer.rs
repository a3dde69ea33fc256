//! Convolutions of single pixels over panels of quantised features, `[quads][columns of a strip]`.

use archmage::prelude::*;

use super::kernel::{LANES, OUTPUTS, VECTORS, add_products, quantized_words};
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

    /// Sets the factor and the offset that make values of the sums of each output. Those that fill up the last block have the value
    /// `beyond`.
    pub(super) fn scale(self, features: Quantization, beyond: f32, scales: &mut Vec<(f32, f32)>) {
        scales.clear();
        let outputs = self.convolution.outputs.iter().zip(self.bias);
        scales.extend(outputs.map(|(output, bias)| {
            let factor = features.scale * output.scale;
            (factor, bias - factor * features.zero_point * output.sum as f32)
        }));
        scales.resize(self.outputs(), (0.0, beyond));
    }
}

/// Quantises a panel into words, four channels to each.
#[rite(v4x, import_intrinsics)]
pub(super) fn quantize<const N: usize>(
    panel: &[f32],
    quads: usize,
    features: Quantization,
    words: &mut [u32],
) {
    let factor = _mm512_set1_ps(1.0 / features.scale);
    let zero = _mm512_set1_ps(features.zero_point);
    let quads = panel
        .chunks_exact(QUAD * N * LANES)
        .zip(words.chunks_exact_mut(N * LANES))
        .take(quads);
    for (panel, words) in quads {
        let (panel, words) = (panel.as_chunks::<LANES>().0, words.as_chunks_mut::<LANES>().0);
        for (number, word) in words.iter_mut().enumerate() {
            let values: [__m512; QUAD] =
                std::array::from_fn(|channel| _mm512_loadu_ps(&panel[channel * N + number]));
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
