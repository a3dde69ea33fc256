//! The networks behind the traits of [`crate::inference`]: which way up a page is, where its text is, and what a line says. They
//! are plain code over a [`FeatureMap`] and know neither pages nor files.

mod csp_pan;
mod detector;
mod layout;
mod lcnet;
mod orientation;
mod pplcnet;
mod recognizer;
mod table;
mod table_decoder;

use parkhang_kernels::device::{ComputeDevice, DeviceKind};
use parkhang_kernels::feature_map::{DeviceMap, FeatureMap, HostMap, MapSize};
use parkhang_kernels::{Conv2dShape, ConvolutionWeights};
use parkhang_models::checkpoint::WeightsError;
use rayon::prelude::*;

use crate::inference::{Frame, ImageBatch, InferenceError, LayoutMaps, TableStep};
use crate::inference::{LayoutDetector, OrientationClassifier, TableReader, TextDetector, WordRecognizer};
use crate::layers::LayerSource;

pub(crate) use detector::Detector;
pub(crate) use layout::LayoutNetwork;
pub(crate) use orientation::Classifier;
pub(crate) use recognizer::{CLASSES, Recognizer};
pub(crate) use table::TableNetwork;

/// A network for maps of the kind `M`.
pub(crate) trait Architecture<M: FeatureMap>: Sized {
    /// Name of the architecture in `model.json`.
    const NAME: &'static str;
    /// Operators of its ONNX file that the importer refuses of networks that do not compute them.
    const OPERATORS: &'static [&'static str];
    /// Answer for all images of a batch.
    type Answer: Send;

    /// Takes the layers from `builder` in the order of the graph.
    fn load(builder: &mut Builder<'_>) -> Result<Self, WeightsError>;

    /// Answers to the images of a map.
    fn forward(&self, images: M) -> Result<Self::Answer, InferenceError>;
}

/// Layers of a source in the form of a device.
pub(crate) struct Builder<'a> {
    pub(crate) source: &'a mut dyn LayerSource,
    pub(crate) device: &'a ComputeDevice,
}

impl Builder<'_> {
    /// A layer of a shape, of the weights that `read` takes from the source.
    fn layer<M: FeatureMap>(
        &mut self,
        shape: Conv2dShape,
        read: impl FnOnce(&mut dyn LayerSource) -> Result<ConvolutionWeights, WeightsError>,
    ) -> Result<M::Convolution, WeightsError> {
        let weights = read(self.source)?;
        Ok(M::convolution(
            weights,
            shape,
            self.device.precision(),
            self.device.burn(),
        ))
    }

    fn convolution<M: FeatureMap>(
        &mut self,
        name: &str,
        shape: Conv2dShape,
    ) -> Result<M::Convolution, WeightsError> {
        self.layer::<M>(shape, |source| source.convolution(name, shape))
    }

    fn normed<M: FeatureMap>(
        &mut self,
        name: &str,
        shape: Conv2dShape,
    ) -> Result<M::Convolution, WeightsError> {
        self.layer::<M>(shape, |source| source.normed(name, shape))
    }

    fn linear<M: FeatureMap>(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<M::Convolution, WeightsError> {
        let shape = Conv2dShape::pointwise(inputs, outputs);
        self.layer::<M>(shape, |source| source.linear(name, inputs, outputs))
    }

    /// A linear layer whose input is multiplied with `factor` before.
    fn damped<M: FeatureMap>(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
        factor: f32,
    ) -> Result<M::Convolution, WeightsError> {
        self.layer::<M>(Conv2dShape::pointwise(inputs, outputs), |source| {
            let mut weights = source.linear(name, inputs, outputs)?;
            for value in &mut weights.weight {
                *value *= factor;
            }
            Ok(weights)
        })
    }

    /// A convolution of single pixels, times `factor`.
    fn scaled<M: FeatureMap>(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
        factor: f32,
    ) -> Result<M::Convolution, WeightsError> {
        let shape = Conv2dShape::pointwise(inputs, outputs);
        self.layer::<M>(shape, |source| {
            let mut weights = source.convolution(name, shape)?;
            for value in weights.weight.iter_mut().chain(&mut weights.bias) {
                *value *= factor;
            }
            Ok(weights)
        })
    }

    /// A transposed convolution with kernel and stride 2, as a convolution of single pixels to the channels of four, which
    /// [`FeatureMap::interleave`] puts in their places.
    fn transposed<M: FeatureMap>(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<M::Convolution, WeightsError> {
        self.layer::<M>(Conv2dShape::pointwise(inputs, 4 * outputs), |source| {
            let stored = source.transposed(name, inputs, outputs)?;
            let weight = (0..4)
                .flat_map(|pixel| (0..outputs).map(move |output| (pixel, output)))
                .flat_map(|(pixel, output)| {
                    (0..inputs).map(move |input| (input * outputs + output) * 4 + pixel)
                })
                .map(|place| stored.weight[place])
                .collect();
            Ok(ConvolutionWeights {
                weight,
                bias: stored.bias.repeat(4),
                of_zero: stored.of_zero.repeat(4),
            })
        })
    }
}

/// A network in the form that suits its device.
#[derive(Debug)]
pub(crate) struct Placed<H, D> {
    form: Form<H, D>,
    device: ComputeDevice,
}

#[derive(Debug)]
enum Form<H, D> {
    Processor(Box<H>),
    Gpu(Box<D>),
}

impl<H, D, A> Placed<H, D>
where
    A: Send,
    H: Architecture<HostMap, Answer = Vec<A>> + Sync,
    D: Architecture<DeviceMap, Answer = Vec<A>> + Sync,
{
    /// Takes the layers from `source`.
    pub(crate) fn load(source: &mut dyn LayerSource, device: &ComputeDevice) -> Result<Self, WeightsError> {
        let mut builder = Builder { source, device };
        let form = match device.kind() {
            DeviceKind::Cpu => Form::Processor(Box::new(H::load(&mut builder)?)),
            DeviceKind::Wgpu | DeviceKind::Cuda => Form::Gpu(Box::new(D::load(&mut builder)?)),
        };
        Ok(Self {
            form,
            device: device.clone(),
        })
    }

    /// Answers to the images of a batch, one after the other. A processor takes images side by side on its threads.
    fn answers(&self, batch: &ImageBatch) -> Result<Vec<A>, InferenceError> {
        let size = batch.image_size()?;
        self.device.run(|| match &self.form {
            Form::Processor(network) => {
                let of_an_image = (size.channels * size.rows * size.columns).max(1);
                let images = batch.values.par_chunks_exact(of_an_image);
                let answers: Vec<Vec<A>> = images
                    .map(|image| {
                        network.forward(HostMap::images(image.to_vec(), 1, size, self.device.burn()))
                    })
                    .collect::<Result<_, _>>()?;
                Ok(answers.into_iter().flatten().collect())
            }
            Form::Gpu(network) => {
                let values = batch.values.clone();
                network.forward(DeviceMap::images(values, batch.count, size, self.device.burn()))
            }
        })
    }
}

impl ImageBatch {
    fn image_size(&self) -> Result<MapSize, InferenceError> {
        let size = MapSize {
            channels: Self::CHANNELS,
            rows: self.height,
            columns: self.width,
        };
        if self.values.len() == self.count * Self::CHANNELS * self.height * self.width {
            return Ok(size);
        }
        Err(InferenceError::Shape {
            expected: format!("{} x 3 x {} x {}", self.count, self.height, self.width),
            actual: self.values.len(),
        })
    }

    /// Refuses a batch whose images are not of a size that a network takes.
    fn check(&self, fits: bool, expected: &str) -> Result<(), InferenceError> {
        if fits {
            return Ok(());
        }
        Err(InferenceError::Shape {
            expected: expected.to_owned(),
            actual: self.values.len(),
        })
    }
}

pub(crate) type PlacedDetector = Placed<Detector<HostMap>, Detector<DeviceMap>>;
pub(crate) type PlacedRecognizer = Placed<Recognizer<HostMap>, Recognizer<DeviceMap>>;
pub(crate) type PlacedClassifier = Placed<Classifier<HostMap>, Classifier<DeviceMap>>;
pub(crate) type PlacedLayout = Placed<LayoutNetwork<HostMap>, LayoutNetwork<DeviceMap>>;
pub(crate) type PlacedTable = Placed<TableNetwork<HostMap>, TableNetwork<DeviceMap>>;

impl TextDetector for PlacedDetector {
    fn probabilities(&self, pages: &ImageBatch) -> Result<Vec<f32>, InferenceError> {
        let multiple = |size: usize| size > 0 && size.is_multiple_of(detector::MULTIPLE);
        pages.check(
            multiple(pages.height) && multiple(pages.width),
            "of a page, whose sides are multiples of 32",
        )?;
        self.answers(pages)
    }
}

impl WordRecognizer for PlacedRecognizer {
    fn frames(&self, lines: &ImageBatch) -> Result<Vec<Vec<Frame>>, InferenceError> {
        let fits = lines.height == recognizer::HEIGHT && lines.width >= recognizer::STRIDE;
        lines.check(fits, "of lines, which are 48 pixels high and 8 wide at least")?;
        let frames = self.answers(lines)?;
        let of_a_line = frames.len() / lines.count.max(1);
        Ok(frames.chunks(of_a_line.max(1)).map(<[Frame]>::to_vec).collect())
    }
}

impl OrientationClassifier for PlacedClassifier {
    fn probabilities(&self, pictures: &ImageBatch) -> Result<Vec<[f32; 4]>, InferenceError> {
        let fits = (pictures.height, pictures.width) == (orientation::SIDE, orientation::SIDE);
        pictures.check(fits, "of pictures of 224 x 224 pixels")?;
        self.answers(pictures)
    }
}

impl LayoutDetector for PlacedLayout {
    fn maps(&self, pages: &ImageBatch) -> Result<Vec<LayoutMaps>, InferenceError> {
        let fits = [pages.height, pages.width] == layout::SIZE;
        pages.check(fits, "of pages of 608 x 800 pixels")?;
        self.answers(pages)
    }
}

impl TableReader for PlacedTable {
    fn steps(&self, tables: &ImageBatch) -> Result<Vec<Vec<TableStep>>, InferenceError> {
        let fits = (tables.height, tables.width) == (table::SIDE, table::SIDE);
        tables.check(fits, "of pictures of 488 x 488 pixels")?;
        self.answers(tables)
    }
}
