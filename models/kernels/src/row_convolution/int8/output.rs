//! Ends of convolutions of single pixels: sums of a strip on their way into the target.

use archmage::prelude::*;

use super::super::map::TargetRows;
use super::super::strip::Strip;
use super::Int8;
use super::kernel::{LANES, OUTPUTS};
use super::layer::{Layer, sums};
use super::likeliest::power_of_two;
use super::scales::Scales;

/// Function of the values of the target.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// Values below this one become it.
    Floor(f32),
    Sigmoid,
}

/// Treatment of the sums of a strip.
#[derive(Clone, Copy)]
pub(super) struct Outputs<'a> {
    /// Panel to add, and the distance of its channels.
    pub(super) added: Option<(&'a [f32], usize)>,
    /// `true` adds what the target has.
    pub(super) adds_target: bool,
    pub(super) end: End,
}

/// Places of the vectors of a strip.
#[derive(Clone, Copy)]
struct Places<const N: usize> {
    /// Start of each vector of the first channel.
    starts: [usize; N],
    /// Distance of the channels.
    stride: usize,
}

impl Outputs<'_> {
    /// Fills in a strip of the target with what a layer makes of quantised features; `after` has place for it as a panel.
    #[rite(v4x)]
    pub(super) fn fill<const N: usize>(
        self,
        layer: Layer<'_>,
        words: &[u32],
        scales: &Scales,
        strip: Strip,
        after: &mut [f32],
        target: &mut TargetRows<'_>,
    ) {
        let columns = N * LANES;
        let mut places = Places::<N> {
            starts: std::array::from_fn(|number| number * LANES),
            stride: columns,
        };
        let outputs = layer.bias.len();
        // A vector lies in one row of the target where those are whole vectors.
        if strip.count == columns && target.width.is_multiple_of(LANES) {
            places.stride = target.width;
            for start in &mut places.starts {
                let pixel = strip.first + *start;
                *start = pixel / target.width * target.channels * target.width + pixel % target.width;
            }
            self.write_all(layer.convolution, words, scales, outputs, places, target.values);
            return;
        }
        if self.adds_target {
            strip.pack(target.seen(), None, columns, after);
        }
        self.write_all(layer.convolution, words, scales, outputs, places, after);
        strip.unpack(after, columns, target);
    }

    #[rite(v4x)]
    fn write_all<const N: usize>(
        self,
        convolution: &Int8,
        words: &[u32],
        scales: &Scales,
        count: usize,
        places: Places<N>,
        target: &mut [f32],
    ) {
        debug_assert!(!matches!(self.end, End::Sigmoid) || !self.adds_target);
        // All that is decided for all outputs is a constant of the loop, without which the sums would not stay in registers.
        match (self.end, self.adds_target) {
            (End::Sigmoid, _) => {
                self.write_blocks::<N, true, false>(convolution, words, scales, count, places, target)
            }
            (_, true) => {
                self.write_blocks::<N, false, true>(convolution, words, scales, count, places, target)
            }
            (_, false) => {
                self.write_blocks::<N, false, false>(convolution, words, scales, count, places, target)
            }
        }
    }

    #[rite(v4x, import_intrinsics)]
    fn write_blocks<const N: usize, const SIGMOID: bool, const ADDS_TARGET: bool>(
        self,
        convolution: &Int8,
        words: &[u32],
        scales: &Scales,
        count: usize,
        places: Places<N>,
        target: &mut [f32],
    ) {
        let least = _mm512_set1_ps(match self.end {
            End::Floor(least) => least,
            End::Sigmoid => f32::NEG_INFINITY,
        });
        let blocks = convolution.weights.blocks().zip(scales.blocks());
        for (block, (weights, scales)) in blocks.enumerate() {
            let sums = sums::<N>(words, weights);
            let first = block * OUTPUTS;
            let target = &mut target[first * places.stride..];
            for (number, &start) in places.starts.iter().enumerate() {
                let target = &mut target[start..];
                // With a number of outputs that is known, the sums stay in registers.
                if first + OUTPUTS <= count {
                    for output in 0..OUTPUTS {
                        let added = self.added(first + output, number);
                        let target = &mut target[output * places.stride..];
                        let sums = (sums[output][number], scales.of(output));
                        write::<SIGMOID, ADDS_TARGET>(sums, added, least, target);
                    }
                } else {
                    for output in 0..count - first {
                        let added = self.added(first + output, number);
                        let target = &mut target[output * places.stride..];
                        let sums = (sums[output][number], scales.of(output));
                        write::<SIGMOID, ADDS_TARGET>(sums, added, least, target);
                    }
                }
            }
        }
    }

    /// Values to add to a vector of an output.
    #[inline(always)]
    fn added(&self, output: usize, number: usize) -> Option<&[f32; LANES]> {
        let (added, stride) = self.added?;
        Some(&added[output * stride..].as_chunks().0[number])
    }
}

/// Writes the values that sums are scaled to.
#[rite(v4x, import_intrinsics)]
fn write<const SIGMOID: bool, const ADDS_TARGET: bool>(
    (sums, (factor, offset)): (__m512i, (__m512, __m512)),
    added: Option<&[f32; LANES]>,
    least: __m512,
    target: &mut [f32],
) {
    let mut value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), factor, offset);
    if let Some(added) = added {
        value = _mm512_add_ps(value, _mm512_loadu_ps(added));
    }
    let target = &mut target.as_chunks_mut::<LANES>().0[0];
    if ADDS_TARGET {
        value = _mm512_add_ps(value, _mm512_loadu_ps(target));
    }
    let value = if SIGMOID {
        sigmoid(value)
    } else {
        _mm512_max_ps(value, least)
    };
    _mm512_storeu_ps(target, value);
}

/// The logistic function, within 4 millionths.
#[rite(v4x, import_intrinsics)]
fn sigmoid(value: __m512) -> __m512 {
    /// Power of two whose reciprocal is a normal number.
    const MOST: f32 = 126.0;
    let exponent = _mm512_mul_ps(value, _mm512_set1_ps(-std::f32::consts::LOG2_E));
    let power = power_of_two(_mm512_min_ps(exponent, _mm512_set1_ps(MOST)));
    let below = _mm512_add_ps(power, _mm512_set1_ps(1.0));
    // Within 2^-14, and then by Newton's method within twice as many digits, in a third of the time of a quotient.
    let roughly = _mm512_rcp14_ps(below);
    _mm512_mul_ps(roughly, _mm512_fnmadd_ps(below, roughly, _mm512_set1_ps(2.0)))
}
