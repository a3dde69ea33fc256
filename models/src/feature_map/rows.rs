//! Maps in host memory, one image each.

use burn::tensor::Device;

use super::recurrent::{HostLstm, LstmWeights};
use super::{Activation, FeatureMap, MapSize, Pool};
use crate::inference::InferenceError;
use crate::page::simd::vectorised;
use crate::row_convolution::{RowConvolution, RowMap};
use crate::weights::layers::{Conv2dShape, ImportedConvolution};

/// A convolution of all channels with all, or of each with itself.
#[derive(Debug)]
pub(crate) enum HostConvolution {
    Dense(Box<RowConvolution>),
    Depthwise(DepthwiseConvolution),
}

/// Keeps the size of the map.
#[derive(Debug)]
pub(crate) struct DepthwiseConvolution {
    shape: Conv2dShape,
    /// `[channels][rows][columns]`.
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// A layer that reads both ways, and the device that multiplies for it.
#[derive(Debug)]
pub(crate) struct HostRecurrence {
    lstm: HostLstm,
    device: Device,
}

impl FeatureMap for RowMap {
    type Convolution = HostConvolution;
    type Lstm = HostRecurrence;

    fn images(values: Vec<f32>, count: usize, size: MapSize, _: &Device) -> Self {
        debug_assert!(count == 1 && (size.channels == 1 || size.rows == 1));
        Self {
            rows: size.rows,
            channels: size.channels,
            width: size.columns,
            values,
        }
    }

    fn convolution(weights: ImportedConvolution, shape: Conv2dShape, device: &Device) -> HostConvolution {
        let ImportedConvolution { weight, bias, .. } = weights;
        if shape.groups == 1 {
            return HostConvolution::Dense(Box::new(RowConvolution::new(&weight, bias, shape, device)));
        }
        HostConvolution::Depthwise(DepthwiseConvolution { shape, weight, bias })
    }

    fn lstm(weights: LstmWeights, device: &Device) -> HostRecurrence {
        HostRecurrence {
            lstm: HostLstm::new(weights, device),
            device: device.clone(),
        }
    }

    fn size(&self) -> MapSize {
        MapSize {
            channels: self.channels,
            rows: self.rows,
            columns: self.width,
        }
    }

    fn convolve(
        &self,
        convolution: &HostConvolution,
        activation: Activation,
    ) -> Result<Self, InferenceError> {
        match convolution {
            HostConvolution::Dense(dense) => dense.forward(self, |value| activation.of(value)),
            HostConvolution::Depthwise(depthwise) => Ok(vectorised(|| depthwise.forward(self, activation))),
        }
    }

    fn recur(&self, lstm: &HostRecurrence) -> Result<Self, InferenceError> {
        lstm.lstm.forward(self, &lstm.device)
    }

    fn add(self, other: &Self) -> Self {
        Self::add(self, other)
    }

    fn relu(mut self) -> Self {
        for value in &mut self.values {
            *value = value.max(0.0);
        }
        self
    }

    fn pad_columns(self, before: usize, after: usize, values: &[f32]) -> Self {
        let width = before + self.width + after;
        let mut padded = Vec::with_capacity(self.rows * self.channels * width);
        for row in self.values.chunks_exact((self.channels * self.width).max(1)) {
            for (channel, &value) in row.chunks_exact(self.width.max(1)).zip(values) {
                padded.resize(padded.len() + before, value);
                padded.extend_from_slice(channel);
                padded.resize(padded.len() + after, value);
            }
        }
        Self {
            width,
            values: padded,
            ..self
        }
    }

    fn max_pool(&self, pool: Pool) -> Self {
        let Pool {
            kernel,
            stride,
            padding,
        } = pool;
        let output = |size: usize, axis: usize| (size + 2 * padding - kernel[axis]) / stride[axis] + 1;
        let (rows, width) = (output(self.rows, 0), output(self.width, 1));
        let mut values = vec![f32::NEG_INFINITY; rows * self.channels * width];
        for (row, target) in values
            .chunks_exact_mut((self.channels * width).max(1))
            .enumerate()
        {
            for down in 0..kernel[0] {
                let Some(source) = (row * stride[0] + down)
                    .checked_sub(padding)
                    .and_then(|source| self.row(source))
                else {
                    continue;
                };
                for (source, target) in source
                    .chunks_exact(self.width)
                    .zip(target.chunks_exact_mut(width))
                {
                    for (column, target) in target.iter_mut().enumerate() {
                        let start = column * stride[1];
                        let end = (start + kernel[1]).saturating_sub(padding).min(self.width);
                        for &value in &source[start.saturating_sub(padding).min(end)..end] {
                            *target = target.max(value);
                        }
                    }
                }
            }
        }
        Self {
            rows,
            channels: self.channels,
            width,
            values,
        }
    }

    fn mean(&self, columns: usize) -> Self {
        let mut sums = vec![0.0_f64; self.channels];
        for row in self.values.chunks_exact((self.channels * self.width).max(1)) {
            for (channel, sum) in row.chunks_exact(self.width.max(1)).zip(&mut sums) {
                let seen: f32 = channel.iter().take(columns).sum();
                *sum += f64::from(seen);
            }
        }
        let count = (self.rows * columns) as f64;
        Self {
            rows: 1,
            channels: self.channels,
            width: 1,
            values: sums.into_iter().map(|sum| (sum / count) as f32).collect(),
        }
    }

    fn scale(mut self, factors: &Self) -> Self {
        let (channels, width) = (self.channels, self.width);
        for row in self.values.chunks_exact_mut((channels * width).max(1)) {
            for (channel, &factor) in row.chunks_exact_mut(width.max(1)).zip(&factors.values) {
                for value in channel {
                    *value *= factor;
                }
            }
        }
        self
    }

    fn spread(&self, rows: usize, columns: usize) -> Self {
        let mut values = Vec::with_capacity(rows * self.channels * columns);
        for _ in 0..rows {
            for &value in &self.values {
                values.resize(values.len() + columns, value);
            }
        }
        Self {
            rows,
            channels: self.channels,
            width: columns,
            values,
        }
    }

    fn stack(maps: &[Self]) -> Self {
        let (rows, width) = maps.first().map_or((0, 0), |map| (map.rows, map.width));
        let values = (0..rows)
            .flat_map(|row| maps.iter().filter_map(move |map| map.row(row)))
            .flatten()
            .copied()
            .collect();
        Self {
            rows,
            channels: maps.iter().map(|map| map.channels).sum(),
            width,
            values,
        }
    }

    fn enlarge(&self, rows: usize, columns: usize) -> Self {
        let (down, across) = (between(self.rows, rows), between(self.width, columns));
        let mut values = Vec::with_capacity(rows * self.channels * columns);
        let mut blend = vec![0.0; self.channels * self.width];
        for (first, second, share) in down {
            let (Some(upper), Some(lower)) = (self.row(first), self.row(second)) else {
                continue;
            };
            for ((target, &upper), &lower) in blend.iter_mut().zip(upper).zip(lower) {
                *target = upper + (lower - upper) * share;
            }
            for channel in blend.chunks_exact(self.width.max(1)) {
                values.extend(
                    across.iter().map(|&(left, right, share)| {
                        channel[left] + (channel[right] - channel[left]) * share
                    }),
                );
            }
        }
        Self {
            rows,
            channels: self.channels,
            width: columns,
            values,
        }
    }

    fn rows_as_channels(self) -> Self {
        Self::rows_as_channels(&self)
    }

    fn into_planes(self) -> Result<Vec<f32>, InferenceError> {
        Ok(Self::rows_as_channels(&self).values)
    }

    fn into_columns(self) -> Result<Vec<f32>, InferenceError> {
        let (channels, width) = (self.channels, self.width);
        let mut values = vec![0.0; channels * width];
        // As many columns as a cache line holds at a time.
        for (block, columns) in values.chunks_mut((16 * channels).max(1)).enumerate() {
            for channel in 0..channels {
                let source = &self.values[channel * width + 16 * block..];
                for (column, &value) in columns.chunks_exact_mut(channels).zip(source) {
                    column[channel] = value;
                }
            }
        }
        Ok(values)
    }
}

/// For each place of the output, the two places of the input around it and the share of the second.
fn between(input: usize, output: usize) -> Vec<(usize, usize, f32)> {
    let last = input.saturating_sub(1);
    let step = if output > 1 {
        last as f32 / (output - 1) as f32
    } else {
        0.0
    };
    (0..output)
        .map(|place| {
            let place = place as f32 * step;
            let first = (place as usize).min(last);
            (first, (first + 1).min(last), place - first as f32)
        })
        .collect()
}

impl RowMap {
    /// The channels of a row, one after the other.
    fn row(&self, row: usize) -> Option<&[f32]> {
        let size = self.channels * self.width;
        self.values.get(row * size..(row + 1) * size)
    }
}

impl DepthwiseConvolution {
    #[inline(always)]
    fn forward(&self, map: &RowMap, activation: Activation) -> RowMap {
        let Conv2dShape {
            kernel: [down, across],
            dilation,
            padding,
            ..
        } = self.shape;
        let width = map.width;
        let mut values = Vec::with_capacity(map.values.len());
        for row in 0..map.rows {
            for (channel, &bias) in self.bias.iter().enumerate() {
                let start = values.len();
                values.resize(start + width, bias);
                let target = &mut values[start..];
                let kernel = &self.weight[channel * down * across..(channel + 1) * down * across];
                for (tap, &weight) in kernel.iter().enumerate() {
                    let source = (row + tap / across * dilation[0])
                        .checked_sub(padding[0])
                        .and_then(|source| map.row(source));
                    let Some(source) = source.map(|row| &row[channel * width..(channel + 1) * width]) else {
                        continue;
                    };
                    let (shift, pad) = (tap % across * dilation[1], padding[1]);
                    let (behind, ahead) = (pad.saturating_sub(shift), shift.saturating_sub(pad));
                    let count = width.saturating_sub(behind + ahead);
                    if count == 0 {
                        continue;
                    }
                    let seen = &source[ahead..ahead + count];
                    for (target, &value) in target[behind..behind + count].iter_mut().zip(seen) {
                        *target += weight * value;
                    }
                }
                for value in target {
                    *value = activation.of(*value);
                }
            }
        }
        RowMap {
            rows: map.rows,
            channels: map.channels,
            width,
            values,
        }
    }
}
