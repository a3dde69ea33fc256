//! Maps as tensors, `[images, channels, rows, columns]`.

mod recurrent;

use std::borrow::Cow;
use std::ops::Range;

use burn::module::Param;
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d;
use burn::tensor::activation::{gelu, hard_sigmoid, relu, sigmoid, silu, softmax};
use burn::tensor::module::{avg_pool2d, interpolate, max_pool2d};
use burn::tensor::ops::{AvgPoolOptions, InterpolateMode, InterpolateOptions, MaxPoolOptions};
use burn::tensor::{Device, Tensor, TensorData};

use self::recurrent::DeviceLstm;
use super::recurrent::LstmWeights;
use super::{Activation, FeatureMap, LayerNorm, MapSize, Pool};
use crate::convolution::{Conv2dShape, ConvolutionWeights};
use crate::device::read;
use crate::error::InferenceError;
use crate::precision::Precision;

impl FeatureMap for Tensor<4> {
    type Convolution = Conv2d;
    type Lstm = DeviceLstm;

    fn images(values: Vec<f32>, count: usize, size: MapSize, device: &Device) -> Self {
        let shape = [count, size.channels, size.rows, size.columns];
        Self::from_data(TensorData::new(values, shape), device)
    }

    fn convolution(weights: ConvolutionWeights, shape: Conv2dShape, _: Precision, device: &Device) -> Conv2d {
        let [rows, columns] = shape.kernel;
        let [down, across] = shape.padding;
        let dimensions = [shape.outputs, shape.inputs / shape.groups, rows, columns];
        let weight = Tensor::<4>::from_data(TensorData::new(weights.weight, dimensions), device);
        let bias = Tensor::<1>::from_data(TensorData::new(weights.bias, [shape.outputs]), device);
        Conv2d {
            weight: Param::from_tensor(weight),
            bias: Some(Param::from_tensor(bias)),
            stride: shape.stride,
            kernel_size: shape.kernel,
            dilation: shape.dilation,
            groups: shape.groups,
            padding: PaddingConfig2d::Explicit(down, across, down + shape.after[0], across + shape.after[1]),
        }
    }

    fn lstm(weights: LstmWeights, device: &Device) -> DeviceLstm {
        DeviceLstm::new(weights, device)
    }

    fn size(&self) -> MapSize {
        let [_, channels, rows, columns] = self.dims();
        MapSize {
            channels,
            rows,
            columns,
        }
    }

    fn convolve(&self, convolution: &Conv2d, activation: Activation) -> Result<Self, InferenceError> {
        let map = convolution.forward(self.clone());
        Ok(match activation {
            Activation::None => map,
            Activation::Relu => relu(map),
            Activation::Sigmoid => sigmoid(map),
            Activation::Gelu => gelu(map),
            Activation::HardSigmoid => hard_sigmoid(map, 1.0 / 6.0, 0.5),
            Activation::HardSwish => map.clone() * hard_sigmoid(map, 1.0 / 6.0, 0.5),
            Activation::Swish => silu(map),
        })
    }

    fn attend(&self, heads: usize) -> Self {
        let [images, channels, _, columns] = self.dims();
        let depth = channels / 3 / heads;
        // Images and heads together: a product takes one dimension of matrices.
        let part = |number: usize| -> Tensor<3> {
            let size = channels / 3;
            self.clone()
                .slice([0..images, number * size..(number + 1) * size, 0..1, 0..columns])
                .reshape([images * heads, depth, columns])
        };
        let queries = part(0).swap_dims(1, 2) * (1.0 / (depth as f32).sqrt());
        let shares = softmax(queries.matmul(part(1)), 2);
        let read = part(2).matmul(shares.swap_dims(1, 2));
        read.reshape([images, channels / 3, 1, columns])
    }

    fn layer_norm(&self, norm: &LayerNorm) -> Self {
        let channels = norm.scale.len();
        let affine = |values: &[f32]| {
            Self::from_data(
                TensorData::new(values.to_vec(), [1, channels, 1, 1]),
                &self.device(),
            )
        };
        let centred = self.clone() - self.clone().mean_dim(1);
        let variance = (centred.clone() * centred.clone()).mean_dim(1);
        centred / (variance + norm.epsilon).sqrt() * affine(&norm.scale) + affine(&norm.shift)
    }

    fn average_pool(&self, rows: usize, columns: usize) -> Self {
        avg_pool2d(
            self.clone(),
            AvgPoolOptions::new([rows, columns]).with_stride([rows, columns]),
        )
    }

    fn interleave(&self, side: usize) -> Self {
        let [images, channels, rows, columns] = self.dims();
        let channels = channels / (side * side);
        self.clone()
            .reshape([images, side, side, channels, rows, columns])
            .permute([0, 3, 4, 1, 5, 2])
            .reshape([images, channels, side * rows, side * columns])
    }

    fn likeliest(&self, classifier: &Conv2d) -> Result<Vec<(u32, f32)>, InferenceError> {
        let scores = self.convolve(classifier, Activation::None)?;
        let (largest, classes) = scores.clone().max_dim_with_indices(1);
        let shares = (scores - largest).exp().sum_dim(1).recip();
        let classes: Vec<f32> = read(classes.float())?;
        // Whole numbers below 2^24, exact as floats.
        Ok(classes
            .into_iter()
            .map(|class| class as u32)
            .zip(read(shares)?)
            .collect())
    }

    fn recur(&self, lstm: &DeviceLstm) -> Result<Self, InferenceError> {
        lstm.forward(self)
    }

    fn add(self, other: &Self) -> Self {
        self + other.clone()
    }

    fn relu(self) -> Self {
        relu(self)
    }

    fn pad_columns(self, before: usize, after: usize, values: &[f32]) -> Self {
        let [images, channels, rows, _] = self.dims();
        let values = TensorData::new(values.to_vec(), [1, channels, 1, 1]);
        let column = Self::from_data(values, &self.device());
        let columns = |number| column.clone().expand([images, channels, rows, number]);
        let mut parts = Vec::with_capacity(3);
        if before > 0 {
            parts.push(columns(before));
        }
        let after = (after > 0).then(|| columns(after));
        parts.push(self);
        parts.extend(after);
        Self::cat(parts, 3)
    }

    fn max_pool(&self, pool: Pool) -> Self {
        let options = MaxPoolOptions::new(pool.kernel)
            .with_stride(pool.stride)
            .with_padding([pool.padding; 2]);
        if pool.after == 0 {
            return max_pool2d(self.clone(), options);
        }
        // Below all values, so that the padding never wins.
        max_pool2d(
            self.clone().pad((0, pool.after, 0, pool.after), f32::MIN),
            options,
        )
    }

    fn mean(&self, columns: usize) -> Self {
        let [images, channels, rows, _] = self.dims();
        self.clone()
            .slice([0..images, 0..channels, 0..rows, 0..columns])
            .mean_dim(3)
            .mean_dim(2)
    }

    fn windows(&self, before: usize, count: usize) -> Self {
        let [images, channels, rows, columns] = self.dims();
        let zeros = vec![0.0; channels];
        let padded = self.clone().pad_columns(before, count - 1, &zeros);
        let part = |number: usize| {
            let columns = number..number + columns;
            padded.clone().slice([0..images, 0..channels, 0..rows, columns])
        };
        Self::cat((0..count).map(part).collect(), 1)
    }

    fn masked(self, kept: &[bool]) -> Self {
        let factors: Vec<f32> = kept.iter().map(|kept| f32::from(u8::from(*kept))).collect();
        let factors = TensorData::new(factors, [1, 1, 1, kept.len()]);
        let device = self.device();
        self * Self::from_data(factors, &device)
    }

    fn peaks(self) -> Result<Vec<f32>, InferenceError> {
        read(self.max_dim(3))
    }

    fn scale(self, factors: &Self) -> Self {
        self * factors.clone()
    }

    fn spread(&self, rows: usize, columns: usize) -> Self {
        let [images, channels, _, _] = self.dims();
        self.clone().expand([images, channels, rows, columns])
    }

    fn channels(&self, range: Range<usize>) -> Self {
        let [images, _, rows, columns] = self.dims();
        self.clone().slice([0..images, range, 0..rows, 0..columns])
    }

    fn stack(maps: &[Self]) -> Self {
        Self::cat(maps.to_vec(), 1)
    }

    fn enlarge(&self, rows: usize, columns: usize) -> Self {
        let options = InterpolateOptions::new(InterpolateMode::Bilinear)
            .with_output_size([rows, columns])
            .with_align_corners(true);
        interpolate(self.clone(), options)
    }

    fn doubled(&self) -> Self {
        let [_, _, rows, columns] = self.dims();
        let options =
            InterpolateOptions::new(InterpolateMode::Nearest).with_output_size([2 * rows, 2 * columns]);
        interpolate(self.clone(), options)
    }

    fn cropped(self, rows: usize, columns: usize) -> Self {
        let [images, channels, _, _] = self.dims();
        self.slice([0..images, 0..channels, 0..rows, 0..columns])
    }

    fn rows_as_channels(self) -> Self {
        let [images, channels, rows, columns] = self.dims();
        self.reshape([images, channels * rows, 1, columns])
    }

    fn planes(&self) -> Result<Cow<'_, [f32]>, InferenceError> {
        read(self.clone()).map(Cow::Owned)
    }

    fn into_columns(self) -> Result<Vec<f32>, InferenceError> {
        let sequence: Tensor<3> = self.squeeze_dim(2);
        read(sequence.swap_dims(1, 2))
    }
}
