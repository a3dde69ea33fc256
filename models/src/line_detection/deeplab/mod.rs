//! BDRC's segmentation networks, for lines and for the classes of a layout.

pub(crate) mod network;

use std::sync::Arc;

use rayon::prelude::*;

use crate::device::{ComputeDevice, DeviceKind};
use crate::feature_map::{DeviceMap, FeatureMap, HostMap, MapSize, Network};
use crate::inference::{Classes, InferenceError, Segmenter, TileBatch};
use crate::weights::layers::LayerLoader;
use crate::weights::{Bundle, SegmentationModel, WeightsError};
use network::DeepLab;

/// Name of the architecture in a description.
pub(crate) const ARCHITECTURE: &str = "DeepLabV3Plus";

/// The network in the form that suits its device.
#[derive(Debug)]
enum Form {
    Processor(Box<dyn Network<HostMap>>),
    Gpu(Box<dyn Network<DeviceMap>>),
}

/// A [`Segmenter`] around DeepLabV3+. The processor takes each tile by itself, as many at a time as the device has threads.
#[derive(Debug)]
pub(crate) struct DeepLabSegmenter {
    form: Form,
    tile_size: usize,
    classes: Classes,
    device: ComputeDevice,
}

impl DeepLabSegmenter {
    /// Tiles that a GPU computes at once; bounds the memory that a large page takes.
    const TILES_AT_ONCE: usize = 8;

    pub(crate) fn load(
        bundle: &Bundle,
        model: &SegmentationModel,
        device: &ComputeDevice,
    ) -> Result<Arc<dyn Segmenter>, WeightsError> {
        let tile_size = usize::from(model.tile_size.get());
        if !tile_size.is_multiple_of(network::TILE_MULTIPLE) {
            let problem = format!("must be a multiple of {}", network::TILE_MULTIPLE);
            return Err(bundle.invalid("tile_size", problem));
        }
        let mut loader = LayerLoader::new(bundle.tensors()?, device.burn());
        let (form, classes) = match device.kind() {
            DeviceKind::Cpu => {
                let network = DeepLab::<HostMap>::load(&mut loader)?;
                let classes = network.classes;
                (Form::Processor(Box::new(network)), classes)
            }
            DeviceKind::Wgpu | DeviceKind::Cuda => {
                let network = DeepLab::<DeviceMap>::load(&mut loader)?;
                let classes = network.classes;
                (Form::Gpu(Box::new(network)), classes)
            }
        };
        loader.tensors.finish()?;
        if classes != model.classes.planes() {
            let problem = format!("are {}, the network has {classes}", model.classes.planes());
            return Err(bundle.invalid("classes", problem));
        }
        Ok(Arc::new(Self {
            form,
            tile_size,
            classes: model.classes,
            device: device.clone(),
        }))
    }

    /// Probabilities of the classes of some tiles, for each tile plane after plane.
    fn planes<M: FeatureMap>(
        &self,
        network: &dyn Network<M>,
        tiles: &[f32],
    ) -> Result<Vec<f32>, InferenceError> {
        let area = self.tile_size * self.tile_size;
        let size = MapSize {
            channels: 1,
            rows: self.tile_size,
            columns: self.tile_size,
        };
        let images = M::images(tiles.to_vec(), tiles.len() / area, size, self.device.burn());
        let mut planes = network.forward(images)?.into_planes()?;
        match self.classes {
            Classes::Line => {
                for value in &mut planes {
                    *value = 1.0 / (1.0 + (-*value).exp());
                }
            }
            Classes::Layout => {
                for tile in planes.chunks_exact_mut(area * self.classes.planes()) {
                    softmax(tile, area);
                }
            }
        }
        Ok(planes)
    }

    fn class_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
        let area = self.tile_size * self.tile_size;
        if tiles.size != self.tile_size || tiles.values.len() != tiles.count * area {
            return Err(InferenceError::Shape {
                expected: format!("{} x {1} x {1}", tiles.count, self.tile_size),
                actual: tiles.values.len(),
            });
        }
        self.device.run(|| {
            let answers: Result<Vec<Vec<f32>>, _> = match &self.form {
                Form::Processor(network) => tiles
                    .values
                    .par_chunks_exact(area)
                    .map(|tile| self.planes(network.as_ref(), tile))
                    .collect(),
                Form::Gpu(network) => tiles
                    .values
                    .chunks(Self::TILES_AT_ONCE * area)
                    .map(|tiles| self.planes(network.as_ref(), tiles))
                    .collect(),
            };
            Ok(answers?.concat())
        })
    }
}

/// Probabilities out of the logits of each pixel, whose classes lie `area` values apart.
fn softmax(planes: &mut [f32], area: usize) {
    for pixel in 0..area {
        let of_pixel = || (pixel..planes.len()).step_by(area);
        let highest = of_pixel().fold(f32::NEG_INFINITY, |highest, place| highest.max(planes[place]));
        let sum: f32 = of_pixel().map(|place| (planes[place] - highest).exp()).sum();
        for place in (pixel..planes.len()).step_by(area) {
            planes[place] = (planes[place] - highest).exp() / sum;
        }
    }
}

impl Segmenter for DeepLabSegmenter {
    fn tile_size(&self) -> usize {
        self.tile_size
    }

    fn line_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
        let planes = self.class_probabilities(tiles)?;
        if self.classes == Classes::Line {
            return Ok(planes);
        }
        let area = self.tile_size * self.tile_size;
        Ok(planes
            .chunks_exact(area)
            .skip(self.classes.line_plane())
            .step_by(self.classes.planes())
            .flatten()
            .copied()
            .collect())
    }

    fn has_layout(&self) -> bool {
        self.classes == Classes::Layout
    }

    fn layout_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
        match self.classes {
            Classes::Line => Err(InferenceError::NoLayout),
            Classes::Layout => self.class_probabilities(tiles),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use burn::tensor::Device;

    use super::*;

    /// Logits of a small tile from the network of the fixtures.
    fn logits<M>() -> Vec<f32>
    where
        M: FeatureMap + Send + Sync + std::fmt::Debug + 'static,
    {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bdrc/deeplab");
        let bundle = Bundle::open(&fixture).unwrap();
        let device = Device::flex();
        let mut loader = LayerLoader::new(bundle.tensors().unwrap(), &device);
        let network = DeepLab::<M>::load(&mut loader).unwrap();
        loader.tensors.finish().unwrap();
        let size = MapSize {
            channels: 1,
            rows: 96,
            columns: 96,
        };
        let tile = (0..96 * 96)
            .map(|place| f32::from(u8::from(place % 11 < 8)))
            .collect();
        let map = M::images(tile, 1, size, &device);
        network.forward(map).unwrap().into_planes().unwrap()
    }

    #[test]
    fn a_gpu_computes_what_a_processor_computes() {
        let (processor, gpu) = (logits::<HostMap>(), logits::<DeviceMap>());
        assert_eq!((processor.len(), gpu.len()), (96 * 96, 96 * 96));
        for (processor, gpu) in processor.into_iter().zip(gpu) {
            assert!((processor - gpu).abs() < 1e-4, "{processor} {gpu}");
        }
    }

    #[test]
    fn probabilities_of_a_pixel_add_up() {
        let mut planes = vec![1.0, 5.0, 1.0, -5.0];
        softmax(&mut planes, 2);
        assert_eq!((planes[0], planes[2]), (0.5, 0.5));
        assert!((planes[1] + planes[3] - 1.0).abs() < 1e-6 && planes[1] > 0.9999);
    }
}
