//! The recognition network: a fully convolutional reader with CTC output. A stem of 2-D convolutions brings the line
//! image down to four rows, which become channels of a sequence; residual 1-D convolutions read along it; one linear head
//! per charset scores each frame.

use std::num::NonZeroU16;
use std::sync::Arc;

use burn::nn::conv::Conv2d;
use burn::tensor::activation::relu;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::device::{ComputeDevice, DeviceKind, read};
use crate::inference::{InferenceError, LineBatch, Logits, Recognizer};
use crate::row_convolution::{RowConvolution, RowMap};
use crate::weights::WeightsError;
use crate::weights::layers::{Conv2dShape, LayerLoader, Shift};
use crate::weights::tensors::WeightTensors;

/// Name of the architecture in `model.json`.
pub const ARCHITECTURE: &str = "ctc-residual-conv";
/// Pixels of line width per frame.
pub const HORIZONTAL_STRIDE: usize = 4;
/// The stem divides the height by this.
const VERTICAL_STRIDE: usize = 16;
/// Lines were padded to this multiple in training.
const WIDTH_MULTIPLE: usize = 8;
/// Kernel of the residual convolutions.
const BODY_KERNEL: usize = 5;
/// The first residual convolutions see neighbouring frames, the later ones every second frame.
const UNDILATED_BLOCKS: usize = 4;

/// Dimensions of the network `ctc-residual-conv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkDimensions {
    /// Height of a line image in pixels, a multiple of 16.
    pub height: NonZeroU16,
    /// Output channels of the five convolutions of the stem.
    pub stem: [NonZeroU16; 5],
    /// Channels of the sequence.
    pub channels: NonZeroU16,
    /// Number of residual convolutions.
    pub blocks: u16,
}

/// One output layer of the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputLayer<'a> {
    /// Name of the layer in the weights file.
    pub(crate) key: &'a str,
    /// Number of classes with the blank.
    pub(crate) classes: usize,
}

/// The convolutions of the network, with batch norm folded in, and one of its heads.
#[derive(Debug)]
struct Layers<C> {
    stem: Vec<C>,
    projection: C,
    body: Vec<C>,
    head: C,
}

impl<C> Layers<C> {
    /// Makes the trunk and the layer `head` with `layer`; the layers of other heads are left out.
    fn load(
        dimensions: &NetworkDimensions,
        head: OutputLayer<'_>,
        mut layer: impl FnMut(&str, Shift<'_>, Conv2dShape) -> Result<C, WeightsError>,
    ) -> Result<Self, WeightsError> {
        const STRIDES: [[usize; 2]; 5] = [[2, 2], [2, 1], [2, 2], [1, 1], [2, 1]];
        let mut stem = Vec::with_capacity(STRIDES.len());
        let mut inputs = 1;
        for (number, (stride, outputs)) in STRIDES.into_iter().zip(dimensions.stem).enumerate() {
            let outputs = usize::from(outputs.get());
            stem.push(layer(
                &format!("stem.{number}.0"),
                Shift::BatchNorm(&format!("stem.{number}.1")),
                Conv2dShape::square(inputs, outputs, 3, stride),
            )?);
            inputs = outputs;
        }
        let channels = usize::from(dimensions.channels.get());
        let rows = usize::from(dimensions.height.get()) / VERTICAL_STRIDE;
        let projection = layer(
            "proj.0",
            Shift::BatchNorm("proj.1"),
            Conv2dShape::sequence(inputs * rows, channels, 1, 1),
        )?;
        let body = (0..usize::from(dimensions.blocks))
            .map(|block| {
                let dilation = if block < UNDILATED_BLOCKS { 1 } else { 2 };
                layer(
                    &format!("body.{block}.f.0"),
                    Shift::BatchNorm(&format!("body.{block}.f.1")),
                    Conv2dShape::sequence(channels, channels, BODY_KERNEL, dilation),
                )
            })
            .collect::<Result<_, _>>()?;
        let shape = Conv2dShape::sequence(channels, head.classes, 1, 1);
        let head = layer(head.key, Shift::Bias, shape)?;
        Ok(Self {
            stem,
            projection,
            body,
            head,
        })
    }
}

impl Layers<Conv2d> {
    /// `[lines, 1, height, width]` to `[lines, width / 4, classes]`.
    fn forward(&self, lines: Tensor<4>) -> Tensor<3> {
        let map = self
            .stem
            .iter()
            .fold(lines, |map, layer| relu(layer.forward(map)));
        let [count, channels, rows, frames] = map.dims();
        let rows_as_channels = map.reshape([count, channels * rows, 1, frames]);
        let sequence = relu(self.projection.forward(rows_as_channels));
        let sequence = self.body.iter().fold(sequence, |sequence, layer| {
            sequence.clone() + relu(layer.forward(sequence))
        });
        let scores: Tensor<3> = self.head.forward(sequence).squeeze_dim(2);
        scores.swap_dims(1, 2)
    }
}

impl Layers<RowConvolution> {
    /// Scores of one line, `[width / 4][classes]`.
    fn forward(&self, line: RowMap) -> Vec<f32> {
        let map = self
            .stem
            .iter()
            .fold(line, |map, layer| layer.forward(&map, Activation::Relu));
        let sequence = self.projection.forward(&map.rows_as_channels(), Activation::Relu);
        let sequence = self.body.iter().fold(sequence, |sequence, layer| {
            layer.forward(&sequence, Activation::Relu).add(&sequence)
        });
        self.head.forward(&sequence, Activation::None).into_columns()
    }
}

/// The network in the form that suits its device.
#[derive(Debug)]
enum Network {
    Processor(Box<Layers<RowConvolution>>),
    Gpu(Box<Layers<Conv2d>>),
}

/// A [`Recognizer`] that reads with one head of the network.
///
/// On the processor every line is computed at its own width, so a line's scores do not depend on the lines it shares a
/// batch with. A GPU computes the batch as it is; there the last frames of a line can differ slightly with the padding.
#[derive(Debug)]
pub struct CtcRecognizer {
    network: Network,
    height: usize,
    classes: usize,
    /// What empty paper is in the input, for padding.
    paper_value: f32,
    device: ComputeDevice,
}

impl CtcRecognizer {
    /// Loads the trunk and `head`; the tensors of `other_heads` may be in the file and are not used.
    pub(crate) fn load(
        mut tensors: WeightTensors<'_>,
        dimensions: &NetworkDimensions,
        head: OutputLayer<'_>,
        other_heads: &[&str],
        paper_value: f32,
        device: &ComputeDevice,
    ) -> Result<Arc<Self>, WeightsError> {
        for other in other_heads {
            tensors.discard(&format!("{other}."));
        }
        let mut loader = LayerLoader::new(tensors, device.burn()).with_precision(device.precision());
        let network = match device.kind() {
            DeviceKind::Cpu => {
                let layers = Layers::load(dimensions, head, |name, shift, shape| {
                    loader.row_convolution(name, shift, shape)
                })?;
                Network::Processor(Box::new(layers))
            }
            DeviceKind::Wgpu | DeviceKind::Cuda => {
                let layers = Layers::load(dimensions, head, |name, shift, shape| {
                    loader.conv2d(name, shift, shape)
                })?;
                Network::Gpu(Box::new(layers))
            }
        };
        loader.tensors.finish()?;
        let height = usize::from(dimensions.height.get());
        Ok(Arc::new(Self {
            network,
            height,
            classes: head.classes,
            paper_value,
            device: device.clone(),
        }))
    }

    /// Scores of each line of a batch computed as one.
    fn batch_logits(
        &self,
        layers: &Layers<Conv2d>,
        lines: &LineBatch,
    ) -> Result<Vec<Logits>, InferenceError> {
        let count = lines.line_widths.len();
        let width = lines.width.next_multiple_of(WIDTH_MULTIPLE);
        let mut values = Vec::with_capacity(count * self.height * width);
        for line in 0..count {
            self.push_padded(&mut values, lines, line, width);
        }
        let data = TensorData::new(values, [count, 1, self.height, width]);
        let scores = read(layers.forward(Tensor::from_data(data, self.device.burn())))?;
        let frames = width.div_ceil(HORIZONTAL_STRIDE);
        if scores.len() != count * frames * self.classes {
            return Err(InferenceError::Failed(format!(
                "{} scores for {count} lines",
                scores.len()
            )));
        }
        let by_line = scores.chunks_exact(frames * self.classes);
        Ok(by_line
            .zip(&lines.line_widths)
            .map(|(scores, &line_width)| self.logits_of_line(scores.to_vec(), line_width))
            .collect())
    }

    /// Scores of one line at its own width.
    fn line_logits(&self, layers: &Layers<RowConvolution>, lines: &LineBatch, line: usize) -> Logits {
        let line_width = lines.line_widths[line];
        let width = line_width.next_multiple_of(WIDTH_MULTIPLE);
        let mut values = Vec::with_capacity(self.height * width);
        self.push_padded(&mut values, lines, line, width);
        let scores = layers.forward(RowMap::image(values, width));
        self.logits_of_line(scores, line_width)
    }

    /// Leaves out the frames of the padding.
    fn logits_of_line(&self, mut scores: Vec<f32>, line_width: usize) -> Logits {
        let frames = line_width.div_ceil(HORIZONTAL_STRIDE);
        scores.truncate(frames * self.classes);
        Logits {
            frames,
            classes: self.classes,
            values: scores,
        }
    }

    /// Appends the rows of one line, cut to its true width and filled up with paper to `width`.
    fn push_padded(&self, values: &mut Vec<f32>, lines: &LineBatch, line: usize, width: usize) {
        let line_width = lines.line_widths[line];
        let first = line * lines.height * lines.width;
        for row in lines.values[first..first + lines.height * lines.width].chunks_exact(lines.width) {
            values.extend_from_slice(&row[..line_width]);
            values.resize(values.len() + width - line_width, self.paper_value);
        }
    }
}

impl Recognizer for CtcRecognizer {
    fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
        check_shape(lines, self.height)?;
        self.device.run(|| match &self.network {
            Network::Processor(layers) => Ok((0..lines.line_widths.len())
                .into_par_iter()
                .map(|line| self.line_logits(layers, lines, line))
                .collect()),
            Network::Gpu(layers) => self.batch_logits(layers, lines),
        })
    }
}

fn check_shape(lines: &LineBatch, height: usize) -> Result<(), InferenceError> {
    let count = lines.line_widths.len();
    let fits = lines.height == height
        && lines.values.len() == count * height * lines.width
        && lines
            .line_widths
            .iter()
            .all(|width| (1..=lines.width).contains(width));
    if fits {
        return Ok(());
    }
    Err(InferenceError::Shape {
        expected: format!(
            "{count} x {height} x {}, lines of 1 to {} pixels",
            lines.width, lines.width
        ),
        actual: lines.values.len(),
    })
}
