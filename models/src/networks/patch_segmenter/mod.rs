//! The segmentation network, `patch-segmenter`: U-shaped, with the residual blocks of ConvNeXt (Liu et al. 2022) and
//! batch norm. It sees the page in patches of 4x4 pixels and never works at full resolution, where a processor loses
//! most of its time. `models/training/segmentation_net.py` is the same network for training.

use std::num::NonZeroU16;
use std::sync::Arc;

use parkhang_kernels::device::{ComputeDevice, DeviceKind};
use parkhang_kernels::feature_map::{DeviceMap, FeatureMap, HostMap, MapSize, ResidualBlock};
use parkhang_kernels::{Activation, Conv2dShape};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::checkpoint::WeightsError;
use crate::checkpoint::layers::{LayerLoader, Shift};
use crate::checkpoint::tensors::WeightTensors;
use crate::inference::{InferenceError, Segmenter, TileBatch};

/// Name of the architecture in `model.json`.
pub(crate) const ARCHITECTURE: &str = "patch-segmenter";
/// Side of the patches that the stem reads and the head writes, in pixels.
const PATCH: usize = 4;
/// Number of pixels that the sides of a tile must be a multiple of: the patches, halved twice.
pub(crate) const TILE_MULTIPLE: usize = 16;
/// The value of a pixel without ink.
const PAPER: f32 = 1.0;
/// Paper right of and below the ink that the processor lets the network see; the rest is left out.
const MARGIN: usize = 32;
/// Kernels of the depthwise convolutions at 1/4, 1/8 and 1/16 of the resolution.
const KERNELS: [usize; 3] = [3, 3, 5];

/// Dimensions of the network `patch-segmenter`, from the finest stage to the coarsest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkDimensions {
    pub(crate) channels: [NonZeroU16; 3],
    /// Residual blocks on the way down.
    pub(crate) blocks: [u16; 3],
}

fn load_block<M: FeatureMap>(
    loader: &mut LayerLoader<'_>,
    name: &str,
    channels: usize,
    kernel: usize,
) -> Result<ResidualBlock<M::Convolution>, WeightsError> {
    let mut layer = |convolution: &str, norm: &str, shape| {
        let norm = format!("{name}.{norm}");
        let convolution = format!("{name}.{convolution}");
        loader.shifted_layer::<M>(&convolution, Shift::BatchNorm(&norm), shape)
    };
    Ok(ResidualBlock {
        depthwise: layer("dw", "bn1", Conv2dShape::depthwise(channels, kernel))?,
        widen: layer("pw1", "bn2", Conv2dShape::pointwise(channels, 2 * channels))?,
        narrow: layer("pw2", "bn3", Conv2dShape::pointwise(2 * channels, channels))?,
    })
}

/// The network with batch norm folded into its convolutions, for maps of the kind `M`.
#[derive(Debug)]
struct Network<M: FeatureMap> {
    stem: M::Convolution,
    stages: [Vec<ResidualBlock<M::Convolution>>; 3],
    downs: [M::Convolution; 2],
    /// Way up, from the coarsest stage to the finest: the 1x1 convolution before the upsampling and the block after it.
    ups: [(M::Convolution, ResidualBlock<M::Convolution>); 2],
    head: M::Convolution,
}

impl<M: FeatureMap> Network<M> {
    fn load(loader: &mut LayerLoader<'_>, dimensions: &NetworkDimensions) -> Result<Self, WeightsError> {
        let [fine, middle, coarse] = dimensions.channels.map(|channels| usize::from(channels.get()));
        let stem = Conv2dShape::patch(1, fine, PATCH);
        let stem = loader.shifted_layer::<M>("stem", Shift::Bias, stem)?;
        let mut stage = |number: usize, channels| {
            (0..usize::from(dimensions.blocks[number - 1]))
                .map(|block| {
                    let name = format!("stage{number}.{block}");
                    load_block::<M>(loader, &name, channels, KERNELS[number - 1])
                })
                .collect::<Result<Vec<_>, _>>()
        };
        let stages = [stage(1, fine)?, stage(2, middle)?, stage(3, coarse)?];
        let mut layer = |name: &str, shift: Shift<'_>, shape| loader.shifted_layer::<M>(name, shift, shape);
        let head = layer("head", Shift::Bias, Conv2dShape::pointwise(fine, PATCH * PATCH))?;
        let mut down = |name: &str, inputs, outputs| {
            let norm = format!("{name}.bn");
            let shape = Conv2dShape::patch(inputs, outputs, 2);
            layer(&format!("{name}.conv"), Shift::BatchNorm(&norm), shape)
        };
        let downs = [down("down1", fine, middle)?, down("down2", middle, coarse)?];
        let mut up = |number: usize, inputs, outputs| {
            let shape = Conv2dShape::pointwise(inputs, outputs);
            let narrow = loader.shifted_layer::<M>(&format!("up{number}"), Shift::Bias, shape)?;
            let block = load_block::<M>(loader, &format!("block{number}"), outputs, KERNELS[number - 1])?;
            Ok::<_, WeightsError>((narrow, block))
        };
        let ups = [up(2, coarse, middle)?, up(1, middle, fine)?];
        Ok(Self {
            stem,
            stages,
            downs,
            ups,
            head,
        })
    }

    /// Tiles of one channel, to the probabilities of the pixels of each patch: a channel for each place in a patch.
    fn forward(&self, tiles: &M) -> Result<M, InferenceError> {
        let run = |stage: &[ResidualBlock<_>], map: M| {
            stage.iter().try_fold(map, |map, block| map.residual_block(block))
        };
        let [fine, middle, coarse] = &self.stages;
        let [to_middle, to_coarse] = &self.downs;
        let quarter = run(fine, tiles.convolve(&self.stem, Activation::None)?)?;
        let eighth = run(middle, quarter.convolve(to_middle, Activation::Relu)?)?;
        let mut map = run(coarse, eighth.convolve(to_coarse, Activation::Relu)?)?;
        for ((narrow, block), skipped) in self.ups.iter().zip([eighth, quarter]) {
            // The convolution of single pixels before the doubling, where it has a quarter of the pixels: the
            // result is the same.
            let doubled = map.convolve(narrow, Activation::None)?.doubled();
            map = doubled.add(&skipped).residual_block(block)?;
        }
        map.convolve(&self.head, Activation::Sigmoid)
    }
}

/// The network in the form that suits its device.
#[derive(Debug)]
enum Form {
    Processor(Box<Network<HostMap>>),
    Gpu(Box<Network<DeviceMap>>),
}

/// A [`Segmenter`] around the network `patch-segmenter`. The processor takes each tile by itself, as many at a time as the
/// device has threads, because batches only drive the data out of its caches, and leaves out blank paper at its right and at its
/// bottom. A GPU takes whole tiles in batches.
#[derive(Debug)]
pub(crate) struct PatchSegmenter {
    form: Form,
    tile_size: usize,
    device: ComputeDevice,
}

impl PatchSegmenter {
    /// Tiles that a GPU computes at once; bounds the memory that a large page takes.
    const TILES_AT_ONCE: usize = 8;

    pub(crate) fn load(
        tensors: WeightTensors<'_>,
        dimensions: &NetworkDimensions,
        tile_size: usize,
        device: &ComputeDevice,
    ) -> Result<Arc<Self>, WeightsError> {
        let mut loader = LayerLoader::new(tensors, device.burn()).with_precision(device.precision());
        let form = match device.kind() {
            DeviceKind::Cpu => Form::Processor(Box::new(Network::load(&mut loader, dimensions)?)),
            DeviceKind::Wgpu | DeviceKind::Cuda => {
                Form::Gpu(Box::new(Network::load(&mut loader, dimensions)?))
            }
        };
        loader.tensors.finish()?;
        Ok(Arc::new(Self {
            form,
            tile_size,
            device: device.clone(),
        }))
    }

    /// Probabilities of the upper left `rows` by `columns` pixels of each tile.
    fn probabilities<M: FeatureMap>(
        &self,
        network: &Network<M>,
        tiles: &[&[f32]],
        rows: usize,
        columns: usize,
    ) -> Result<Vec<f32>, InferenceError> {
        let mut pixels = Vec::with_capacity(tiles.len() * rows * columns);
        for tile in tiles {
            for row in tile.chunks_exact(self.tile_size).take(rows) {
                pixels.extend_from_slice(&row[..columns]);
            }
        }
        let size = MapSize {
            channels: 1,
            rows,
            columns,
        };
        let images = M::images(pixels, tiles.len(), size, self.device.burn());
        let patches = network.forward(&images)?.into_planes()?;
        let mut probabilities = vec![0.0; patches.len()];
        let by_tile = probabilities.chunks_exact_mut(rows * columns);
        for (patches, target) in patches.chunks_exact(rows * columns).zip(by_tile) {
            join_patches(patches, columns, target);
        }
        Ok(probabilities)
    }

    /// Fills in the part of a tile that has ink; beyond it there is no line.
    fn inked_part(
        &self,
        network: &Network<HostMap>,
        tile: &[f32],
        probabilities: &mut [f32],
    ) -> Result<(), InferenceError> {
        let (rows, columns) = inked_size(tile, self.tile_size);
        let inked = self.probabilities(network, &[tile], rows, columns)?;
        for (target, row) in probabilities
            .chunks_exact_mut(self.tile_size)
            .zip(inked.chunks_exact(columns))
        {
            target[..columns].copy_from_slice(row);
        }
        Ok(())
    }
}

impl Segmenter for PatchSegmenter {
    fn tile_size(&self) -> usize {
        self.tile_size
    }

    fn line_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
        let TileBatch { size, count, values } = tiles;
        let area = self.tile_size * self.tile_size;
        if *size != self.tile_size || values.len() != count * area {
            return Err(InferenceError::Shape {
                expected: format!("{count} x {0} x {0}", self.tile_size),
                actual: values.len(),
            });
        }
        let tiles = values.chunks_exact(area);
        self.device.run(|| match &self.form {
            Form::Processor(network) => {
                let mut probabilities = vec![0.0; values.len()];
                tiles
                    .zip(probabilities.chunks_exact_mut(area))
                    .par_bridge()
                    .try_for_each(|(tile, probabilities)| self.inked_part(network, tile, probabilities))?;
                Ok(probabilities)
            }
            Form::Gpu(network) => {
                let tiles: Vec<_> = tiles.collect();
                let batches = tiles.chunks(Self::TILES_AT_ONCE);
                let answers: Result<Vec<_>, _> = batches
                    .map(|batch| self.probabilities(network, batch, self.tile_size, self.tile_size))
                    .collect();
                Ok(answers?.concat())
            }
        })
    }
}

/// Puts the pixels of patches in their places. `patches` has a plane for each place in a patch; a row of the target is
/// `columns` wide.
fn join_patches(patches: &[f32], columns: usize, target: &mut [f32]) {
    let planes: Vec<&[f32]> = patches.chunks_exact(target.len() / (PATCH * PATCH)).collect();
    for (row, target) in target.chunks_exact_mut(columns).enumerate() {
        let start = row / PATCH * (columns / PATCH);
        let planes = &planes[row % PATCH * PATCH..][..PATCH];
        let seen: [&[f32]; PATCH] = std::array::from_fn(|place| &planes[place][start..][..columns / PATCH]);
        for (patch, target) in target.as_chunks_mut::<PATCH>().0.iter_mut().enumerate() {
            *target = seen.map(|plane| plane[patch]);
        }
    }
}

/// Rows and columns of a tile up to its last ink and a margin of paper, as multiples that the network can take.
fn inked_size(tile: &[f32], side: usize) -> (usize, usize) {
    let inked = |pixels: &[f32]| pixels.iter().rposition(|&value| value < PAPER);
    let (mut rows, mut columns) = (0, 0);
    for (number, row) in tile.chunks_exact(side).enumerate() {
        if let Some(last) = inked(row) {
            rows = number + 1;
            columns = columns.max(last + 1);
        }
    }
    let with_margin = |length: usize| (length + MARGIN).next_multiple_of(TILE_MULTIPLE).min(side);
    (with_margin(rows), with_margin(columns))
}
