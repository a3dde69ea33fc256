//! Layers built from stored weights. Batch norm is a scale and a shift per output channel, so it is folded into the
//! convolution before it once, at load time.

use parkhang_kernels::device::Device;
use parkhang_kernels::feature_map::{DirectionWeights, FeatureMap, LstmWeights};
use parkhang_kernels::{Conv2dShape, ConvolutionWeights, Precision};

use super::WeightsError;
use super::tensors::WeightTensors;

/// PyTorch's default, which all networks were trained with.
pub(crate) const BATCH_NORM_EPSILON: f64 = 1e-5;

/// Source of the shift of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shift<'a> {
    /// The convolution's own `bias`.
    Bias,
    /// The batch norm of this name that follows a convolution without bias.
    BatchNorm(&'a str),
}

/// Loader that builds layers on one device out of one weights file.
#[derive(Debug)]
pub struct LayerLoader<'a> {
    pub tensors: WeightTensors<'a>,
    device: &'a Device,
    precision: Precision,
}

impl<'a> LayerLoader<'a> {
    /// A loader of full precision.
    pub fn new(tensors: WeightTensors<'a>, device: &'a Device) -> Self {
        Self {
            tensors,
            device,
            precision: Precision::Full,
        }
    }

    /// This loader with another precision, for networks that were tried with it.
    pub(crate) fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    pub(crate) fn device(&self) -> &'a Device {
        self.device
    }

    /// The convolution or linear layer `name` of another program, as maps of the kind `M` compute it; `norm` as in
    /// [`imported`](Self::imported).
    pub(crate) fn layer<M: FeatureMap>(
        &mut self,
        name: &str,
        norm: Option<&str>,
        shape: Conv2dShape,
    ) -> Result<M::Convolution, WeightsError> {
        let weights = self.imported(name, norm, shape)?;
        Ok(M::convolution(weights, shape, self.precision, self.device))
    }

    /// The convolution `name` of a network of this project, whose description says where its shift comes from.
    pub(crate) fn shifted_layer<M: FeatureMap>(
        &mut self,
        name: &str,
        shift: Shift<'_>,
        shape: Conv2dShape,
    ) -> Result<M::Convolution, WeightsError> {
        let weights = self.folded(name, shift, shape)?;
        Ok(M::convolution(weights, shape, self.precision, self.device))
    }

    /// The convolution `name` with the norm folded in.
    fn folded(
        &mut self,
        name: &str,
        shift: Shift<'_>,
        shape: Conv2dShape,
    ) -> Result<ConvolutionWeights, WeightsError> {
        let outputs = shape.outputs;
        let inputs = shape.inputs / shape.groups;
        let [rows, columns] = shape.kernel;
        let key = format!("{name}.weight");
        let mut weight = if shape.stored_flat {
            self.tensors.take(&key, [outputs, inputs, columns])?
        } else {
            self.tensors.take(&key, [outputs, inputs, rows, columns])?
        };
        let bias = match shift {
            Shift::Bias => self.tensors.take(&format!("{name}.bias"), [outputs])?,
            Shift::BatchNorm(norm) => {
                let affine = self.norm(norm, outputs)?;
                scale_outputs(&mut weight, &affine);
                affine.iter().map(|of| of.shift as f32).collect()
            }
        };
        Ok(ConvolutionWeights {
            weight,
            bias,
            of_zero: vec![0.0; outputs],
        })
    }

    /// The convolution or linear layer `name` of another program, which may have a bias, a norm, or both; the norm is folded
    /// in.
    ///
    /// # Errors
    /// [`WeightsError`] for a tensor that is not there or of another shape.
    pub fn imported(
        &mut self,
        name: &str,
        norm: Option<&str>,
        shape: Conv2dShape,
    ) -> Result<ConvolutionWeights, WeightsError> {
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
                // The norm of zero has no part of the bias: what is padded has not been through the
                // convolution.
                *zero = of.shift as f32;
            }
        }
        Ok(ConvolutionWeights {
            weight,
            bias,
            of_zero,
        })
    }

    /// A kernel, which lacks the dimensions that its kind of layer does not have.
    fn kernel(&mut self, key: &str, shape: Conv2dShape) -> Result<Vec<f32>, WeightsError> {
        let (outputs, inputs) = (shape.outputs, shape.inputs / shape.groups);
        match (self.tensors.rank(key), shape.kernel) {
            // Linear layers and convolutions of single pixels are the same here; files keep the former as
            // matrices.
            (Some(2), [1, 1]) => self.tensors.take(key, [outputs, inputs]),
            (Some(3), [1, columns]) => self.tensors.take(key, [outputs, inputs, columns]),
            (_, [rows, columns]) => self.tensors.take(key, [outputs, inputs, rows, columns]),
        }
    }

    /// Factor and shift of the norm `name` for each of its channels.
    fn norm(&mut self, name: &str, channels: usize) -> Result<Vec<Affine>, WeightsError> {
        let scale = self.tensors.take(&format!("{name}.weight"), [channels])?;
        let offset = self.tensors.take(&format!("{name}.bias"), [channels])?;
        let mean = self.tensors.take(&format!("{name}.running_mean"), [channels])?;
        let variance = self.tensors.take(&format!("{name}.running_var"), [channels])?;
        Ok((0..channels)
            .map(|channel| {
                // In 64 bits, so that folding adds one rounding to each weight and no more.
                let deviation = (f64::from(variance[channel]) + BATCH_NORM_EPSILON).sqrt();
                let factor = f64::from(scale[channel]) / deviation;
                Affine {
                    factor,
                    shift: f64::from(offset[channel]) - f64::from(mean[channel]) * factor,
                }
            })
            .collect())
    }

    /// The bidirectional LSTM layer `name` of another program, for sequences of `inputs` channels.
    pub(crate) fn lstm(&mut self, name: &str, inputs: usize) -> Result<LstmWeights, WeightsError> {
        let [_, hidden] = self.tensors.shape(&format!("{name}.weight_hh_l0"))?;
        let gates = 4 * hidden;
        let mut direction = |end: &str| {
            let mut bias = self.tensors.take(&format!("{name}.bias_ih_l0{end}"), [gates])?;
            let of_state = self.tensors.take(&format!("{name}.bias_hh_l0{end}"), [gates])?;
            for (bias, of_state) in bias.iter_mut().zip(of_state) {
                // PyTorch adds both to the same sum before the gates.
                *bias += of_state;
            }
            Ok::<_, WeightsError>(DirectionWeights {
                input: self
                    .tensors
                    .take(&format!("{name}.weight_ih_l0{end}"), [gates, inputs])?,
                recurrent: self
                    .tensors
                    .take(&format!("{name}.weight_hh_l0{end}"), [gates, hidden])?,
                bias,
            })
        };
        let directions = [direction("")?, direction("_reverse")?];
        Ok(LstmWeights {
            inputs,
            hidden,
            directions,
        })
    }
}

/// A norm with fixed statistics, for one channel.
#[derive(Debug, Clone, Copy)]
struct Affine {
    factor: f64,
    shift: f64,
}

fn scale_outputs(weight: &mut [f32], affine: &[Affine]) {
    // The output is the first dimension of every kernel, so each owns one run of the values.
    let per_output = (weight.len() / affine.len().max(1)).max(1);
    for (kernel, of) in weight.chunks_exact_mut(per_output).zip(affine) {
        for value in kernel {
            *value = (f64::from(*value) * of.factor) as f32;
        }
    }
}
