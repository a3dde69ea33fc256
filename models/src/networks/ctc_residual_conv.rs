//! The recognition network: a fully convolutional reader with CTC output. A stem of 2-D convolutions brings the line
//! image down to four rows, which become channels of a sequence; residual 1-D convolutions read along it; one linear head
//! per charset scores each frame.

use std::num::NonZeroU16;
use std::sync::Arc;

use parkhang_kernels::device::{ComputeDevice, DeviceKind};
use parkhang_kernels::feature_map::{DeviceMap, FeatureMap, HostMap, MapSize};
use parkhang_kernels::{Activation, Conv2dShape};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::checkpoint::WeightsError;
use crate::checkpoint::layers::{LayerLoader, Shift};
use crate::checkpoint::tensors::WeightTensors;
use crate::inference::{InferenceError, LineBatch, Logits, Recognizer};

/// Name of the architecture in `model.json`.
pub(crate) const ARCHITECTURE: &str = "ctc-residual-conv";
/// Pixels of line width per frame.
pub(crate) const HORIZONTAL_STRIDE: usize = 4;
/// The stem divides the height by this.
const VERTICAL_STRIDE: usize = 16;
/// Multiple to which lines were padded in training, in pixels.
const WIDTH_MULTIPLE: usize = 8;
/// Kernel of the residual convolutions.
const BODY_KERNEL: usize = 5;
/// The first residual convolutions see neighbouring frames, the later ones every second frame.
const UNDILATED_BLOCKS: usize = 4;

/// Dimensions of the network `ctc-residual-conv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkDimensions {
    /// Height of a line image in pixels, a multiple of 16.
    pub(crate) height: NonZeroU16,
    /// Output channels of the five convolutions of the stem.
    pub(crate) stem: [NonZeroU16; 5],
    /// Channels of the sequence.
    pub(crate) channels: NonZeroU16,
    /// Number of residual convolutions.
    pub(crate) blocks: u16,
}

/// One output layer of the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputLayer<'a> {
    /// Name of the layer in the weights file.
    pub(crate) key: &'a str,
    /// Number of classes with the blank.
    pub(crate) classes: usize,
}

/// The network with batch norm folded into its convolutions, and one of its heads, for maps of the kind `M`.
#[derive(Debug)]
struct Network<M: FeatureMap> {
    stem: Vec<M::Convolution>,
    projection: M::Convolution,
    body: Vec<M::Convolution>,
    head: M::Convolution,
}

impl<M: FeatureMap> Network<M> {
    /// Loads the trunk and the layer `head`; the layers of other heads are left out.
    fn load(
        loader: &mut LayerLoader<'_>,
        dimensions: &NetworkDimensions,
        head: OutputLayer<'_>,
    ) -> Result<Self, WeightsError> {
        // Down by 16 in all, and across by 4 only: CTC needs a frame for each letter at least, while the
        // height is to end as a few rows, which become channels.
        const STRIDES: [[usize; 2]; 5] = [[2, 2], [2, 1], [2, 2], [1, 1], [2, 1]];
        let mut stem = Vec::with_capacity(STRIDES.len());
        let mut inputs = 1;
        for (number, (stride, outputs)) in STRIDES.into_iter().zip(dimensions.stem).enumerate() {
            let outputs = usize::from(outputs.get());
            stem.push(loader.shifted_layer::<M>(
                &format!("stem.{number}.0"),
                Shift::BatchNorm(&format!("stem.{number}.1")),
                Conv2dShape::square(inputs, outputs, 3, stride),
            )?);
            inputs = outputs;
        }
        let channels = usize::from(dimensions.channels.get());
        let rows = usize::from(dimensions.height.get()) / VERTICAL_STRIDE;
        let projection = loader.shifted_layer::<M>(
            "proj.0",
            Shift::BatchNorm("proj.1"),
            Conv2dShape::sequence(inputs * rows, channels, 1, 1),
        )?;
        let body = (0..usize::from(dimensions.blocks))
            .map(|block| {
                let dilation = if block < UNDILATED_BLOCKS { 1 } else { 2 };
                loader.shifted_layer::<M>(
                    &format!("body.{block}.f.0"),
                    Shift::BatchNorm(&format!("body.{block}.f.1")),
                    Conv2dShape::sequence(channels, channels, BODY_KERNEL, dilation),
                )
            })
            .collect::<Result<_, _>>()?;
        let shape = Conv2dShape::sequence(channels, head.classes, 1, 1);
        let head = loader.shifted_layer::<M>(head.key, Shift::Bias, shape)?;
        Ok(Self {
            stem,
            projection,
            body,
            head,
        })
    }

    /// Scores of each line, `[width / 4][classes]`, from lines of one channel.
    fn forward(&self, lines: M) -> Result<Vec<f32>, InferenceError> {
        let map = self
            .stem
            .iter()
            .try_fold(lines, |map, layer| map.convolve(layer, Activation::Relu))?;
        let sequence = map
            .rows_as_channels()
            .convolve(&self.projection, Activation::Relu)?;
        let sequence = self.body.iter().try_fold(sequence, |sequence, layer| {
            let read = sequence.convolve(layer, Activation::Relu)?;
            Ok::<_, InferenceError>(read.add(&sequence))
        })?;
        sequence.convolve(&self.head, Activation::None)?.into_columns()
    }
}

/// The network in the form that suits its device.
#[derive(Debug)]
enum Form {
    Processor(Box<Network<HostMap>>),
    Gpu(Box<Network<DeviceMap>>),
}

/// A [`Recognizer`] that reads with one head of the network.
///
/// On the processor every line is computed at its own width, so a line's scores do not depend on the lines it shares a
/// batch with. A GPU computes the batch as it is; there the last frames of a line can differ slightly with the padding.
#[derive(Debug)]
pub(crate) struct CtcRecognizer {
    form: Form,
    height: usize,
    classes: usize,
    /// Value of empty paper in the input, for padding.
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
        let form = match device.kind() {
            DeviceKind::Cpu => Form::Processor(Box::new(Network::load(&mut loader, dimensions, head)?)),
            DeviceKind::Wgpu | DeviceKind::Cuda => {
                Form::Gpu(Box::new(Network::load(&mut loader, dimensions, head)?))
            }
        };
        loader.tensors.finish()?;
        let height = usize::from(dimensions.height.get());
        Ok(Arc::new(Self {
            form,
            height,
            classes: head.classes,
            paper_value,
            device: device.clone(),
        }))
    }

    /// Scores of each line of a batch computed as one.
    fn batch_logits(
        &self,
        network: &Network<DeviceMap>,
        lines: &LineBatch,
    ) -> Result<Vec<Logits>, InferenceError> {
        let count = lines.line_widths.len();
        let width = lines.width.next_multiple_of(WIDTH_MULTIPLE);
        let mut values = Vec::with_capacity(count * self.height * width);
        for line in 0..count {
            self.push_padded(&mut values, lines, line, width);
        }
        let scores = self.scores(network, values, count, width)?;
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
    fn line_logits(
        &self,
        network: &Network<HostMap>,
        lines: &LineBatch,
        line: usize,
    ) -> Result<Logits, InferenceError> {
        let line_width = lines.line_widths[line];
        // Also a line by itself: the network saw this padding in training.
        let width = line_width.next_multiple_of(WIDTH_MULTIPLE);
        let mut values = Vec::with_capacity(self.height * width);
        self.push_padded(&mut values, lines, line, width);
        let scores = self.scores(network, values, 1, width)?;
        Ok(self.logits_of_line(scores, line_width))
    }

    /// Scores of `count` lines of one width, one after the other.
    fn scores<M: FeatureMap>(
        &self,
        network: &Network<M>,
        values: Vec<f32>,
        count: usize,
        width: usize,
    ) -> Result<Vec<f32>, InferenceError> {
        let size = MapSize {
            channels: 1,
            rows: self.height,
            columns: width,
        };
        network.forward(M::images(values, count, size, self.device.burn()))
    }

    /// Leaves out the frames of the padding.
    fn logits_of_line(&self, mut scores: Vec<f32>, line_width: usize) -> Logits {
        // A frame that shows any of the line counts.
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
        self.device.run(|| match &self.form {
            Form::Processor(network) => (0..lines.line_widths.len())
                .into_par_iter()
                .map(|line| self.line_logits(network, lines, line))
                .collect(),
            Form::Gpu(network) => self.batch_logits(network, lines),
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

#[cfg(test)]
mod tests {
    use parkhang_kernels::device::Device;

    use super::*;

    const WEIGHTS: &[u8] = include_bytes!("../../weights/recogniser/model.safetensors");
    const HEADS: [&str; 2] = ["hst", "hcp"];

    /// Scores of the shipped network for two lines.
    fn scores<M: FeatureMap>() -> Vec<f32> {
        let dimensions: NetworkDimensions = serde_json::from_value(serde_json::json!({
            "height": 64, "stem": [24, 40, 64, 96, 128], "channels": 176, "blocks": 7
        }))
        .unwrap();
        let mut tensors = WeightTensors::parse("recogniser", WEIGHTS).unwrap();
        let [key, other] = HEADS;
        let [classes, _, _] = tensors.shape(&format!("{key}.weight")).unwrap();
        tensors.discard(&format!("{other}."));
        let device = Device::flex();
        let mut loader = LayerLoader::new(tensors, &device);
        let network = Network::<M>::load(&mut loader, &dimensions, OutputLayer { key, classes }).unwrap();
        loader.tensors.finish().unwrap();
        let size = MapSize {
            channels: 1,
            rows: 64,
            columns: 96,
        };
        let line = |step| (0..64 * 96).map(move |index| f32::from(u8::from(index % step < 3)));
        [7, 11]
            .map(|step| {
                let lines = M::images(line(step).collect(), 1, size, &device);
                network.forward(lines).unwrap()
            })
            .concat()
    }

    #[test]
    fn a_gpu_computes_what_a_processor_computes() {
        let (processor, gpu) = (scores::<HostMap>(), scores::<DeviceMap>());
        assert_eq!(processor.len(), gpu.len());
        for (processor, gpu) in processor.into_iter().zip(gpu) {
            assert!((processor - gpu).abs() < 1e-3, "{processor} {gpu}");
        }
    }
}
