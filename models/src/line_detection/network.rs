//! The segmentation network, `patch-segmenter`: U-shaped, with the residual blocks of ConvNeXt (Liu et al. 2022) and
//! batch norm. It sees the page in patches of 4x4 pixels and never works at full resolution, where a processor loses
//! most of its time. `models/training/segmentation_net.py` is the same network for training.

use std::num::NonZeroU16;
use std::sync::Arc;

use burn::nn::conv::Conv2d;
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::module::interpolate;
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::device::{ComputeDevice, DeviceKind, read};
use crate::inference::{InferenceError, Segmenter, TileBatch};
use crate::weights::WeightsError;
use crate::weights::layers::{Conv2dShape, LayerLoader, Shift};
use crate::weights::tensors::WeightTensors;

/// Name of the architecture in `model.json`.
pub const ARCHITECTURE: &str = "patch-segmenter";
/// Side of the patches that the stem reads and the head writes, in pixels.
const PATCH: usize = 4;
/// Sides of a tile must be a multiple of this: the patches, halved twice.
pub const TILE_MULTIPLE: usize = 16;
/// The value of a pixel without ink.
const PAPER: f32 = 1.0;
/// Paper right of and below the ink that the processor lets the network see; the rest is left out.
const MARGIN: usize = 32;
/// Kernels of the depthwise convolutions at 1/4, 1/8 and 1/16 of the resolution.
const KERNELS: [usize; 3] = [3, 3, 5];

/// Dimensions of the network `patch-segmenter`, from the finest stage to the coarsest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkDimensions {
    pub channels: [NonZeroU16; 3],
    /// Residual blocks on the way down.
    pub blocks: [u16; 3],
}

/// Depthwise convolution, then a two-layer perceptron per pixel, added to the input.
#[derive(Debug)]
struct Block {
    depthwise: Conv2d,
    widen: Conv2d,
    narrow: Conv2d,
}

impl Block {
    fn load(
        loader: &mut LayerLoader<'_>,
        name: &str,
        channels: usize,
        kernel: usize,
    ) -> Result<Self, WeightsError> {
        let mut layer = |convolution: &str, norm: &str, shape| {
            loader.conv2d(
                &format!("{name}.{convolution}"),
                Shift::BatchNorm(&format!("{name}.{norm}")),
                shape,
            )
        };
        Ok(Self {
            depthwise: layer("dw", "bn1", Conv2dShape::depthwise(channels, kernel))?,
            widen: layer("pw1", "bn2", Conv2dShape::pointwise(channels, 2 * channels))?,
            narrow: layer("pw2", "bn3", Conv2dShape::pointwise(2 * channels, channels))?,
        })
    }

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let spread = self.depthwise.forward(input.clone());
        relu(input + self.narrow.forward(relu(self.widen.forward(spread))))
    }
}

/// Cuts a map into square patches and looks at each by itself: a convolution whose stride is its kernel. The pixels of a
/// patch become channels first, because burn-flex is slow in gathering what it needs for large strides.
#[derive(Debug)]
struct Patches {
    side: usize,
    product: Conv2d,
}

impl Patches {
    fn load(
        loader: &mut LayerLoader<'_>,
        name: &str,
        shift: Shift<'_>,
        [inputs, outputs]: [usize; 2],
        side: usize,
    ) -> Result<Self, WeightsError> {
        let product = loader.patch_product(name, shift, Conv2dShape::patch(inputs, outputs, side))?;
        Ok(Self { side, product })
    }

    fn forward(&self, map: Tensor<4>) -> Tensor<4> {
        let [count, channels, rows, columns] = map.dims();
        let (rows, columns) = (rows / self.side, columns / self.side);
        let patches: Tensor<6> = map
            .reshape([count, channels, rows, self.side, columns, self.side])
            .permute([0, 1, 3, 5, 2, 4]);
        let channels = channels * self.side * self.side;
        self.product
            .forward(patches.reshape([count, channels, rows, columns]))
    }
}

/// The network with batch norm folded into its convolutions.
#[derive(Debug)]
struct Network {
    /// Over the pixels of patches, as [`push_patches`] lays them.
    stem: Conv2d,
    stages: [Vec<Block>; 3],
    downs: [Patches; 2],
    /// From the coarsest stage to the finest: the 1x1 convolution before the upsampling and the block after it.
    ups: [(Conv2d, Block); 2],
    head: Conv2d,
}

impl Network {
    fn load(loader: &mut LayerLoader<'_>, dimensions: &NetworkDimensions) -> Result<Self, WeightsError> {
        let [fine, middle, coarse] = dimensions.channels.map(|channels| usize::from(channels.get()));
        let stem = loader.patch_product("stem", Shift::Bias, Conv2dShape::patch(1, fine, PATCH))?;
        let mut stage = |number: usize, channels| {
            (0..usize::from(dimensions.blocks[number - 1]))
                .map(|block| {
                    Block::load(
                        loader,
                        &format!("stage{number}.{block}"),
                        channels,
                        KERNELS[number - 1],
                    )
                })
                .collect::<Result<Vec<_>, _>>()
        };
        let stages = [stage(1, fine)?, stage(2, middle)?, stage(3, coarse)?];
        let mut down = |name: &str, inputs, outputs| {
            let norm = format!("{name}.bn");
            let sizes = [inputs, outputs];
            Patches::load(loader, &format!("{name}.conv"), Shift::BatchNorm(&norm), sizes, 2)
        };
        let downs = [down("down1", fine, middle)?, down("down2", middle, coarse)?];
        let mut up = |number: usize, inputs, outputs| {
            let narrow = Conv2dShape::pointwise(inputs, outputs);
            let convolution = loader.conv2d(&format!("up{number}"), Shift::Bias, narrow)?;
            let block = Block::load(loader, &format!("block{number}"), outputs, KERNELS[number - 1])?;
            Ok::<_, WeightsError>((convolution, block))
        };
        let ups = [up(2, coarse, middle)?, up(1, middle, fine)?];
        let head = loader.conv2d("head", Shift::Bias, Conv2dShape::pointwise(fine, PATCH * PATCH))?;
        Ok(Self {
            stem,
            stages,
            downs,
            ups,
            head,
        })
    }

    /// Tiles of `rows` by `columns` pixels in patches, `[tiles, 16, rows / 4, columns / 4]`, to logits `[tiles, rows / 4, 4,
    /// columns / 4, 4]`: row of patches, row in the patch, patch, column in the patch, which is a tile row by row.
    fn forward(&self, patches: Tensor<4>) -> Tensor<5> {
        let run = |stage: &[Block], input| stage.iter().fold(input, |map, block| block.forward(map));
        let [fine, middle, coarse] = &self.stages;
        let quarter = run(fine, self.stem.forward(patches));
        let eighth = run(middle, relu(self.downs[0].forward(quarter.clone())));
        let mut map = run(coarse, relu(self.downs[1].forward(eighth.clone())));
        for ((narrow, block), skipped) in self.ups.iter().zip([eighth, quarter]) {
            map = block.forward(skipped + upsample_twice(narrow.forward(map)));
        }
        let patches = self.head.forward(map);
        let [tiles, _, rows, columns] = patches.dims();
        patches
            .reshape([tiles, PATCH, PATCH, rows, columns])
            .permute([0, 3, 1, 4, 2])
    }
}

fn upsample_twice(map: Tensor<4>) -> Tensor<4> {
    let [_, _, rows, columns] = map.dims();
    interpolate(
        map,
        InterpolateOptions::new(InterpolateMode::Nearest).with_output_size([2 * rows, 2 * columns]),
    )
}

/// A [`Segmenter`] around the network `patch-segmenter`. The processor takes each tile by itself, as many at a time as the
/// device has threads, because batches only drive the data out of its caches, and leaves out blank paper at its right and at its
/// bottom. A GPU takes whole tiles in batches.
#[derive(Debug)]
pub struct PatchSegmenter {
    network: Network,
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
        let mut loader = LayerLoader::new(tensors, device.burn());
        let network = Network::load(&mut loader, dimensions)?;
        loader.tensors.finish()?;
        Ok(Arc::new(Self {
            network,
            tile_size,
            device: device.clone(),
        }))
    }

    /// Probabilities of the upper left `rows` by `columns` pixels of each tile.
    fn probabilities(
        &self,
        tiles: &[&[f32]],
        rows: usize,
        columns: usize,
    ) -> Result<Vec<f32>, InferenceError> {
        let mut patches = Vec::with_capacity(tiles.len() * rows * columns);
        for tile in tiles {
            push_patches(&mut patches, tile, self.tile_size, rows, columns);
        }
        let shape = [tiles.len(), PATCH * PATCH, rows / PATCH, columns / PATCH];
        let patches = Tensor::from_data(TensorData::new(patches, shape), self.device.burn());
        read(sigmoid(self.network.forward(patches)))
    }

    /// Fills in the part of a tile that has ink; beyond it there is no line.
    fn inked_part(&self, tile: &[f32], probabilities: &mut [f32]) -> Result<(), InferenceError> {
        let (rows, columns) = inked_size(tile, self.tile_size);
        let inked = self.probabilities(&[tile], rows, columns)?;
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
        self.device.run(|| match self.device.kind() {
            DeviceKind::Cpu => {
                let mut probabilities = vec![0.0; values.len()];
                tiles
                    .zip(probabilities.chunks_exact_mut(area))
                    .par_bridge()
                    .try_for_each(|(tile, probabilities)| self.inked_part(tile, probabilities))?;
                Ok(probabilities)
            }
            DeviceKind::Wgpu | DeviceKind::Cuda => {
                let tiles: Vec<_> = tiles.collect();
                let batches = tiles.chunks(Self::TILES_AT_ONCE);
                let answers: Result<Vec<_>, _> = batches
                    .map(|batch| self.probabilities(batch, self.tile_size, self.tile_size))
                    .collect();
                Ok(answers?.concat())
            }
        })
    }
}

/// Appends `rows` by `columns` pixels of a tile `side` wide: those at the first place of each patch, then those at the second.
fn push_patches(target: &mut Vec<f32>, tile: &[f32], side: usize, rows: usize, columns: usize) {
    for row_in_patch in 0..PATCH {
        for column_in_patch in 0..PATCH {
            for row in tile
                .chunks_exact(side)
                .take(rows)
                .skip(row_in_patch)
                .step_by(PATCH)
            {
                target.extend(row[..columns].iter().skip(column_in_patch).step_by(PATCH));
            }
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
