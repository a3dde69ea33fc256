//! Convolutions as a processor computes them fast: one row of the output at a time.
//!
//! burn-flex gathers the input of a convolution value by value, which takes about as long as the multiplication. Here the
//! rows of a map lie with their channels side by side, so what one output row needs is copied in whole runs, fits into the
//! second-level cache, and is multiplied with the weights at the speed of the matrix product.

use burn::tensor::module::conv1d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData};

use crate::device::read;
use crate::inference::InferenceError;
use crate::weights::layers::Conv2dShape;

/// A map of features in host memory, `[rows][channels][width]`.
#[derive(Debug, Clone)]
pub(crate) struct RowMap {
    rows: usize,
    channels: usize,
    width: usize,
    values: Vec<f32>,
}

impl RowMap {
    /// An image of one channel, row by row. `values` holds whole rows of `width`.
    pub(crate) fn image(values: Vec<f32>, width: usize) -> Self {
        Self {
            rows: values.len() / width,
            channels: 1,
            width,
            values,
        }
    }

    /// The same values as one row, in which the rows of each channel are channels of their own, channel by channel.
    pub(crate) fn rows_as_channels(&self) -> Self {
        let mut values = Vec::with_capacity(self.values.len());
        for channel in 0..self.channels {
            for row in 0..self.rows {
                let start = (row * self.channels + channel) * self.width;
                values.extend_from_slice(&self.values[start..start + self.width]);
            }
        }
        Self {
            rows: 1,
            channels: self.rows * self.channels,
            width: self.width,
            values,
        }
    }

    /// Adds a map of the same size.
    pub(crate) fn add(mut self, other: &Self) -> Self {
        for (value, added) in self.values.iter_mut().zip(&other.values) {
            *value += added;
        }
        self
    }

    /// The values of a map of one row as `[width][channels]`.
    pub(crate) fn into_columns(self, device: &Device) -> Result<Vec<f32>, InferenceError> {
        let data = TensorData::new(self.values, [self.channels, self.width]);
        read(Tensor::<2>::from_data(data, device).transpose())
    }
}

/// A convolution that keeps the size of the map, but for its stride.
#[derive(Debug)]
pub(crate) struct RowConvolution {
    shape: Conv2dShape,
    /// `[outputs, taps * inputs, 1]`, tap by tap.
    weight: Tensor<3>,
    bias: Vec<f32>,
    device: Device,
}

impl RowConvolution {
    /// `weight` is `[outputs][inputs][kernel rows][kernel columns]`. The shape has one group and a padding of half its kernel.
    pub(crate) fn new(weight: &[f32], bias: Vec<f32>, shape: Conv2dShape, device: &Device) -> Self {
        let taps = shape.kernel[0] * shape.kernel[1];
        let mut by_tap = vec![0.0; weight.len()];
        for (of_output, target) in weight
            .chunks_exact(shape.inputs * taps)
            .zip(by_tap.chunks_exact_mut(shape.inputs * taps))
        {
            for (input, of_input) in of_output.chunks_exact(taps).enumerate() {
                for (tap, &value) in of_input.iter().enumerate() {
                    target[tap * shape.inputs + input] = value;
                }
            }
        }
        let dimensions = [shape.outputs, taps * shape.inputs, 1];
        Self {
            shape,
            weight: Tensor::from_data(TensorData::new(by_tap, dimensions), device),
            bias,
            device: device.clone(),
        }
    }

    /// The map after the convolution, its bias and `activation`.
    pub(crate) fn forward(
        &self,
        map: &RowMap,
        activation: impl Fn(f32) -> f32,
    ) -> Result<RowMap, InferenceError> {
        let [stride_down, stride_across] = self.shape.stride;
        let (rows, width) = (map.rows.div_ceil(stride_down), map.width.div_ceil(stride_across));
        let mut values = Vec::with_capacity(rows * self.shape.outputs * width);
        for row in 0..rows {
            let taps = self.taps_of_row(map, row, width);
            let channels = self.weight.dims()[1];
            let taps = Tensor::<3>::from_data(TensorData::new(taps, [1, channels, width]), &self.device);
            let product = conv1d(
                taps,
                self.weight.clone(),
                None,
                ConvOptions::new([1], [0], [1], 1),
            );
            for (channel, &bias) in read(product)?.chunks_exact(width).zip(&self.bias) {
                values.extend(channel.iter().map(|value| activation(value + bias)));
            }
        }
        Ok(RowMap {
            rows,
            channels: self.shape.outputs,
            width,
            values,
        })
    }

    /// What each tap of the kernel sees for one output row, `[taps * inputs][width]`; 0 outside the map.
    fn taps_of_row(&self, map: &RowMap, row: usize, width: usize) -> Vec<f32> {
        let Conv2dShape {
            kernel,
            stride,
            dilation,
            padding,
            ..
        } = self.shape;
        let block = map.channels * width;
        let size = map.channels * map.width;
        let mut taps = Vec::with_capacity(kernel[0] * kernel[1] * block);
        for down in 0..kernel[0] {
            let input_row = (row * stride[0] + down * dilation[0]).checked_sub(padding[0]);
            let Some(input_row) = input_row.filter(|&input_row| input_row < map.rows) else {
                taps.resize(taps.len() + kernel[1] * block, 0.0);
                continue;
            };
            let input = &map.values[input_row * size..(input_row + 1) * size];
            for across in 0..kernel[1] {
                let run = Run::new(across * dilation[1], padding[1], stride[1], map.width, width);
                for channel in input.chunks_exact(map.width) {
                    run.append(channel, &mut taps);
                }
            }
        }
        taps
    }
}

/// Which values of an input row one tap sees along an output row.
#[derive(Debug, Clone, Copy)]
struct Run {
    zeros_before: usize,
    first_input: usize,
    count: usize,
    stride: usize,
    zeros_after: usize,
}

impl Run {
    fn new(offset: usize, padding: usize, stride: usize, input_width: usize, output_width: usize) -> Self {
        let zeros_before = padding.saturating_sub(offset).div_ceil(stride).min(output_width);
        let first_input = (zeros_before * stride + offset).saturating_sub(padding);
        let inside = input_width.saturating_sub(first_input).div_ceil(stride);
        let count = inside.min(output_width - zeros_before);
        Self {
            zeros_before,
            first_input,
            count,
            stride,
            zeros_after: output_width - zeros_before - count,
        }
    }

    fn append(self, input: &[f32], target: &mut Vec<f32>) {
        target.resize(target.len() + self.zeros_before, 0.0);
        let seen = input.get(self.first_input..).unwrap_or_default();
        match self.stride {
            1 => target.extend_from_slice(&seen[..self.count]),
            stride => target.extend(seen.iter().step_by(stride).take(self.count)),
        }
        target.resize(target.len() + self.zeros_after, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::module::conv2d;
    use proptest::prelude::*;

    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|index| ((index * 31 + seed * 17) % 23) as f32 / 23.0 - 0.5)
            .collect()
    }

    proptest! {
        #[test]
        fn agrees_with_the_backends_convolution(
            [rows, width] in [1_usize..9, 1_usize..24],
            [inputs, outputs] in [1_usize..4, 1_usize..4],
            kernel in prop::sample::select(vec![[1, 1], [3, 3], [1, 5], [5, 3]]),
            stride in prop::sample::select(vec![[1, 1], [2, 1], [2, 2], [1, 3]]),
            across in 1_usize..3,
            seed in 0_usize..100,
        ) {
            let device = Device::default();
            let dilation = [1, across];
            let padding = [kernel[0] / 2, kernel[1] / 2 * across];
            let shape = Conv2dShape { inputs, outputs, kernel, stride, dilation, padding, groups: 1, stored_flat: false };
            let weight = numbers(outputs * inputs * kernel[0] * kernel[1], seed);
            let bias = numbers(outputs, seed + 1);
            let image = numbers(inputs * rows * width, seed + 2);

            let tensor = |values: Vec<f32>, shape: [usize; 4]| Tensor::<4>::from_data(TensorData::new(values, shape), &device);
            let expected = conv2d(
                tensor(image.clone(), [1, inputs, rows, width]),
                tensor(weight.clone(), [outputs, inputs, kernel[0], kernel[1]]),
                Some(Tensor::from_data(TensorData::new(bias.clone(), [outputs]), &device)),
                ConvOptions::new(stride, padding, dilation, 1),
            );
            let expected_rows = expected.permute([0, 2, 1, 3]);

            let by_row = tensor(image, [1, inputs, rows, width]).permute([0, 2, 1, 3]);
            let map = RowMap { rows, channels: inputs, width, values: read(by_row).unwrap() };
            let actual = RowConvolution::new(&weight, bias, shape, &device).forward(&map, |value| value).unwrap();

            prop_assert_eq!([1, actual.rows, actual.channels, actual.width], expected_rows.dims());
            for (actual, expected) in actual.values.iter().zip(read(expected_rows).unwrap()) {
                prop_assert!((actual - expected).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn rows_become_channels_channel_by_channel() {
        let map = RowMap {
            rows: 2,
            channels: 2,
            width: 1,
            values: vec![0.0, 10.0, 1.0, 11.0],
        };
        assert_eq!(map.rows_as_channels().values, [0.0, 1.0, 10.0, 11.0]);
    }
}
