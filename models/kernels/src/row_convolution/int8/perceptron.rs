//! Two int8-quantised convolutions of single pixels with GELU or ReLU between, strip after strip of pixels.
//!
//! What goes in and what lies between is quantised anew for each strip, by its own range: both are in the cache when they are
//! looked through, and neighbouring pixels need fewer levels than a whole map does.

use archmage::prelude::*;

use super::super::buffer_pool::PooledBuffer;
use super::super::map::{SeenMap, TargetRows};
use super::super::perceptron::Added;
use super::super::strip::Strip;
use super::kernel::{LANES, OUTPUTS, VECTORS};
use super::layer::{COLUMNS, Layer, quantize, see, sums};
use super::output::{End, Outputs};
use super::scales::Scales;
use super::{Int8, Quantization};
use crate::activation::Activation;

/// Value below which GELU gives none, not even roughly: its minimum is -0.17, and a byte has no place for what is below the range.
const LEAST_GELU: f32 = -0.18;

/// Function between the convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Between {
    Gelu,
    Relu,
}

impl Between {
    /// The function, or `None` where it is neither.
    pub(in super::super) fn of(activation: Activation) -> Option<Self> {
        match activation {
            Activation::Gelu => Some(Self::Gelu),
            Activation::Relu => Some(Self::Relu),
            _ => None,
        }
    }

    /// A value that none is below.
    fn least(self) -> f32 {
        match self {
            Self::Gelu => LEAST_GELU,
            Self::Relu => 0.0,
        }
    }
}

/// Two convolutions of single pixels with a function between.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Perceptron<'a> {
    pub(in super::super) widen: Layer<'a>,
    pub(in super::super) between: Between,
    pub(in super::super) narrow: Layer<'a>,
    pub(in super::super) added: Added,
    /// Value at the end in place of those below it.
    pub(in super::super) least: f32,
}

impl Perceptron<'_> {
    /// Fills in the target, which has the rows and columns of the map; `factors` scale the channels of the map before.
    pub(in super::super) fn fill(self, map: SeenMap<'_>, factors: Option<&[f32]>, target: TargetRows<'_>) {
        let (inputs, outputs) = (map.channels, self.narrow.bias.len());
        let hidden = self.widen.outputs();
        let quads = self.widen.convolution.quads.max(self.narrow.convolution.quads);
        let panel = |channels: usize| PooledBuffer::take(channels.next_multiple_of(OUTPUTS) * COLUMNS);
        let mut pass = Pass {
            perceptron: self,
            map,
            factors,
            seen: panel(inputs),
            hidden: panel(hidden),
            after: panel(outputs),
            words: panel(quads),
            widen_scales: Scales::new(hidden, 0.0),
            narrow_scales: Scales::new(outputs, 0.0),
            target,
        };
        run(self.widen.convolution.processor, &mut pass);
    }
}

/// One use of a perceptron, on one map. Panels are `[channels][columns of the strip]`.
struct Pass<'a> {
    perceptron: Perceptron<'a>,
    map: SeenMap<'a>,
    factors: Option<&'a [f32]>,
    seen: PooledBuffer,
    hidden: PooledBuffer,
    after: PooledBuffer,
    /// A panel of quantised features, four channels to a word.
    words: PooledBuffer,
    widen_scales: Scales,
    narrow_scales: Scales,
    target: TargetRows<'a>,
}

/// Fills in the target, strip after strip.
#[arcane]
fn run(_: X64V4xToken, pass: &mut Pass<'_>) {
    for strip in Strip::all([pass.map.rows, pass.map.width], COLUMNS, LANES) {
        match strip.count.div_ceil(LANES) {
            0 | 1 => compute::<1>(pass, strip),
            2 => compute::<2>(pass, strip),
            _ => compute::<VECTORS>(pass, strip),
        }
    }
}

/// Fills in a strip of `N` vectors.
#[rite(v4x)]
fn compute<const N: usize>(pass: &mut Pass<'_>, strip: Strip) {
    let Perceptron {
        widen,
        between,
        narrow,
        added,
        least,
    } = pass.perceptron;
    let columns = N * LANES;
    let words: &mut [u32] = bytemuck::cast_slice_mut(&mut pass.words);

    let seen = see::<N>(pass.map, pass.factors, strip, &mut pass.seen, words);
    let scales = &mut pass.widen_scales;
    scales.set(widen.convolution, widen.bias, seen.features);
    let (convolution, hidden) = (widen.convolution, &mut pass.hidden);
    let high = match between {
        Between::Gelu => first::<N, true>(convolution, words, scales, hidden),
        Between::Relu => first::<N, false>(convolution, words, scales, hidden),
    };

    let features = Quantization::of((between.least(), high));
    quantize::<N>(&pass.hidden, columns, narrow.convolution.quads, features, words);
    let scales = &mut pass.narrow_scales;
    scales.set(narrow.convolution, narrow.bias, features);
    let outputs = Outputs {
        added: matches!(added, Added::Input).then_some((seen.panel, seen.stride)),
        adds_target: matches!(added, Added::Target),
        end: End::Floor(least),
    };
    outputs.fill::<N>(narrow, words, scales, strip, &mut pass.after, &mut pass.target);
}

/// Fills `target` with what a convolution and GELU, or else ReLU, make of quantised features, and returns the largest value, or zero.
#[rite(v4x, import_intrinsics)]
fn first<const N: usize, const GELU: bool>(
    convolution: &Int8,
    words: &[u32],
    scales: &Scales,
    target: &mut [f32],
) -> f32 {
    let mut high = [_mm512_setzero_ps(); N];
    let blocks = convolution.weights.blocks().zip(scales.blocks());
    for ((weights, scales), target) in blocks.zip(target.chunks_exact_mut(OUTPUTS * N * LANES)) {
        let sums = sums::<N>(words, weights);
        let target = target.as_chunks_mut::<LANES>().0;
        for output in 0..OUTPUTS {
            let (factor, offset) = scales.of(output);
            for number in 0..N {
                let sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[output][number]), factor, offset);
                let value = if GELU {
                    gelu(sum)
                } else {
                    _mm512_max_ps(sum, _mm512_setzero_ps())
                };
                high[number] = _mm512_max_ps(high[number], value);
                _mm512_storeu_ps(&mut target[output * N + number], value);
            }
        }
    }
    let high = high.into_iter().reduce(|one, other| _mm512_max_ps(one, other));
    high.map_or(0.0, |high| _mm512_reduce_max_ps(high))
}

/// GELU within 0.0012: the distribution function as 1/2 and an odd polynomial, which reaches 1 at its bound.
#[rite(v4x, import_intrinsics)]
fn gelu(value: __m512) -> __m512 {
    let within = _mm512_range_ps::<ABSOLUTE_MINIMUM>(value, _mm512_set1_ps(GELU_BOUND));
    let square = _mm512_mul_ps(within, within);
    let mut series = _mm512_set1_ps(GELU_SERIES[0]);
    for coefficient in &GELU_SERIES[1..] {
        series = _mm512_fmadd_ps(series, square, _mm512_set1_ps(*coefficient));
    }
    _mm512_mul_ps(value, _mm512_fmadd_ps(series, within, _mm512_set1_ps(0.5)))
}

/// The value of the two that is nearer to zero, with the sign of the first.
const ABSOLUTE_MINIMUM: i32 = 0b0010;
/// Value from which GELU is taken for the value itself.
const GELU_BOUND: f32 = 3.4;
/// Coefficients of the normal distribution function, less 1/2, from the highest power of the square.
const GELU_SERIES: [f32; 5] = [
    1.059_967e-5,
    -4.162_087e-4,
    6.720_862e-3,
    -5.983_635e-2,
    3.943_068_5e-1,
];
