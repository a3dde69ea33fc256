//! The convolution in whole numbers, for processors that multiply four pairs of bytes at once (AVX-512 VNNI).
//!
//! Weights have eight bits and a step of their own for each output, as in Jacob et al., "Quantization and training of neural
//! networks for efficient integer-arithmetic-only inference" (2018). The features of a map have eight bits between its
//! smallest and its largest value, which are looked up each time: nothing has to be measured beforehand, and no value is
//! cut off. Sums are exact, so only the features and the weights are rounded.

mod kernel;

use archmage::{SimdToken, X64V4xToken};

use self::kernel::{LANES, Row, VECTORS, Weights};
use super::panel::Windows;
use super::product::PackedWeights;
use super::spare::Buffer;
use super::{Epilogue, RowMap, TargetRows, VerticalTaps};
use crate::activation::Activation;
use crate::weights::layers::Conv2dShape;

/// Channels that are multiplied at once.
const QUAD: usize = 4;
/// With fewer channels, rounding the features costs more than the product saves.
const MIN_INPUTS: usize = 16;
/// Largest value of a weight.
const MAX_WEIGHT: f32 = 127.0;

/// A convolution with weights of eight bits.
#[derive(Debug)]
pub(super) struct Int8 {
    processor: X64V4xToken,
    windows: Windows,
    /// Four channels each; the last ones are filled up with zeros.
    quads: usize,
    /// Terms are the rows of the kernel, in each the quads, in each the taps along the row.
    weights: Weights,
    outputs: Vec<Output>,
}

/// What the weights of an output are worth.
#[derive(Debug, Clone, Copy)]
struct Output {
    /// The weight that 1 stands for.
    step: f32,
    /// Sum of the rounded weights.
    sum: i32,
}

impl Int8 {
    /// `weight` is `[outputs][inputs][kernel rows][kernel columns]`, the shape has one group. `None` where whole numbers would
    /// not be faster.
    pub(super) fn new(weight: &[f32], shape: &Conv2dShape) -> Option<Self> {
        let processor = X64V4xToken::summon().filter(|_| shape.inputs >= MIN_INPUTS)?;
        let [down, across] = shape.kernel;
        let (taps, quads) = (down * across, shape.inputs.div_ceil(QUAD));
        let outputs: Vec<Output> = weight
            .chunks_exact(shape.inputs * taps)
            .map(|weights| {
                let step = step_of(weights);
                let sum = weights
                    .iter()
                    .map(|&weight| i32::from(rounded(weight, step)))
                    .sum();
                Output { step, sum }
            })
            .collect();
        let weights = PackedWeights::new(shape.outputs, taps * quads, |output, term| {
            let (row, quad, column) = (term / (quads * across), term / across % quads, term % across);
            std::array::from_fn(|channel| {
                let input = QUAD * quad + channel;
                if input >= shape.inputs {
                    return 0;
                }
                let place = (output * shape.inputs + input) * taps + row * across + column;
                rounded(weight[place], outputs[output].step)
            })
        });
        Some(Self {
            processor,
            windows: Windows::new(shape),
            quads,
            weights,
            outputs,
        })
    }

    pub(super) fn forward(
        &self,
        vertical: VerticalTaps,
        epilogue: Epilogue<'_>,
        map: &RowMap,
        target: TargetRows<'_>,
    ) {
        let (width, channels) = (target.width, target.channels);
        let levels = Levels::of(kernel::range(self.processor, &map.values));
        let row_words = self.quads * self.windows.channel_width(width);
        let seen_rows =
            target.rows.saturating_sub(1) * vertical.stride + vertical.dilation * (vertical.kernel - 1) + 1;
        // The last vector of a row goes on into what lies behind.
        let mut buffer = Buffer::of(seen_rows * row_words + VECTORS * LANES);
        let words: &mut [u32] = bytemuck::cast_slice_mut(&mut buffer);
        self.round(vertical, levels, map, width, words);
        let factors: Vec<f32> = self
            .outputs
            .iter()
            .map(|output| levels.step * output.step)
            .collect();
        let offsets: Vec<f32> = self
            .outputs
            .iter()
            .zip(&factors)
            .zip(epilogue.bias)
            .map(|((output, factor), bias)| bias - factor * levels.zero * output.sum as f32)
            .collect();
        let starts: Vec<u32> = (0..vertical.kernel * self.quads)
            .flat_map(|place| {
                let (tap, quad) = (place / self.quads, place % self.quads);
                let start = tap * vertical.dilation * row_words + quad * self.windows.channel_width(width);
                self.windows
                    .starts(width)
                    .map(move |window| (start + window) as u32)
            })
            .collect();
        let relu = epilogue.activation == Activation::Relu;
        let rows = target.values.chunks_exact_mut((channels * width).max(1));
        for (row, target) in rows.enumerate() {
            let row = Row {
                seen: &words[row * vertical.stride * row_words..],
                starts: &starts,
                weights: &self.weights,
                factors: &factors,
                offsets: &offsets,
                accumulates: epilogue.accumulates,
                relu,
                width,
            };
            kernel::multiply(self.processor, &row, target);
        }
        if epilogue.activation == Activation::Sigmoid {
            kernel::sigmoid(self.processor, target.values);
        }
    }

    /// Puts the rounded features of a map where a target of `width` columns looks for them, with zeros around.
    fn round(&self, vertical: VerticalTaps, levels: Levels, map: &RowMap, width: usize, words: &mut [u32]) {
        let zero = u32::from_ne_bytes([levels.zero as u8; QUAD]);
        let beyond = vec![0.0; map.width];
        let mut rounded = vec![0; map.width];
        let row_words = (self.quads * self.windows.channel_width(width)).max(1);
        for (row, target) in words.chunks_exact_mut(row_words).enumerate() {
            let Some(row) = row.checked_sub(vertical.padding).filter(|&row| row < map.rows) else {
                target.fill(zero);
                continue;
            };
            let quads = target.chunks_exact_mut(self.windows.channel_width(width).max(1));
            for (quad, target) in quads.enumerate() {
                let channels: [&[f32]; QUAD] = std::array::from_fn(|channel| {
                    let channel = QUAD * quad + channel;
                    if channel < map.channels {
                        map.channel(row, channel)
                    } else {
                        &beyond
                    }
                });
                if self.windows.are_one_pixel() {
                    kernel::round(self.processor, channels, levels, target);
                } else {
                    kernel::round(self.processor, channels, levels, &mut rounded);
                    self.windows.fill_channel(&rounded, zero, 0, width, target);
                }
            }
        }
    }
}

/// What the eight bits of a feature stand for: `step` times what they are above `zero`.
#[derive(Debug, Clone, Copy)]
struct Levels {
    step: f32,
    zero: f32,
}

impl Levels {
    /// For values from `low`, at most 0, to `high`, at least 0.
    fn of((low, high): (f32, f32)) -> Self {
        // Where zero is not the lowest value it is rounded itself, and may push the others up by half a step.
        let steps = if low < 0.0 { 254.0 } else { 255.0 };
        let step = (high - low) / steps;
        if step > 0.0 && step.is_normal() {
            Self {
                step,
                zero: (-low / step).round(),
            }
        } else {
            Self { step: 1.0, zero: 0.0 }
        }
    }
}

/// The step with which the largest of some weights is just in reach.
fn step_of(weights: &[f32]) -> f32 {
    let largest = weights
        .iter()
        .fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
    if largest > 0.0 { largest / MAX_WEIGHT } else { 1.0 }
}

fn rounded(weight: f32, step: f32) -> i8 {
    (weight / step).round() as i8
}

#[cfg(test)]
mod tests;
