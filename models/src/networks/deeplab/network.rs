//! DeepLabV3+ (Chen et al., 2018) over ResNet-34 (He et al., 2015), as BDRC's networks for lines and for layouts are built:
//! the last stage of the encoder dilated in place of strided, separable convolutions in the pyramid and the decoder.

use parkhang_kernels::feature_map::{FeatureMap, Network, Pool};
use parkhang_kernels::{Activation, Conv2dShape};

use crate::checkpoint::Slot;
use crate::checkpoint::WeightsError;
use crate::checkpoint::layers::LayerLoader;
use crate::inference::InferenceError;

/// Blocks of the four stages.
const BLOCKS: [usize; 4] = [3, 4, 6, 3];
/// Stride of the first block of each stage, and dilation of all of its blocks.
const STRIDES: [usize; 4] = [1, 2, 2, 1];
const DILATIONS: [usize; 4] = [1, 1, 1, 2];
/// Dilations of the pyramid's separable convolutions.
const RATES: [usize; 3] = [12, 24, 36];
/// Pixels of a tile for each row or column of features of the first stage.
const SHALLOW_STRIDE: usize = 4;
/// Number of pixels that the sides of a tile must be a multiple of.
pub(crate) const TILE_MULTIPLE: usize = 16;

fn block_name(stage: usize, block: usize) -> String {
    format!("encoder.layer{}.{block}", stage + 1)
}

/// The layers in the order in which the network uses them.
pub(crate) fn slots() -> Vec<Slot> {
    let mut slots = vec![Slot::normed("encoder.conv1", "encoder.bn1")];
    for (stage, blocks) in BLOCKS.into_iter().enumerate() {
        for block in 0..blocks {
            let name = block_name(stage, block);
            slots
                .extend([1, 2].map(|number| {
                    Slot::normed(format!("{name}.conv{number}"), format!("{name}.bn{number}"))
                }));
            if block == 0 && stage > 0 {
                slots.push(Slot::normed(
                    format!("{name}.downsample.0"),
                    format!("{name}.downsample.1"),
                ));
            }
        }
    }
    let normed = |name: &str, convolution: &str, norm: &str| {
        Slot::normed(
            format!("decoder.{name}{convolution}"),
            format!("decoder.{name}{norm}"),
        )
    };
    slots.push(normed("aspp.0.convs.0", ".0", ".1"));
    for rate in 1..=RATES.len() {
        let name = format!("aspp.0.convs.{rate}");
        slots.push(Slot::convolution(format!("decoder.{name}.0.0")));
        slots.push(normed(&name, ".0.1", ".1"));
    }
    slots.extend([
        normed("aspp.0.convs.4", ".1", ".2"),
        normed("aspp.0.project", ".0", ".1"),
        Slot::convolution("decoder.aspp.1.0"),
        normed("aspp", ".1.1", ".2"),
        normed("block1", ".0", ".1"),
        Slot::convolution("decoder.block2.0.0"),
        normed("block2", ".0.1", ".1"),
        Slot::convolution("segmentation_head.0"),
    ]);
    slots
}

/// Two convolutions whose result is added to what they were given.
#[derive(Debug)]
struct Block<C> {
    convolutions: [C; 2],
    downsample: Option<C>,
}

impl<C> Block<C> {
    fn load<M: FeatureMap<Convolution = C>>(
        loader: &mut LayerLoader<'_>,
        stage: usize,
        block: usize,
        [inputs, outputs]: [usize; 2],
    ) -> Result<Self, WeightsError> {
        let name = block_name(stage, block);
        let first = block == 0;
        let stride = if first { STRIDES[stage] } else { 1 };
        let mut layer = |convolution: &str, norm: &str, shape| {
            let norm = format!("{name}.{norm}");
            loader.layer::<M>(&format!("{name}.{convolution}"), Some(&norm), shape)
        };
        let shape = |inputs, stride| {
            Conv2dShape::square(inputs, outputs, 3, [stride, stride]).dilated(DILATIONS[stage])
        };
        Ok(Self {
            convolutions: [
                layer("conv1", "bn1", shape(inputs, stride))?,
                layer("conv2", "bn2", shape(outputs, 1))?,
            ],
            downsample: if first && stage > 0 {
                let shape = Conv2dShape::square(inputs, outputs, 1, [stride, stride]);
                Some(layer("downsample.0", "downsample.1", shape)?)
            } else {
                None
            },
        })
    }

    fn forward<M: FeatureMap<Convolution = C>>(&self, map: &M) -> Result<M, InferenceError> {
        let [first, second] = &self.convolutions;
        let deep = map
            .convolve(first, Activation::Relu)?
            .convolve(second, Activation::None)?;
        Ok(match &self.downsample {
            Some(downsample) => deep.add(&map.convolve(downsample, Activation::None)?),
            None => deep.add(map),
        }
        .relu())
    }
}

/// A depthwise convolution and a pointwise one with a norm.
#[derive(Debug)]
struct Separable<C> {
    depthwise: C,
    pointwise: C,
}

impl<C> Separable<C> {
    fn load<M: FeatureMap<Convolution = C>>(
        loader: &mut LayerLoader<'_>,
        (name, norm): (&str, &str),
        [inputs, outputs]: [usize; 2],
        dilation: usize,
    ) -> Result<Self, WeightsError> {
        let spread = Conv2dShape::depthwise(inputs, 3).dilated(dilation);
        let mix = Conv2dShape::pointwise(inputs, outputs);
        Ok(Self {
            depthwise: loader.layer::<M>(&format!("{name}.0"), None, spread)?,
            pointwise: loader.layer::<M>(&format!("{name}.1"), Some(norm), mix)?,
        })
    }

    fn forward<M: FeatureMap<Convolution = C>>(&self, map: &M) -> Result<M, InferenceError> {
        map.convolve(&self.depthwise, Activation::None)?
            .convolve(&self.pointwise, Activation::Relu)
    }
}

/// The network for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct DeepLab<M: FeatureMap> {
    stem: M::Convolution,
    stages: Vec<Vec<Block<M::Convolution>>>,
    /// The branches of the pyramid: of single pixels, of their wider and wider neighbourhoods, of the whole tile.
    single: M::Convolution,
    neighbours: Vec<Separable<M::Convolution>>,
    whole: M::Convolution,
    project: M::Convolution,
    refine: Separable<M::Convolution>,
    /// Convolution of the features of the first stage.
    skipped: M::Convolution,
    join: Separable<M::Convolution>,
    head: M::Convolution,
    pub(crate) classes: usize,
}

impl<M: FeatureMap> DeepLab<M> {
    /// Loads the network; its widths are those of the weights. The three channels of a tile are alike, so their weights are
    /// added up.
    pub(crate) fn load(loader: &mut LayerLoader<'_>) -> Result<Self, WeightsError> {
        let outputs_of = |loader: &LayerLoader<'_>, name: &str| {
            let [outputs, _, _, _] = loader.tensors.shape(&format!("{name}.weight"))?;
            Ok::<_, WeightsError>(outputs)
        };
        let stem_width = outputs_of(loader, "encoder.conv1")?;
        let stem = load_stem::<M>(loader, stem_width)?;
        let mut stages = Vec::with_capacity(BLOCKS.len());
        let mut widths = vec![stem_width];
        for (stage, blocks) in BLOCKS.into_iter().enumerate() {
            let outputs = outputs_of(loader, &format!("{}.conv1", block_name(stage, 0)))?;
            let mut inputs = widths[stage];
            let mut loaded = Vec::with_capacity(blocks);
            for block in 0..blocks {
                loaded.push(Block::load::<M>(loader, stage, block, [inputs, outputs])?);
                inputs = outputs;
            }
            stages.push(loaded);
            widths.push(outputs);
        }
        let (shallow, deep) = (widths[1], widths[BLOCKS.len()]);
        let width = outputs_of(loader, "decoder.aspp.0.project.0")?;
        let skipped_width = outputs_of(loader, "decoder.block1.0")?;
        let classes = outputs_of(loader, "segmentation_head.0")?;
        let neighbours = RATES
            .into_iter()
            .enumerate()
            .map(|(number, rate)| {
                let name = format!("decoder.aspp.0.convs.{}", number + 1);
                let (convolution, norm) = (format!("{name}.0"), format!("{name}.1"));
                Separable::load::<M>(loader, (&convolution, &norm), [deep, width], rate)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let refine = ("decoder.aspp.1", "decoder.aspp.2");
        let refine = Separable::load::<M>(loader, refine, [width, width], 1)?;
        let join = ("decoder.block2.0", "decoder.block2.1");
        let join = Separable::load::<M>(loader, join, [width + skipped_width, width], 1)?;
        let mut pointwise = |name: &str, norm: Option<&str>, inputs, outputs| {
            loader.layer::<M>(name, norm, Conv2dShape::pointwise(inputs, outputs))
        };
        let branches = 2 + RATES.len();
        let single = ("decoder.aspp.0.convs.0.0", "decoder.aspp.0.convs.0.1");
        let whole = ("decoder.aspp.0.convs.4.1", "decoder.aspp.0.convs.4.2");
        let project = ("decoder.aspp.0.project.0", "decoder.aspp.0.project.1");
        Ok(Self {
            stem,
            stages,
            single: pointwise(single.0, Some(single.1), deep, width)?,
            whole: pointwise(whole.0, Some(whole.1), deep, width)?,
            project: pointwise(project.0, Some(project.1), branches * width, width)?,
            skipped: pointwise(
                "decoder.block1.0",
                Some("decoder.block1.1"),
                shallow,
                skipped_width,
            )?,
            head: pointwise("segmentation_head.0", None, width, classes)?,
            neighbours,
            refine,
            join,
            classes,
        })
    }

    fn pyramid(&self, deep: &M) -> Result<M, InferenceError> {
        let size = deep.size();
        let whole = deep.mean(size.columns).convolve(&self.whole, Activation::Relu)?;
        let mut branches = vec![deep.convolve(&self.single, Activation::Relu)?];
        for neighbours in &self.neighbours {
            branches.push(neighbours.forward(deep)?);
        }
        // Enlarging one pixel gives the same value everywhere.
        branches.push(whole.spread(size.rows, size.columns));
        let joined = M::stack(&branches).convolve(&self.project, Activation::Relu)?;
        self.refine.forward(&joined)
    }
}

fn load_stem<M: FeatureMap>(
    loader: &mut LayerLoader<'_>,
    outputs: usize,
) -> Result<M::Convolution, WeightsError> {
    const COLOURS: usize = 3;
    let shape = Conv2dShape::square(COLOURS, outputs, 7, [2, 2]);
    let mut weights = loader.imported("encoder.conv1", Some("encoder.bn1"), shape)?;
    let taps = shape.kernel[0] * shape.kernel[1];
    weights.weight = weights
        .weight
        .chunks_exact(COLOURS * taps)
        .flat_map(|kernel| (0..taps).map(|tap| kernel.iter().skip(tap).step_by(taps).sum::<f32>()))
        .collect();
    // Upstream repeats the grey page three times; one channel with the sum of the weights does a third of the
    // work.
    let shape = Conv2dShape { inputs: 1, ..shape };
    Ok(M::convolution(
        weights,
        shape,
        loader.precision(),
        loader.device(),
    ))
}

impl<M: FeatureMap + Send + Sync + std::fmt::Debug> Network<M> for DeepLab<M> {
    /// Tiles of one channel, to one channel of logits for each class.
    fn forward(&self, map: M) -> Result<M, InferenceError> {
        let tile = map.size();
        let mut map = map.convolve(&self.stem, Activation::Relu)?.max_pool(Pool {
            kernel: [3, 3],
            stride: [2, 2],
            padding: 1,
            after: 0,
        });
        let mut shallow = None;
        for stage in &self.stages {
            for block in stage {
                map = block.forward(&map)?;
            }
            // The decoder takes the features of the first stage alone.
            shallow.get_or_insert_with(|| map.clone());
        }
        let deep = self.pyramid(&map)?;
        let (rows, columns) = (tile.rows / SHALLOW_STRIDE, tile.columns / SHALLOW_STRIDE);
        let deep = deep.enlarge(rows, columns);
        let joined = match shallow {
            Some(shallow) => M::stack(&[deep, shallow.convolve(&self.skipped, Activation::Relu)?]),
            None => deep,
        };
        let logits = self
            .join
            .forward(&joined)?
            .convolve(&self.head, Activation::None)?;
        Ok(logits.enlarge(tile.rows, tile.columns))
    }
}
