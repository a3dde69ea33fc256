//! The int8-quantised convolution, for processors that multiply four pairs of bytes at once (AVX-512 VNNI).
//!
//! Weights are quantised symmetrically with a scale of their own for each output, as in Jacob et al., "Quantization and
//! training of neural networks for efficient integer-arithmetic-only inference" (2018): the norm that is folded into the
//! weights scales each output by a factor of its own, and one scale for all would leave the small ones a few levels. Features
//! are quantised with a zero point, unsigned, because VNNI multiplies unsigned by signed bytes and because most maps come out
//! of a ReLU, which would leave half of a signed range unused. Their scale is that of the map's own smallest and largest value,
//! looked up each time: that pass is cheap beside the product, needs no calibration data, and cuts no value off. Sums are exact
//! in 32 bits, so that quantisation is the only error, and the order of summing does not matter.
//!
//! The convolution is the direct one: Winograd's transforms would spread the features beyond eight bits.

mod kernel;
mod layer;
mod likeliest;
mod output;
mod perceptron;
mod pixels;
mod scales;

use archmage::{SimdToken, X64V4xToken};

use self::kernel::{LANES, Row, VECTORS, Weights};
pub(super) use self::layer::Layer;
pub(super) use self::perceptron::{Between, Perceptron};
use self::scales::Scales;
use super::buffer_pool::PooledBuffer;
use super::panel::Windows;
use super::product::PackedWeights;
use super::{Epilogue, RowMap, TargetRows, VerticalTaps, activate};
use crate::convolution::Conv2dShape;

/// Channels that are multiplied at once.
const QUAD: usize = 4;
/// Smallest number of input channels: with fewer, quantising the features costs more than the product saves.
const MIN_INPUTS: usize = 24;
/// Largest quantised weight. -128 is left out, so that the range is symmetric.
const MAX_WEIGHT: f32 = 127.0;

/// A convolution with int8-quantised weights.
#[derive(Debug)]
pub(super) struct Int8 {
    processor: X64V4xToken,
    windows: Windows,
    /// Groups of four input channels; the last one is filled up with channels of zeros.
    quads: usize,
    /// Weights by output and term. Terms are the rows of the kernel, in each the quads, in each the taps along the row.
    weights: Weights,
    /// Weight of each output that a quantised 1 stands for.
    scales: Vec<f32>,
    /// Sum of the weights of each output, as they are quantised.
    scaled_sums: Vec<f32>,
}

impl Int8 {
    /// Quantises the weights; `weight` is `[outputs][inputs][kernel rows][kernel columns]`, the shape has one group. `None`
    /// where this would not be faster than floats.
    pub(super) fn new(weight: &[f32], shape: &Conv2dShape) -> Option<Self> {
        let processor = X64V4xToken::summon().filter(|_| shape.inputs >= MIN_INPUTS)?;
        let [down, across] = shape.kernel;
        let (taps, quads) = (down * across, shape.inputs.div_ceil(QUAD));
        let of_outputs = weight.chunks_exact(shape.inputs * taps);
        let scales: Vec<f32> = of_outputs.clone().map(weight_scale).collect();
        let scaled_sums = of_outputs.zip(&scales).map(|(weights, &scale)| {
            let quantized = weights.iter().map(|&weight| quantized_weight(weight, scale));
            scale * quantized.map(i32::from).sum::<i32>() as f32
        });
        let scaled_sums = scaled_sums.collect();
        let weights = PackedWeights::new(shape.outputs, taps * quads, |output, term| {
            let (row, quad, column) = (term / (quads * across), term / across % quads, term % across);
            std::array::from_fn(|channel| {
                let input = QUAD * quad + channel;
                // The channels that fill up the last quad hold the zero point, and weights of zero keep them
                // out of the sums.
                if input >= shape.inputs {
                    return 0;
                }
                let index = (output * shape.inputs + input) * taps + row * across + column;
                quantized_weight(weight[index], scales[output])
            })
        });
        Some(Self {
            processor,
            windows: Windows::new(shape),
            quads,
            weights,
            scales,
            scaled_sums,
        })
    }

    /// Computes all rows of `target` from the channels of maps of one size, one after the other.
    pub(super) fn forward(
        &self,
        vertical: VerticalTaps,
        epilogue: Epilogue<'_>,
        maps: &[&RowMap],
        target: TargetRows<'_>,
    ) {
        let (width, channels) = (target.width, target.channels);
        let ranges = maps.iter().map(|map| kernel::range(self.processor, &map.values));
        let range = ranges.fold((0.0_f32, 0.0_f32), |(low, high), range| {
            (low.min(range.0), high.max(range.1))
        });
        let features = Quantization::of(range);
        let channel_words = self.windows.channel_width(width);
        let row_words = self.quads * channel_words;
        // Every row that some output row sees, padding included, in one buffer: each is quantised once and then seen by up to
        // as many output rows as the kernel is high.
        let seen_rows =
            target.rows.saturating_sub(1) * vertical.stride + vertical.dilation * (vertical.kernel - 1) + 1;
        // The last vector of a row goes on into what lies behind.
        let mut buffer = PooledBuffer::take(seen_rows * row_words + VECTORS * LANES);
        let words: &mut [u32] = bytemuck::cast_slice_mut(&mut buffer);
        self.quantize(vertical, features, maps, width, words);
        let mut scales = Scales::new(channels, 0.0);
        kernel::set_scales(self.processor, &mut scales, self, epilogue.bias, features);
        // In the order of the packed weights, from the first row that an output row sees.
        let mut starts = Vec::with_capacity(vertical.kernel * self.quads * self.windows.len());
        for tap in 0..vertical.kernel {
            for quad in 0..self.quads {
                let start = tap * vertical.dilation * row_words + quad * channel_words;
                starts.extend(self.windows.starts(width).map(|window| (start + window) as u32));
            }
        }
        let rows = target.values.chunks_exact_mut((channels * width).max(1));
        for (row, target) in rows.enumerate() {
            let row = Row {
                seen: &words[row * vertical.stride * row_words..],
                starts: &starts,
                weights: &self.weights,
                scales: &scales,
                least: epilogue.activation.floor(),
                width,
            };
            kernel::multiply(self.processor, &row, target);
        }
        activate(epilogue.activation, target.values);
    }

    /// Fills `words` with the quantised features of the maps where a target of `width` columns looks for them. A word holds the
    /// same pixel of four channels; a row has the quads one after the other, each laid out by the windows.
    fn quantize(
        &self,
        vertical: VerticalTaps,
        features: Quantization,
        maps: &[&RowMap],
        width: usize,
        words: &mut [u32],
    ) {
        let Some(&&RowMap {
            rows, width: columns, ..
        }) = maps.first()
        else {
            return;
        };
        // Padding is the value 0, which is the zero point and not the byte 0.
        let zero = u32::from_ne_bytes([features.zero_point as u8; QUAD]);
        // The value 0 becomes the zero point, as that of the padding does.
        let beyond = vec![0.0; columns];
        let mut quantized = vec![0; columns];
        let channel_words = self.windows.channel_width(width).max(1);
        let row_words = (self.quads * channel_words).max(1);
        for (row, target) in words.chunks_exact_mut(row_words).enumerate() {
            let Some(row) = row.checked_sub(vertical.padding).filter(|&row| row < rows) else {
                target.fill(zero);
                continue;
            };
            for (quad, target) in target.chunks_exact_mut(channel_words).enumerate() {
                let channels: [&[f32]; QUAD] = std::array::from_fn(|channel| {
                    let mut channel = QUAD * quad + channel;
                    for map in maps {
                        if channel < map.channels {
                            return map.channel(row, channel);
                        }
                        channel -= map.channels;
                    }
                    &beyond
                });
                if self.windows.are_one_pixel() {
                    kernel::quantize(self.processor, channels, features, target);
                } else {
                    kernel::quantize(self.processor, channels, features, &mut quantized);
                    self.windows.fill_channel(&quantized, zero, 0, width, target);
                }
            }
        }
    }
}

/// Quantisation of features: a byte `q` stands for `scale * (q - zero_point)`.
#[derive(Debug, Clone, Copy)]
struct Quantization {
    scale: f32,
    /// Reciprocal of the scale: a product for each value in place of a quotient, which takes several times as long.
    factor: f32,
    /// Byte that stands for 0, a whole number from 0 to 255.
    zero_point: f32,
}

impl Quantization {
    /// Quantisation of values from `low`, at most 0, to `high`, at least 0.
    #[inline(always)]
    fn of((low, high): (f32, f32)) -> Self {
        // Where zero is not the lowest value the zero point is rounded itself, and may push the others up by half a level:
        // one level fewer keeps them below 256.
        let levels = if low < 0.0 { 254.0 } else { 255.0 };
        let range = high - low;
        // Both quotients at once: strips wait for them.
        let (scale, factor) = (range / levels, levels / range);
        // A map of zeros has no range, and the reciprocal of a subnormal scale would be infinite.
        if scale > 0.0 && scale.is_normal() {
            Self {
                scale,
                factor,
                zero_point: (-low * factor).round_ties_even(),
            }
        } else {
            Self {
                scale: 1.0,
                factor: 1.0,
                zero_point: 0.0,
            }
        }
    }
}

/// Scale with which the largest of some weights is just in reach.
fn weight_scale(weights: &[f32]) -> f32 {
    let largest = weights
        .iter()
        .fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
    // An output whose weights are all zero needs a scale to divide by, whichever.
    if largest > 0.0 { largest / MAX_WEIGHT } else { 1.0 }
}

fn quantized_weight(weight: f32, scale: f32) -> i8 {
    (weight / scale).round() as i8
}

#[cfg(test)]
mod tests;
