//! Convolutions as a processor computes them fast: one row of the output at a time.
//!
//! burn-flex gathers the input of a convolution value by value, which takes about as long as the multiplication. Here the
//! rows of a map lie with their channels side by side, so what one output row needs is copied in whole runs, fits into the
//! second-level cache, and is multiplied with the weights at the speed of the matrix product.

use std::ops::Range;

use burn::tensor::module::conv1d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData};

use crate::device::read;
use crate::inference::InferenceError;
use crate::weights::layers::Conv2dShape;

/// Values of the taps of one product, so that they stay in the second-level cache.
const BLOCK: usize = 1 << 17;
/// Columns of a product are a multiple of this, the width of what the matrix product reads at a time.
const PANEL: usize = 64;

/// A map of features in host memory, `[rows][channels][width]`.
#[derive(Debug, Clone)]
pub(crate) struct RowMap {
    pub(crate) rows: usize,
    pub(crate) channels: usize,
    pub(crate) width: usize,
    pub(crate) values: Vec<f32>,
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

/// A convolution. Its size is that of the map by its stride, less what its kernel is larger than its padding.
#[derive(Debug)]
pub(crate) struct RowConvolution {
    shape: Conv2dShape,
    /// `[outputs, taps * inputs, 1]`, tap by tap.
    weight: Tensor<3>,
    bias: Vec<f32>,
    device: Device,
}

impl RowConvolution {
    /// `weight` is `[outputs][inputs][kernel rows][kernel columns]`. The shape has one group.
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
        let (rows, width) = (self.output(map.rows, 0), self.output(map.width, 1));
        let size = self.shape.outputs * width;
        let mut values = vec![0.0; rows * size];
        let columns_at_once = (BLOCK / self.weight.dims()[1].max(1)).next_multiple_of(PANEL);
        let rows_at_once = (columns_at_once / width.max(1)).clamp(1, rows.max(1));
        for (number, output) in values.chunks_mut((rows_at_once * size).max(1)).enumerate() {
            let first_row = number * rows_at_once;
            let rows = first_row..first_row + output.len() / size;
            for first in (0..width).step_by(columns_at_once) {
                let columns = first..width.min(first + columns_at_once);
                let product = self.product(map, rows.clone(), columns.clone())?;
                let by_channel = product.chunks_exact(rows.len() * columns.len());
                for (channel, (product, &bias)) in by_channel.zip(&self.bias).enumerate() {
                    for (row, product) in product.chunks_exact(columns.len()).enumerate() {
                        let start = row * size + channel * width;
                        let target = &mut output[start + columns.start..start + columns.end];
                        for (target, value) in target.iter_mut().zip(product) {
                            *target = activation(value + bias);
                        }
                    }
                }
            }
        }
        Ok(RowMap {
            rows,
            channels: self.shape.outputs,
            width,
            values,
        })
    }

    /// The weights times what they see for a block of the output, `[outputs][rows][columns]`.
    fn product(
        &self,
        map: &RowMap,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Result<Vec<f32>, InferenceError> {
        let shape = [1, self.weight.dims()[1], rows.len() * columns.len()];
        let taps = TensorData::new(self.taps(map, rows, columns), shape);
        let taps = Tensor::<3>::from_data(taps, &self.device);
        let options = ConvOptions::new([1], [0], [1], 1);
        read(conv1d(taps, self.weight.clone(), None, options))
    }

    /// Rows or columns of the output for as many of the input.
    fn output(&self, input: usize, axis: usize) -> usize {
        let Conv2dShape {
            kernel,
            stride,
            dilation,
            padding,
            ..
        } = self.shape;
        let reach = dilation[axis] * (kernel[axis] - 1);
        (input + 2 * padding[axis])
            .checked_sub(reach + 1)
            .map_or(0, |last| last / stride[axis] + 1)
    }

    /// What each tap of the kernel sees for a block of the output, `[taps * inputs][rows][columns]`; 0 outside the map.
    fn taps(&self, map: &RowMap, rows: Range<usize>, columns: Range<usize>) -> Vec<f32> {
        let Conv2dShape {
            kernel,
            stride,
            dilation,
            padding,
            ..
        } = self.shape;
        let size = map.channels * map.width;
        let taps = kernel[0] * kernel[1] * map.channels;
        let mut values = Vec::with_capacity(taps * rows.len() * columns.len());
        for down in 0..kernel[0] {
            for across in 0..kernel[1] {
                let offset = columns.start * stride[1] + across * dilation[1];
                let run = Run::new(offset, padding[1], stride[1], map.width, columns.len());
                for channel in 0..map.channels {
                    for row in rows.clone() {
                        let input_row = (row * stride[0] + down * dilation[0]).checked_sub(padding[0]);
                        match input_row.filter(|&input_row| input_row < map.rows) {
                            Some(input_row) => {
                                let start = input_row * size + channel * map.width;
                                run.append(&map.values[start..start + map.width], &mut values);
                            }
                            None => values.resize(values.len() + columns.len(), 0.0),
                        }
                    }
                }
            }
        }
        values
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
            [rows, width] in [1_usize..9, 1_usize..150],
            [inputs, outputs] in [1_usize..4, 1_usize..4],
            kernel in prop::sample::select(vec![[1, 1], [3, 3], [1, 5], [5, 3], [7, 7]]),
            stride in prop::sample::select(vec![[1, 1], [2, 1], [2, 2], [1, 3]]),
            across in 1_usize..3,
            padded: bool,
            seed in 0_usize..100,
        ) {
            let reach = [kernel[0] - 1, (kernel[1] - 1) * across];
            prop_assume!(padded || (rows > reach[0] && width > reach[1]));
            let device = Device::default();
            let dilation = [1, across];
            let padding = if padded { [reach[0] / 2, reach[1] / 2] } else { [0, 0] };
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
