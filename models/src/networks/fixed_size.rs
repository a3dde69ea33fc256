//! Recognisers of BDRC's, which read line images of one size.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use parkhang_kernels::device::{ComputeDevice, DeviceKind};
use parkhang_kernels::feature_map::{DeviceMap, FeatureMap, HostMap, MapSize, Network};
use rayon::prelude::*;

use super::crnn::{self, Crnn};
use super::easter2::{self, Easter2};
use crate::checkpoint::Slot;
use crate::checkpoint::WeightsError;
use crate::checkpoint::layers::LayerLoader;
use crate::checkpoint::tensors::WeightTensors;
use crate::inference::{InferenceError, LineBatch, Logits, Recognizer};

/// The networks that read line images of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Architecture {
    Easter2,
    Crnn,
}

impl Architecture {
    /// Names of all, for errors.
    pub(crate) const NAMES: &'static str = "Easter2, CRNN";

    /// The layers in the order in which the network uses them.
    pub(crate) fn slots(self) -> Vec<Slot> {
        match self {
            Self::Easter2 => easter2::slots(),
            Self::Crnn => crnn::slots(),
        }
    }

    /// An image as the network takes it.
    fn image_size(self, height: usize, width: usize) -> MapSize {
        let (channels, rows) = match self {
            Self::Easter2 => (height, 1),
            Self::Crnn => (1, height),
        };
        MapSize {
            channels,
            rows,
            columns: width,
        }
    }

    fn load<M>(self, loader: &mut LayerLoader<'_>) -> Result<Loaded<M>, WeightsError>
    where
        M: FeatureMap + Send + Sync + fmt::Debug + 'static,
    {
        Ok(match self {
            Self::Easter2 => {
                let network = Easter2::<M>::load(loader)?;
                Loaded {
                    min_width: network.min_width,
                    heights: network.height..=network.height,
                    classes: network.classes,
                    network: Box::new(network),
                }
            }
            Self::Crnn => {
                let network = Crnn::<M>::load(loader)?;
                Loaded {
                    min_width: crnn::MIN_WIDTH,
                    heights: network.heights(),
                    classes: network.classes,
                    network: Box::new(network),
                }
            }
        })
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Easter2 => "Easter2",
            Self::Crnn => "CRNN",
        })
    }
}

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, UnknownArchitecture> {
        match name.to_ascii_lowercase().as_str() {
            "easter2" => Ok(Self::Easter2),
            "crnn" => Ok(Self::Crnn),
            _ => Err(UnknownArchitecture),
        }
    }
}

/// A name that is none of [`Architecture`].
#[derive(Debug)]
pub(crate) struct UnknownArchitecture;

/// A network and the images that it takes.
struct Loaded<M> {
    network: Box<dyn Network<M>>,
    heights: RangeInclusive<usize>,
    min_width: usize,
    classes: usize,
}

/// The network in the form that suits its device.
#[derive(Debug)]
enum Form {
    Processor(Box<dyn Network<HostMap>>),
    Gpu(Box<dyn Network<DeviceMap>>),
}

/// A [`Recognizer`] around Easter2 or CRNN. All lines of a batch are as wide as the batch, padding included, because these
/// networks look at the whole image. The processor takes each line by itself, as many at a time as the device has threads.
#[derive(Debug)]
pub(crate) struct FixedSizeRecognizer {
    form: Form,
    architecture: Architecture,
    /// Rows of a line image.
    height: usize,
    /// Rows that the network was made for.
    heights: RangeInclusive<usize>,
    min_width: usize,
    classes: usize,
    device: ComputeDevice,
}

impl FixedSizeRecognizer {
    /// Loads the network for line images that are `height` rows high; [`Self::check`] says whether it takes them.
    pub(crate) fn load(
        tensors: WeightTensors<'_>,
        architecture: Architecture,
        height: usize,
        device: &ComputeDevice,
    ) -> Result<Self, WeightsError> {
        let mut loader = LayerLoader::new(tensors, device.burn());
        let (form, heights, min_width, classes) = match device.kind() {
            DeviceKind::Cpu => {
                let loaded = architecture.load(&mut loader)?;
                let form = Form::Processor(loaded.network);
                (form, loaded.heights, loaded.min_width, loaded.classes)
            }
            DeviceKind::Wgpu | DeviceKind::Cuda => {
                let loaded = architecture.load(&mut loader)?;
                let form = Form::Gpu(loaded.network);
                (form, loaded.heights, loaded.min_width, loaded.classes)
            }
        };
        loader.tensors.finish()?;
        Ok(Self {
            form,
            architecture,
            height,
            heights,
            min_width,
            classes,
            device: device.clone(),
        })
    }

    /// Compares the size of the images, `width` by the height of [`Self::load`], with those that the network takes.
    ///
    /// # Errors
    /// The difference in words.
    pub(crate) fn check(&self, width: usize) -> Result<(), String> {
        let Self {
            height,
            heights,
            min_width,
            ..
        } = self;
        if !heights.contains(height) {
            return Err(format!(
                "is for images {height} rows high, the network for {heights:?}"
            ));
        }
        if width < *min_width {
            return Err(format!(
                "is for images {width} columns wide, the network needs {min_width}"
            ));
        }
        Ok(())
    }

    /// Scores of `count` lines, one after the other.
    fn scores<M: FeatureMap>(
        &self,
        network: &dyn Network<M>,
        values: &[f32],
        count: usize,
        width: usize,
    ) -> Result<Vec<f32>, InferenceError> {
        let size = self.architecture.image_size(self.height, width);
        let images = M::images(values.to_vec(), count, size, self.device.burn());
        network.forward(images)?.into_columns()
    }
}

impl Recognizer for FixedSizeRecognizer {
    fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
        let (count, width) = (lines.line_widths.len(), lines.width);
        let area = self.height * width;
        if lines.height != self.height || width < self.min_width || lines.values.len() != count * area {
            return Err(InferenceError::Shape {
                expected: format!("{count} x {} x at least {}", self.height, self.min_width),
                actual: lines.values.len(),
            });
        }
        let by_line: Vec<Vec<f32>> = self.device.run(|| match &self.form {
            Form::Processor(network) => lines
                .values
                .par_chunks_exact(area)
                .map(|line| self.scores(network.as_ref(), line, 1, width))
                .collect(),
            Form::Gpu(network) => {
                let scores = self.scores(network.as_ref(), &lines.values, count, width)?;
                let size = (scores.len() / count.max(1)).max(1);
                Ok(scores.chunks_exact(size).map(<[f32]>::to_vec).collect())
            }
        })?;
        Ok(by_line
            .into_iter()
            .zip(&lines.line_widths)
            .map(|(mut values, &line_width)| {
                // Frames are spread evenly over the width of the batch; those that show nothing but padding
                // are left out.
                let frames = (values.len() / self.classes * line_width).div_ceil(width);
                values.truncate(frames * self.classes);
                Logits {
                    frames,
                    classes: self.classes,
                    values,
                }
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use parkhang_kernels::device::Device;

    use super::*;
    use crate::checkpoint::Checkpoint;

    /// Answers of a network of the fixtures to two images.
    fn scores<M>(architecture: Architecture, folder: &str, height: usize, width: usize) -> Vec<Vec<f32>>
    where
        M: FeatureMap + Send + Sync + fmt::Debug + 'static,
    {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bdrc");
        let tensors = Checkpoint::open(&fixtures.join(folder).join("model.pth"))
            .unwrap()
            .state_dict(&architecture.slots())
            .unwrap();
        let device = Device::flex();
        let mut loader = LayerLoader::new(WeightTensors::imported(folder, tensors), &device);
        let loaded: Loaded<M> = architecture.load(&mut loader).unwrap();
        loader.tensors.finish().unwrap();
        let size = architecture.image_size(height, width);
        [7, 11]
            .map(|step| {
                let values = (0..height * width).map(|place| if place % step < 3 { -1.0 } else { 1.0 });
                let images = M::images(values.collect(), 1, size, &device);
                loaded.network.forward(images).unwrap().into_columns().unwrap()
            })
            .to_vec()
    }

    #[test]
    fn a_gpu_computes_what_a_processor_computes() {
        for (architecture, folder, height, width) in [
            (Architecture::Easter2, "easter2", 16, 256),
            (Architecture::Easter2, "easter2", 16, 300),
            (Architecture::Crnn, "crnn", 32, 224),
            (Architecture::Crnn, "crnn", 32, 50),
        ] {
            let processor = scores::<HostMap>(architecture, folder, height, width).concat();
            let gpu = scores::<DeviceMap>(architecture, folder, height, width).concat();
            assert_eq!(processor.len(), gpu.len());
            for (processor, gpu) in processor.into_iter().zip(gpu) {
                assert!((processor - gpu).abs() < 1e-4, "{folder}: {processor} {gpu}");
            }
        }
    }
}
