//! Convolutions built from stored weights. Batch norm is a scale and a shift per output channel, so it is folded into the
//! convolution before it once, at load time.

use burn::module::Param;
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d;
use burn::tensor::{Device, Tensor, TensorData};

use super::WeightsError;
use super::tensors::WeightTensors;
use crate::device::Precision;
use crate::row_convolution::RowConvolution;

/// PyTorch's default, which all networks were trained with.
pub(crate) const BATCH_NORM_EPSILON: f64 = 1e-5;

/// Where the shift of a convolution comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shift<'a> {
    /// The convolution's own `bias`.
    Bias,
    /// The batch norm of this name that follows a convolution without bias.
    BatchNorm(&'a str),
}

/// Hyperparameters of a two-dimensional convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conv2dShape {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Rows and columns, as in the fields below.
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) padding: [usize; 2],
    pub(crate) groups: usize,
    /// Whether the file holds the weight of a one-dimensional convolution, without the kernel's one row.
    pub(crate) stored_flat: bool,
}

impl Conv2dShape {
    /// A square kernel; the size changes with the stride alone.
    pub(crate) fn square(inputs: usize, outputs: usize, kernel: usize, stride: [usize; 2]) -> Self {
        Self {
            inputs,
            outputs,
            kernel: [kernel; 2],
            stride,
            dilation: [1, 1],
            padding: [kernel / 2; 2],
            groups: 1,
            stored_flat: false,
        }
    }

    pub(crate) fn pointwise(inputs: usize, outputs: usize) -> Self {
        Self::square(inputs, outputs, 1, [1, 1])
    }

    /// Kernel and stride alike: the input is cut into patches.
    pub(crate) fn patch(inputs: usize, outputs: usize, size: usize) -> Self {
        Self {
            padding: [0, 0],
            ..Self::square(inputs, outputs, size, [size, size])
        }
    }

    /// Along the columns only; keeps their number.
    pub(crate) fn sequence(inputs: usize, outputs: usize, kernel: usize, dilation: usize) -> Self {
        Self {
            kernel: [1, kernel],
            dilation: [1, dilation],
            padding: [0, dilation * (kernel / 2)],
            stored_flat: true,
            ..Self::pointwise(inputs, outputs)
        }
    }

    /// The same with its taps apart, in rows and columns; keeps the size.
    pub(crate) fn dilated(self, dilation: usize) -> Self {
        Self {
            dilation: [dilation; 2],
            padding: self.kernel.map(|kernel| dilation * (kernel / 2)),
            ..self
        }
    }

    /// Each channel by itself; keeps the size.
    pub(crate) fn depthwise(channels: usize, kernel: usize) -> Self {
        Self {
            groups: channels,
            ..Self::square(channels, channels, kernel, [1, 1])
        }
    }
}

/// Builds layers on one device out of one weights file.
#[derive(Debug)]
pub(crate) struct LayerLoader<'a> {
    pub(crate) tensors: WeightTensors<'a>,
    device: &'a Device,
    precision: Precision,
}

impl<'a> LayerLoader<'a> {
    pub(crate) fn new(tensors: WeightTensors<'a>, device: &'a Device) -> Self {
        Self {
            tensors,
            device,
            precision: Precision::Full,
        }
    }

    /// For networks that were tried with it.
    pub(crate) fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    pub(crate) fn device(&self) -> &'a Device {
        self.device
    }

    pub(crate) fn conv2d(
        &mut self,
        name: &str,
        shift: Shift<'_>,
        shape: Conv2dShape,
    ) -> Result<Conv2d, WeightsError> {
        let (weight, bias) = self.folded(name, shift, shape)?;
        Ok(self.layer(weight, bias, shape))
    }

    fn layer(&self, weight: Vec<f32>, bias: Vec<f32>, shape: Conv2dShape) -> Conv2d {
        let [rows, columns] = shape.kernel;
        let [down, across] = shape.padding;
        let dimensions = [shape.outputs, shape.inputs / shape.groups, rows, columns];
        Conv2d {
            weight: self.parameter(weight, dimensions),
            bias: Some(self.parameter(bias, [shape.outputs])),
            stride: shape.stride,
            kernel_size: shape.kernel,
            dilation: shape.dilation,
            groups: shape.groups,
            padding: PaddingConfig2d::Explicit(down, across, down, across),
        }
    }

    /// The same convolution for a processor. The shape has one group and a padding of half its kernel.
    pub(crate) fn row_convolution(
        &mut self,
        name: &str,
        shift: Shift<'_>,
        shape: Conv2dShape,
    ) -> Result<RowConvolution, WeightsError> {
        let (weight, bias) = self.folded(name, shift, shape)?;
        Ok(RowConvolution::new(&weight, bias, shape, self.precision))
    }

    /// Weight and bias of the convolution `name` with the norm folded in; `[outputs][inputs][rows][columns]`.
    pub(crate) fn folded(
        &mut self,
        name: &str,
        shift: Shift<'_>,
        shape: Conv2dShape,
    ) -> Result<(Vec<f32>, Vec<f32>), WeightsError> {
        let outputs = shape.outputs;
        let inputs = shape.inputs / shape.groups;
        let [rows, columns] = shape.kernel;
        let key = format!("{name}.weight");
        let mut weight = if shape.stored_flat {
            self.tensors.take(&key, [outputs, inputs, columns])?
        } else {
            self.tensors.take(&key, [outputs, inputs, rows, columns])?
        };
        let norm = match shift {
            Shift::Bias => return Ok((weight, self.tensors.take(&format!("{name}.bias"), [outputs])?)),
            Shift::BatchNorm(norm) => norm,
        };
        let affine = self.norm(norm, outputs)?;
        scale_outputs(&mut weight, &affine);
        Ok((weight, affine.iter().map(|of| of.shift as f32).collect()))
    }

    /// The convolution or linear layer `name` of another program, which may have a bias, a norm, or both; the norm is folded
    /// in.
    pub(crate) fn imported(
        &mut self,
        name: &str,
        norm: Option<&str>,
        shape: Conv2dShape,
    ) -> Result<ImportedConvolution, WeightsError> {
        let outputs = shape.outputs;
        let mut weight = self.kernel(&format!("{name}.weight"), shape)?;
        let key = format!("{name}.bias");
        let mut bias = if self.tensors.contains(&key) {
            self.tensors.take(&key, [outputs])?
        } else {
            vec![0.0; outputs]
        };
        let mut of_zero = vec![0.0; outputs];
        if let Some(norm) = norm.filter(|norm| self.tensors.contains(&format!("{norm}.running_var"))) {
            let affine = self.norm(norm, outputs)?;
            scale_outputs(&mut weight, &affine);
            for ((bias, zero), of) in bias.iter_mut().zip(&mut of_zero).zip(&affine) {
                *bias = (f64::from(*bias) * of.factor + of.shift) as f32;
                *zero = of.shift as f32;
            }
        }
        Ok(ImportedConvolution {
            weight,
            bias,
            of_zero,
        })
    }

    /// A kernel, which lacks the dimensions that its kind of layer does not have.
    fn kernel(&mut self, key: &str, shape: Conv2dShape) -> Result<Vec<f32>, WeightsError> {
        let (outputs, inputs) = (shape.outputs, shape.inputs / shape.groups);
        match (self.tensors.rank(key), shape.kernel) {
            (Some(2), [1, 1]) => self.tensors.take(key, [outputs, inputs]),
            (Some(3), [1, columns]) => self.tensors.take(key, [outputs, inputs, columns]),
            (_, [rows, columns]) => self.tensors.take(key, [outputs, inputs, rows, columns]),
        }
    }

    /// What the norm `name` does to each of its channels.
    fn norm(&mut self, name: &str, channels: usize) -> Result<Vec<Affine>, WeightsError> {
        let scale = self.tensors.take(&format!("{name}.weight"), [channels])?;
        let offset = self.tensors.take(&format!("{name}.bias"), [channels])?;
        let mean = self.tensors.take(&format!("{name}.running_mean"), [channels])?;
        let variance = self.tensors.take(&format!("{name}.running_var"), [channels])?;
        Ok((0..channels)
            .map(|channel| {
                let deviation = (f64::from(variance[channel]) + BATCH_NORM_EPSILON).sqrt();
                let factor = f64::from(scale[channel]) / deviation;
                Affine {
                    factor,
                    shift: f64::from(offset[channel]) - f64::from(mean[channel]) * factor,
                }
            })
            .collect())
    }

    fn parameter<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), self.device))
    }
}

/// A norm with fixed statistics, for one channel.
#[derive(Debug, Clone, Copy)]
struct Affine {
    factor: f64,
    shift: f64,
}

/// A convolution of another program with its norm folded in.
#[derive(Debug, Clone)]
pub(crate) struct ImportedConvolution {
    /// `[outputs][inputs][rows][columns]`.
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    /// What the norm makes of zero, for networks that pad between the convolution and the norm; zero without a norm.
    pub(crate) of_zero: Vec<f32>,
}

fn scale_outputs(weight: &mut [f32], affine: &[Affine]) {
    let per_output = (weight.len() / affine.len().max(1)).max(1);
    for (kernel, of) in weight.chunks_exact_mut(per_output).zip(affine) {
        for value in kernel {
            *value = (f64::from(*value) * of.factor) as f32;
        }
    }
}
