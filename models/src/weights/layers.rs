//! Convolutions built from stored weights. Batch norm is a scale and a shift per output channel, so it is folded into the
//! convolution before it once, at load time.

use burn::module::Param;
use burn::nn::conv::{Conv1d, Conv2d};
use burn::nn::{PaddingConfig1d, PaddingConfig2d};
use burn::tensor::{Device, Tensor, TensorData};

use super::WeightsError;
use super::tensors::WeightTensors;

/// PyTorch's default, which both networks were trained with.
const BATCH_NORM_EPSILON: f64 = 1e-5;

/// Where the shift of a convolution comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shift<'a> {
    /// The convolution's own `bias`.
    Bias,
    /// The batch norm of this name that follows a convolution without bias.
    BatchNorm(&'a str),
}

/// Hyperparameters of a two-dimensional convolution with a square kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conv2dShape {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) kernel: usize,
    /// Vertical and horizontal stride.
    pub(crate) stride: [usize; 2],
    pub(crate) padding: usize,
    pub(crate) groups: usize,
}

impl Conv2dShape {
    pub(crate) fn pointwise(inputs: usize, outputs: usize) -> Self {
        Self {
            inputs,
            outputs,
            kernel: 1,
            stride: [1, 1],
            padding: 0,
            groups: 1,
        }
    }

    /// Kernel and stride alike: the input is cut into patches.
    pub(crate) fn patch(inputs: usize, outputs: usize, size: usize) -> Self {
        Self {
            inputs,
            outputs,
            kernel: size,
            stride: [size, size],
            padding: 0,
            groups: 1,
        }
    }

    /// Each channel by itself; keeps the size.
    pub(crate) fn depthwise(channels: usize, kernel: usize) -> Self {
        Self {
            inputs: channels,
            outputs: channels,
            kernel,
            stride: [1, 1],
            padding: kernel / 2,
            groups: channels,
        }
    }
}

/// Builds layers on one device out of one weights file.
#[derive(Debug)]
pub(crate) struct LayerLoader<'a> {
    pub(crate) tensors: WeightTensors<'a>,
    device: &'a Device,
}

impl<'a> LayerLoader<'a> {
    pub(crate) fn new(tensors: WeightTensors<'a>, device: &'a Device) -> Self {
        Self { tensors, device }
    }

    pub(crate) fn conv2d(
        &mut self,
        name: &str,
        shift: Shift<'_>,
        shape: Conv2dShape,
    ) -> Result<Conv2d, WeightsError> {
        let Conv2dShape {
            inputs,
            outputs,
            kernel,
            stride,
            padding,
            groups,
        } = shape;
        let dimensions = [outputs, inputs / groups, kernel, kernel];
        let (weight, bias) = self.folded(name, shift, dimensions)?;
        Ok(Conv2d {
            weight: self.parameter(weight, dimensions),
            bias: Some(self.parameter(bias, [outputs])),
            stride,
            kernel_size: [kernel, kernel],
            dilation: [1, 1],
            groups,
            padding: PaddingConfig2d::Explicit(padding, padding, padding, padding),
        })
    }

    /// A convolution along one axis that keeps the length; `kernel` is odd.
    pub(crate) fn conv1d(
        &mut self,
        name: &str,
        shift: Shift<'_>,
        [inputs, outputs, kernel]: [usize; 3],
        dilation: usize,
    ) -> Result<Conv1d, WeightsError> {
        let dimensions = [outputs, inputs, kernel];
        let (weight, bias) = self.folded(name, shift, dimensions)?;
        let padding = dilation * (kernel / 2);
        Ok(Conv1d {
            weight: self.parameter(weight, dimensions),
            bias: Some(self.parameter(bias, [outputs])),
            stride: 1,
            kernel_size: kernel,
            dilation,
            groups: 1,
            padding: PaddingConfig1d::Explicit(padding, padding),
        })
    }

    /// Weight and bias of the convolution `name` (first dimension: output channels).
    fn folded<const D: usize>(
        &mut self,
        name: &str,
        shift: Shift<'_>,
        dimensions: [usize; D],
    ) -> Result<(Vec<f32>, Vec<f32>), WeightsError> {
        let outputs = dimensions[0];
        let mut weight = self.tensors.take(&format!("{name}.weight"), dimensions)?;
        let norm = match shift {
            Shift::Bias => return Ok((weight, self.tensors.take(&format!("{name}.bias"), [outputs])?)),
            Shift::BatchNorm(norm) => norm,
        };
        let scale = self.tensors.take(&format!("{norm}.weight"), [outputs])?;
        let offset = self.tensors.take(&format!("{norm}.bias"), [outputs])?;
        let mean = self.tensors.take(&format!("{norm}.running_mean"), [outputs])?;
        let variance = self.tensors.take(&format!("{norm}.running_var"), [outputs])?;
        let per_channel = weight.len() / outputs.max(1);
        let mut bias = Vec::with_capacity(outputs);
        for (channel, kernel) in weight.chunks_exact_mut(per_channel.max(1)).enumerate() {
            let factor =
                f64::from(scale[channel]) / (f64::from(variance[channel]) + BATCH_NORM_EPSILON).sqrt();
            for value in kernel {
                *value = (f64::from(*value) * factor) as f32;
            }
            bias.push((f64::from(offset[channel]) - f64::from(mean[channel]) * factor) as f32);
        }
        Ok((weight, bias))
    }

    fn parameter<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), self.device))
    }
}
