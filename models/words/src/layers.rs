//! Sources of layers: a network asks for its layers one after the other, and gets them from a bundle, or from an ONNX file, or
//! only names them, so that the file's layers can be matched with them.

use parkhang_kernels::feature_map::LayerNorm;
use parkhang_kernels::{Conv2dShape, ConvolutionWeights};
use parkhang_models::checkpoint::layers::LayerLoader;
use parkhang_models::checkpoint::{HostTensor, NamedConstant, Slot, StateDict, WeightsError};

/// What a network takes its layers from, in the order in which it uses them.
pub(crate) trait LayerSource {
    /// The convolution `name`.
    fn convolution(&mut self, name: &str, shape: Conv2dShape) -> Result<ConvolutionWeights, WeightsError>;

    /// The convolution `name` with a batch norm behind it, folded in.
    fn normed(&mut self, name: &str, shape: Conv2dShape) -> Result<ConvolutionWeights, WeightsError>;

    /// The linear layer `name`, which is a convolution of single pixels.
    fn linear(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<ConvolutionWeights, WeightsError>;

    /// The transposed convolution `name`, whose kernel and stride are 2: `[inputs][outputs][2][2]`.
    fn transposed(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<ConvolutionWeights, WeightsError>;

    /// The norm over channels `name`.
    fn layer_norm(&mut self, name: &str, channels: usize, epsilon: f32) -> Result<LayerNorm, WeightsError>;

    /// The matrix `name`, which the published file has under the name `published`, of a part of the network whose layers cannot be
    /// told from the graph.
    fn constant(&mut self, name: &str, published: &str, shape: [usize; 2]) -> Result<Vec<f32>, WeightsError>;

    /// The vector `name`, as [`constant`](Self::constant).
    fn vector(&mut self, name: &str, published: &str, length: usize) -> Result<Vec<f32>, WeightsError>;
}

/// Name of the batch norm behind a convolution.
fn norm_of(name: &str) -> String {
    format!("{name}.norm")
}

impl LayerSource for LayerLoader<'_> {
    fn convolution(&mut self, name: &str, shape: Conv2dShape) -> Result<ConvolutionWeights, WeightsError> {
        self.imported(name, None, shape)
    }

    fn normed(&mut self, name: &str, shape: Conv2dShape) -> Result<ConvolutionWeights, WeightsError> {
        self.imported(name, Some(&norm_of(name)), shape)
    }

    fn linear(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<ConvolutionWeights, WeightsError> {
        self.imported(name, None, Conv2dShape::pointwise(inputs, outputs))
    }

    fn transposed(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<ConvolutionWeights, WeightsError> {
        Ok(ConvolutionWeights {
            weight: self
                .tensors
                .take(&format!("{name}.weight"), [inputs, outputs, 2, 2])?,
            bias: self.tensors.take(&format!("{name}.bias"), [outputs])?,
            of_zero: vec![0.0; outputs],
        })
    }

    fn layer_norm(&mut self, name: &str, channels: usize, epsilon: f32) -> Result<LayerNorm, WeightsError> {
        Ok(LayerNorm {
            scale: self.tensors.take(&format!("{name}.weight"), [channels])?,
            shift: self.tensors.take(&format!("{name}.bias"), [channels])?,
            epsilon,
        })
    }

    fn constant(&mut self, name: &str, _: &str, shape: [usize; 2]) -> Result<Vec<f32>, WeightsError> {
        self.tensors.take(name, shape)
    }

    fn vector(&mut self, name: &str, _: &str, length: usize) -> Result<Vec<f32>, WeightsError> {
        self.tensors.take(name, [length])
    }
}

/// A source of zeros that notes what was asked for.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) slots: Vec<Slot>,
    pub(crate) constants: Vec<NamedConstant>,
}

impl Recorder {
    fn note(&mut self, name: &str, published: &str) {
        self.constants.push(NamedConstant {
            name: name.to_owned(),
            published: published.to_owned(),
        });
    }

    fn zeros(inputs: usize, outputs: usize, taps: usize) -> ConvolutionWeights {
        ConvolutionWeights {
            weight: vec![0.0; inputs * outputs * taps],
            bias: vec![0.0; outputs],
            of_zero: vec![0.0; outputs],
        }
    }
}

impl LayerSource for Recorder {
    fn convolution(&mut self, name: &str, shape: Conv2dShape) -> Result<ConvolutionWeights, WeightsError> {
        self.slots.push(Slot::convolution(name));
        let taps = shape.kernel.iter().product();
        Ok(Self::zeros(shape.inputs / shape.groups, shape.outputs, taps))
    }

    fn normed(&mut self, name: &str, shape: Conv2dShape) -> Result<ConvolutionWeights, WeightsError> {
        let weights = self.convolution(name, shape);
        self.slots.pop();
        self.slots.push(Slot::normed(name, norm_of(name)));
        weights
    }

    fn linear(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<ConvolutionWeights, WeightsError> {
        self.slots.push(Slot::linear(name));
        Ok(Self::zeros(inputs, outputs, 1))
    }

    fn transposed(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<ConvolutionWeights, WeightsError> {
        self.slots.push(Slot::transposed(name));
        Ok(Self::zeros(inputs, outputs, 4))
    }

    fn layer_norm(&mut self, name: &str, channels: usize, epsilon: f32) -> Result<LayerNorm, WeightsError> {
        self.slots.push(Slot::layer_norm(name));
        Ok(LayerNorm {
            scale: vec![0.0; channels],
            shift: vec![0.0; channels],
            epsilon,
        })
    }

    fn constant(&mut self, name: &str, published: &str, shape: [usize; 2]) -> Result<Vec<f32>, WeightsError> {
        self.note(name, published);
        Ok(vec![0.0; shape.iter().product()])
    }

    fn vector(&mut self, name: &str, published: &str, length: usize) -> Result<Vec<f32>, WeightsError> {
        self.note(name, published);
        Ok(vec![0.0; length])
    }
}

/// Another source, whose layers are kept as a bundle stores them: every batch norm folded in.
#[derive(Debug)]
pub(crate) struct Folding<S> {
    pub(crate) source: S,
    pub(crate) tensors: StateDict,
}

impl<S: LayerSource> Folding<S> {
    fn keep(&mut self, name: &str, shape: &[usize], weights: &ConvolutionWeights) {
        self.insert(format!("{name}.weight"), shape, &weights.weight);
        self.insert(format!("{name}.bias"), &[weights.bias.len()], &weights.bias);
    }

    fn insert(&mut self, key: String, shape: &[usize], values: &[f32]) {
        let tensor = HostTensor {
            shape: shape.to_vec(),
            values: values.to_vec(),
        };
        self.tensors.insert(key, tensor);
    }

    fn keep_convolution(&mut self, name: &str, shape: Conv2dShape, weights: &ConvolutionWeights) {
        let [rows, columns] = shape.kernel;
        self.keep(
            name,
            &[shape.outputs, shape.inputs / shape.groups, rows, columns],
            weights,
        );
    }
}

impl<S: LayerSource> LayerSource for Folding<S> {
    fn convolution(&mut self, name: &str, shape: Conv2dShape) -> Result<ConvolutionWeights, WeightsError> {
        let weights = self.source.convolution(name, shape)?;
        self.keep_convolution(name, shape, &weights);
        Ok(weights)
    }

    fn normed(&mut self, name: &str, shape: Conv2dShape) -> Result<ConvolutionWeights, WeightsError> {
        let weights = self.source.normed(name, shape)?;
        self.keep_convolution(name, shape, &weights);
        Ok(weights)
    }

    fn linear(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<ConvolutionWeights, WeightsError> {
        let weights = self.source.linear(name, inputs, outputs)?;
        self.keep(name, &[outputs, inputs], &weights);
        Ok(weights)
    }

    fn transposed(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<ConvolutionWeights, WeightsError> {
        let weights = self.source.transposed(name, inputs, outputs)?;
        self.keep(name, &[inputs, outputs, 2, 2], &weights);
        Ok(weights)
    }

    fn layer_norm(&mut self, name: &str, channels: usize, epsilon: f32) -> Result<LayerNorm, WeightsError> {
        let norm = self.source.layer_norm(name, channels, epsilon)?;
        self.insert(format!("{name}.weight"), &[channels], &norm.scale);
        self.insert(format!("{name}.bias"), &[channels], &norm.shift);
        Ok(norm)
    }

    fn constant(&mut self, name: &str, published: &str, shape: [usize; 2]) -> Result<Vec<f32>, WeightsError> {
        let values = self.source.constant(name, published, shape)?;
        self.insert(name.to_owned(), &shape, &values);
        Ok(values)
    }

    fn vector(&mut self, name: &str, published: &str, length: usize) -> Result<Vec<f32>, WeightsError> {
        let values = self.source.vector(name, published, length)?;
        self.insert(name.to_owned(), &[length], &values);
        Ok(values)
    }
}
