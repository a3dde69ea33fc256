//! The recognition network: a fully convolutional reader with CTC output. A stem of 2-D convolutions brings the line
//! image down to four rows, which become channels of a sequence; residual 1-D convolutions read along it; one linear head
//! per charset scores each frame.

use std::num::NonZeroU16;
use std::sync::Arc;

use burn::nn::conv::{Conv1d, Conv2d};
use burn::tensor::activation::relu;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::device::{ComputeDevice, DeviceKind, read};
use crate::inference::{InferenceError, LineBatch, Logits, Recognizer};
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

/// The network with batch norm folded into its convolutions, and one of its heads.
#[derive(Debug)]
struct Network {
    stem: Vec<Conv2d>,
    projection: Conv1d,
    body: Vec<Conv1d>,
    head: Conv1d,
}

impl Network {
    /// Takes the trunk and the layer `head`; the layers of `other_heads` are left out.
    fn load(
        loader: &mut LayerLoader<'_>,
        dimensions: &NetworkDimensions,
        head: OutputLayer<'_>,
    ) -> Result<Self, WeightsError> {
        const STRIDES: [[usize; 2]; 5] = [[2, 2], [2, 1], [2, 2], [1, 1], [2, 1]];
        let mut stem = Vec::with_capacity(STRIDES.len());
        let mut inputs = 1;
        for (layer, (stride, outputs)) in STRIDES.into_iter().zip(dimensions.stem).enumerate() {
            let outputs = usize::from(outputs.get());
            let shape = Conv2dShape {
                inputs,
                outputs,
                kernel: 3,
                stride,
                padding: 1,
                groups: 1,
            };
            stem.push(loader.conv2d(
                &format!("stem.{layer}.0"),
                Shift::BatchNorm(&format!("stem.{layer}.1")),
                shape,
            )?);
            inputs = outputs;
        }
        let channels = usize::from(dimensions.channels.get());
        let rows = usize::from(dimensions.height.get()) / VERTICAL_STRIDE;
        let projection = loader.conv1d(
            "proj.0",
            Shift::BatchNorm("proj.1"),
            [inputs * rows, channels, 1],
            1,
        )?;
        let body = (0..usize::from(dimensions.blocks))
            .map(|block| {
                let dilation = if block < UNDILATED_BLOCKS { 1 } else { 2 };
                loader.conv1d(
                    &format!("body.{block}.f.0"),
                    Shift::BatchNorm(&format!("body.{block}.f.1")),
                    [channels, channels, BODY_KERNEL],
                    dilation,
                )
            })
            .collect::<Result<_, _>>()?;
        let head = loader.conv1d(head.key, Shift::Bias, [channels, head.classes, 1], 1)?;
        Ok(Self {
            stem,
            projection,
            body,
            head,
        })
    }

    /// `[lines, 1, height, width]` to `[lines, width / 4, classes]`.
    fn forward(&self, lines: Tensor<4>) -> Tensor<3> {
        let map = self
            .stem
            .iter()
            .fold(lines, |map, layer| relu(layer.forward(map)));
        let rows_as_channels: Tensor<3> = map.flatten(1, 2);
        let sequence = relu(self.projection.forward(rows_as_channels));
        let sequence = self.body.iter().fold(sequence, |sequence, layer| {
            sequence.clone() + relu(layer.forward(sequence))
        });
        self.head.forward(sequence).swap_dims(1, 2)
    }
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
        let mut loader = LayerLoader::new(tensors, device.burn());
        let network = Network::load(&mut loader, dimensions, head)?;
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

    /// Scores of lines that lie side by side in `values`, all of the width `width`.
    fn infer(
        &self,
        values: Vec<f32>,
        width: usize,
        line_widths: &[usize],
    ) -> Result<Vec<Logits>, InferenceError> {
        let count = line_widths.len();
        let data = TensorData::new(values, [count, 1, self.height, width]);
        let scores = read(self.network.forward(Tensor::from_data(data, self.device.burn())))?;
        let frames_of_padded = width.div_ceil(HORIZONTAL_STRIDE);
        if scores.len() != count * frames_of_padded * self.classes {
            return Err(InferenceError::Failed(format!(
                "{} scores for {count} lines",
                scores.len()
            )));
        }
        let per_line = scores.chunks_exact(frames_of_padded * self.classes);
        Ok(per_line
            .zip(line_widths)
            .map(|(line, &line_width)| {
                let frames = line_width.div_ceil(HORIZONTAL_STRIDE);
                Logits {
                    frames,
                    classes: self.classes,
                    values: line[..frames * self.classes].to_vec(),
                }
            })
            .collect())
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
        self.device.run(|| {
            let every_line = lines.line_widths.par_iter().enumerate();
            match self.device.kind() {
                DeviceKind::Cpu => every_line
                    .map(|(line, &line_width)| {
                        let width = line_width.next_multiple_of(WIDTH_MULTIPLE);
                        let mut values = Vec::with_capacity(self.height * width);
                        self.push_padded(&mut values, lines, line, width);
                        Ok(self.infer(values, width, &[line_width])?.remove(0))
                    })
                    .collect(),
                DeviceKind::Wgpu | DeviceKind::Cuda => {
                    let width = lines.width.next_multiple_of(WIDTH_MULTIPLE);
                    let mut values = Vec::with_capacity(lines.line_widths.len() * self.height * width);
                    for line in 0..lines.line_widths.len() {
                        self.push_padded(&mut values, lines, line, width);
                    }
                    self.infer(values, width, &lines.line_widths)
                }
            }
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
