//! Numbers that make values of the sums of whole numbers.

use archmage::prelude::*;

use super::kernel::OUTPUTS;
use super::{Int8, Quantization};

/// A factor and an offset for each output. With w = scale_w * q_w and x = scale_x * (q_x - zero_point), the sum of w * x over all terms is scale_w *
/// scale_x * (sum(q_w * q_x) - zero_point * sum(q_w)): the product needs no zero point in its inner loop, which the offset makes up for.
#[derive(Debug)]
pub(super) struct Scales {
    pub(super) factors: Vec<f32>,
    pub(super) offsets: Vec<f32>,
}

impl Scales {
    /// Room for so many outputs and those that fill up the last block of weights, which have the value `beyond`.
    pub(super) fn new(outputs: usize, beyond: f32) -> Self {
        let outputs = outputs.next_multiple_of(OUTPUTS);
        Self {
            factors: vec![0.0; outputs],
            offsets: vec![beyond; outputs],
        }
    }

    /// Sets the numbers for a convolution with this bias, of features that are quantised so.
    #[rite(v4x)]
    pub(super) fn set(&mut self, convolution: &Int8, bias: &[f32], features: Quantization) {
        let Quantization {
            scale, zero_point, ..
        } = features;
        let targets = self.factors.iter_mut().zip(&mut self.offsets);
        let weights = convolution.scales.iter().zip(&convolution.scaled_sums);
        for ((factor, offset), ((&weight, &sum), &bias)) in targets.zip(weights.zip(bias)) {
            *factor = scale * weight;
            *offset = bias - scale * zero_point * sum;
        }
    }

    /// Numbers of each block of outputs.
    #[inline(always)]
    pub(super) fn blocks(&self) -> impl Iterator<Item = BlockScales<'_>> {
        let blocks = self.factors.as_chunks().0.iter().zip(self.offsets.as_chunks().0);
        blocks.map(|(factors, offsets)| BlockScales { factors, offsets })
    }
}

/// Numbers of a block of outputs.
#[derive(Clone, Copy)]
pub(super) struct BlockScales<'a> {
    pub(super) factors: &'a [f32; OUTPUTS],
    pub(super) offsets: &'a [f32; OUTPUTS],
}

impl BlockScales<'_> {
    /// Factor and offset of an output, in every lane.
    #[rite(v4x, import_intrinsics)]
    pub(super) fn of(self, output: usize) -> (__m512, __m512) {
        (
            _mm512_set1_ps(self.factors[output]),
            _mm512_set1_ps(self.offsets[output]),
        )
    }
}
