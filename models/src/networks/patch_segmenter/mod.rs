//! The segmentation network, `patch-segmenter`: U-shaped, with the residual blocks of ConvNeXt (Liu et al. 2022) and
//! batch norm. It sees the page in patches of 4x4 pixels and never works at full resolution, where a processor loses
//! most of its time. Where it was trained to, it also tells what a page holds besides its text ([`layout`]), out of the map of every eighth
//! pixel; that costs nothing unless it is asked for. `models/training/segmentation_net.py` is the same network for training.

mod layout;

use std::borrow::Cow;
use std::iter::repeat_n;
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
use crate::inference::{Classes, InferenceError, Segmenter, TileBatch};
use layout::Layout;

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
    /// Residual blocks before the kinds of a layout; `None` for a network of lines alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) layout_blocks: Option<u16>,
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
    layout: Option<Layout<M>>,
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
        let layout = dimensions
            .layout_blocks
            .map(|blocks| Layout::load(loader, blocks, middle))
            .transpose()?;
        Ok(Self {
            stem,
            stages,
            downs,
            ups,
            head,
            layout,
        })
    }

    /// Tiles of one channel, to the probabilities of their pixels, and with [`Classes::Layout`] to the scores of the kinds.
    fn forward(&self, tiles: &M, classes: Classes) -> Result<(M, Option<M>), InferenceError> {
        let run = |stage: &[ResidualBlock<_>], map: M| {
            stage.iter().try_fold(map, |map, block| map.residual_block(block))
        };
        let [fine, middle, coarse] = &self.stages;
        let [to_middle, to_coarse] = &self.downs;
        let quarter = run(fine, tiles.convolve(&self.stem, Activation::None)?)?;
        let eighth = run(middle, quarter.convolve(to_middle, Activation::Relu)?)?;
        let sixteenth = run(coarse, eighth.convolve(to_coarse, Activation::Relu)?)?;
        let up = |map: &M, (narrow, block): &(M::Convolution, ResidualBlock<_>), skipped: M| {
            // The convolution of single pixels before the doubling, where it has a quarter of the pixels: the
            // result is the same.
            let coarse = map.convolve(narrow, Activation::None)?;
            skipped.add_doubled(&coarse).residual_block(block)
        };
        let [to_eighth, to_quarter] = &self.ups;
        let map = up(&sixteenth, to_eighth, eighth)?;
        let patches = up(&map, to_quarter, quarter)?.convolve(&self.head, Activation::Sigmoid)?;
        let kinds = match (classes, &self.layout) {
            (Classes::Line, _) => None,
            (Classes::Layout, None) => return Err(InferenceError::NoLayout),
            (Classes::Layout, Some(layout)) => Some(layout.scores(map)?),
        };
        Ok((patches.interleave(PATCH), kinds))
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
    has_layout: bool,
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
            has_layout: dimensions.layout_blocks.is_some(),
            device: device.clone(),
        }))
    }

    /// Result of `take` for the planes of the classes, of the upper left `rows` by `columns` pixels of each tile.
    fn probabilities<M: FeatureMap, T>(
        &self,
        network: &Network<M>,
        tiles: &[&[f32]],
        [rows, columns]: [usize; 2],
        classes: Classes,
        take: impl FnOnce(Cow<'_, [f32]>) -> T,
    ) -> Result<T, InferenceError> {
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
        let (lines, kinds) = network.forward(&images, classes)?;
        let lines = lines.planes()?;
        let Some(kinds) = kinds else {
            return Ok(take(lines));
        };
        let mut kinds = kinds.planes()?.into_owned();
        let mut planes = Vec::with_capacity(lines.len() * classes.planes());
        let of_a_tile = kinds.len() / tiles.len().max(1);
        let by_tile = kinds.chunks_exact_mut(of_a_tile);
        for (kinds, lines) in by_tile.zip(lines.chunks_exact(rows * columns)) {
            layout::add_planes(kinds, lines, columns, &mut planes);
        }
        Ok(take(Cow::Owned(planes)))
    }

    /// Planes of a tile of which the part that has ink is computed; beyond it there is paper and no line.
    fn inked_part(
        &self,
        network: &Network<HostMap>,
        tile: &[f32],
        classes: Classes,
    ) -> Result<Vec<f32>, InferenceError> {
        let side = self.tile_size;
        let size @ [rows, columns] = inked_size(tile, side);
        self.probabilities(network, &[tile], size, classes, |inked| {
            let mut planes = Vec::with_capacity(tile.len() * classes.planes());
            for (number, inked) in inked.chunks_exact(rows * columns).enumerate() {
                // The first plane of the layout is that of paper.
                let is_paper = classes == Classes::Layout && number == 0;
                let beyond = f32::from(u8::from(is_paper));
                for row in inked.chunks_exact(columns) {
                    planes.extend_from_slice(row);
                    planes.extend(repeat_n(beyond, side - columns));
                }
                planes.extend(repeat_n(beyond, (side - rows) * side));
            }
            planes
        })
    }

    fn class_probabilities(&self, tiles: &TileBatch, classes: Classes) -> Result<Vec<f32>, InferenceError> {
        let TileBatch { size, count, values } = tiles;
        let area = self.tile_size * self.tile_size;
        if *size != self.tile_size || values.len() != count * area {
            return Err(InferenceError::Shape {
                expected: format!("{count} x {0} x {0}", self.tile_size),
                actual: values.len(),
            });
        }
        self.device.run(|| match &self.form {
            Form::Processor(network) => {
                let tiles = values.par_chunks_exact(area);
                let planes = tiles.map(|tile| self.inked_part(network, tile, classes));
                Ok(joined(planes.collect::<Result<_, _>>()?))
            }
            Form::Gpu(network) => {
                let tiles: Vec<_> = values.chunks_exact(area).collect();
                let size = [self.tile_size; 2];
                let batches = tiles.chunks(Self::TILES_AT_ONCE);
                let planes = batches.map(|batch| {
                    self.probabilities(network, batch, size, classes, |planes| planes.into_owned())
                });
                Ok(joined(planes.collect::<Result<_, _>>()?))
            }
        })
    }
}

/// The planes of several batches one after the other.
fn joined(batches: Vec<Vec<f32>>) -> Vec<f32> {
    match <[_; 1]>::try_from(batches) {
        Ok([batch]) => batch,
        Err(batches) => batches.concat(),
    }
}

impl Segmenter for PatchSegmenter {
    fn tile_size(&self) -> usize {
        self.tile_size
    }

    fn line_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
        self.class_probabilities(tiles, Classes::Line)
    }

    fn has_layout(&self) -> bool {
        self.has_layout
    }

    fn layout_probabilities(&self, tiles: &TileBatch) -> Result<Vec<f32>, InferenceError> {
        self.class_probabilities(tiles, Classes::Layout)
    }
}

/// Rows and columns of a tile up to its last ink and a margin of paper, as multiples that the network can take.
fn inked_size(tile: &[f32], side: usize) -> [usize; 2] {
    let inked = |pixels: &[f32]| pixels.iter().rposition(|&value| value < PAPER);
    let (mut rows, mut columns) = (0, 0);
    for (number, row) in tile.chunks_exact(side).enumerate() {
        if let Some(last) = inked(row) {
            rows = number + 1;
            columns = columns.max(last + 1);
        }
    }
    let with_margin = |length: usize| (length + MARGIN).next_multiple_of(TILE_MULTIPLE).min(side);
    [with_margin(rows), with_margin(columns)]
}
