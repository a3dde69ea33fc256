//! BDRC's segmentation networks, for lines and for the classes of a layout: one architecture, which differs in the number of
//! planes of its head. The number decides what follows the head, a sigmoid for a line, a softmax over the classes for a
//! layout; both are here and not in the network, so that [`network`] is comparable with PyTorch's logits as published.
//!
//! Callers that ask a layout network for lines get the plane of that class out of the softmax. Unlike
//! [`super::patch_segmenter`], blank paper is not left out: the pyramid's mean over the whole tile sees it, so leaving it out
//! would change every probability. There is no int8-quantised form either: quantisation was tried on this project's networks
//! and their test pages alone.

mod network;

use parkhang_kernels::device::{ComputeDevice, DeviceKind};
use parkhang_kernels::feature_map::{DeviceMap, FeatureMap, HostMap, MapSize, Network};
use rayon::prelude::*;

use super::softmax::softmax;
use crate::checkpoint::WeightsError;
use crate::checkpoint::layers::LayerLoader;
use crate::checkpoint::tensors::WeightTensors;
use crate::inference::{Classes, InferenceError, Segmenter, TileBatch};
use network::DeepLab;

pub(crate) use network::{TILE_MULTIPLE, slots};

/// Name of the architecture in a description.
pub(crate) const ARCHITECTURE: &str = "DeepLabV3Plus";
/// Planes of the network for a layout: the first of those of [`Classes::Layout`].
pub(crate) const LAYOUT_PLANES: usize = 5;

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
    /// Planes of the network's answer for a tile.
    planes: usize,
    classes: Classes,
    device: ComputeDevice,
}

impl DeepLabSegmenter {
    /// Tiles that a GPU computes at once; bounds the memory that a large page takes.
    const TILES_AT_ONCE: usize = 8;

    /// Loads the network; `tile_size` is a multiple of [`TILE_MULTIPLE`]. The network's number of classes, which
    /// is to be that of `classes`, is in [`Self::planes`].
    pub(crate) fn load(
        tensors: WeightTensors<'_>,
        tile_size: usize,
        classes: Classes,
        device: &ComputeDevice,
    ) -> Result<Self, WeightsError> {
        let mut loader = LayerLoader::new(tensors, device.burn());
        let (form, planes) = match device.kind() {
            DeviceKind::Cpu => {
                let network = DeepLab::<HostMap>::load(&mut loader)?;
                let planes = network.classes;
                (Form::Processor(Box::new(network)), planes)
            }
            DeviceKind::Wgpu | DeviceKind::Cuda => {
                let network = DeepLab::<DeviceMap>::load(&mut loader)?;
                let planes = network.classes;
                (Form::Gpu(Box::new(network)), planes)
            }
        };
        loader.tensors.finish()?;
        Ok(Self {
            form,
            tile_size,
            planes,
            classes,
            device: device.clone(),
        })
    }

    /// Number of planes that the network gives for a tile.
    pub(crate) fn planes(&self) -> usize {
        self.planes
    }

    /// Probabilities of the classes of some tiles, for each tile plane after plane.
    fn probabilities_of<M: FeatureMap>(
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
        let mut planes = network.forward(images)?.planes()?.into_owned();
        match self.classes {
            Classes::Line => {
                for value in &mut planes {
                    *value = 1.0 / (1.0 + (-*value).exp());
                }
            }
            Classes::Layout => {
                for tile in planes.chunks_exact_mut(area * LAYOUT_PLANES) {
                    softmax(tile, area);
                }
                let tiles = planes.chunks_exact(area * LAYOUT_PLANES);
                let unknown = vec![0.0; area * (self.classes.planes() - LAYOUT_PLANES)];
                planes = tiles
                    .flat_map(|tile| [tile, &unknown])
                    .flatten()
                    .copied()
                    .collect();
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
                    .map(|tile| self.probabilities_of(network.as_ref(), tile))
                    .collect(),
                Form::Gpu(network) => tiles
                    .values
                    .chunks(Self::TILES_AT_ONCE * area)
                    .map(|tiles| self.probabilities_of(network.as_ref(), tiles))
                    .collect(),
            };
            Ok(answers?.concat())
        })
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

    use parkhang_kernels::device::Device;

    use super::*;
    use crate::checkpoint::Checkpoint;

    /// Logits of a small tile from the network of the fixtures.
    fn logits<M>() -> Vec<f32>
    where
        M: FeatureMap + Send + Sync + std::fmt::Debug + 'static,
    {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bdrc/deeplab");
        let tensors = Checkpoint::open(&fixture.join("model.pth"))
            .unwrap()
            .state_dict(&slots())
            .unwrap();
        let device = Device::flex();
        let mut loader = LayerLoader::new(WeightTensors::imported("deeplab", tensors), &device);
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
        network.forward(map).unwrap().planes().unwrap().into_owned()
    }

    #[test]
    fn a_gpu_computes_what_a_processor_computes() {
        let (processor, gpu) = (logits::<HostMap>(), logits::<DeviceMap>());
        assert_eq!((processor.len(), gpu.len()), (96 * 96, 96 * 96));
        for (processor, gpu) in processor.into_iter().zip(gpu) {
            assert!((processor - gpu).abs() < 1e-4, "{processor} {gpu}");
        }
    }
}
