//! The recogniser of lines, PP-OCRv6 small: a trunk that makes columns of a line, two blocks of a transformer along them
//! (SVTR, Du et al. 2022), and one classifier for all scripts, whose classes CTC (Graves et al. 2006) makes text of.

use parkhang_kernels::feature_map::{FeatureMap, LayerNorm};
use parkhang_kernels::{Activation, Conv2dShape};
use parkhang_models::checkpoint::WeightsError;

use super::lcnet::{Stage, Stem};
use super::{Architecture, Builder};
use crate::inference::{Frame, InferenceError};

/// Rows of a line image.
pub(super) const HEIGHT: usize = 48;
/// Columns of a line image for one frame.
pub(super) const STRIDE: usize = 8;
/// Classes: the blank, the symbols, the space.
pub(crate) const CLASSES: usize = 18_710;
/// Channels of the stages of the trunk.
const CHANNELS: [usize; 3] = [96, 192, 384];
/// Blocks of the stages that keep the size of the map, and whether they excite.
const BLOCKS: [&[bool]; 3] = [
    &[true, false, false],
    &[true, false, true, false, true, false],
    &[true, false],
];
/// Rows and columns of the trunk's map that become one frame.
const WINDOW: [usize; 2] = [3, 2];
/// Channels of a frame.
const WIDTH: usize = 120;
const HEADS: usize = 8;
/// Value that the norms of the blocks add to a variance, and that the last one adds.
const EPSILONS: [f32; 2] = [1e-5, 1e-6];

/// The network, for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct Recognizer<M: FeatureMap> {
    stem: Stem<M::Convolution>,
    stages: Vec<Stage<M::Convolution>>,
    shortcut: M::Convolution,
    project: M::Convolution,
    neighbours: M::Convolution,
    blocks: Vec<TransformerBlock<M>>,
    norm: LayerNorm,
    classifier: M::Convolution,
}

#[derive(Debug)]
struct TransformerBlock<M: FeatureMap> {
    before_attention: LayerNorm,
    /// To queries, keys and values.
    split: M::Convolution,
    join: M::Convolution,
    before_perceptron: LayerNorm,
    widen: M::Convolution,
    narrow: M::Convolution,
}

impl<M: FeatureMap> TransformerBlock<M> {
    fn load(builder: &mut Builder<'_>, name: &str) -> Result<Self, WeightsError> {
        let part = |part: &str| format!("{name}.{part}");
        Ok(Self {
            before_attention: builder.source.layer_norm(&part("norm.1"), WIDTH, EPSILONS[0])?,
            split: builder.linear::<M>(&part("split"), WIDTH, 3 * WIDTH)?,
            join: builder.linear::<M>(&part("join"), WIDTH, WIDTH)?,
            before_perceptron: builder.source.layer_norm(&part("norm.2"), WIDTH, EPSILONS[0])?,
            widen: builder.linear::<M>(&part("widen"), WIDTH, 2 * WIDTH)?,
            narrow: builder.linear::<M>(&part("narrow"), 2 * WIDTH, WIDTH)?,
        })
    }

    fn forward(&self, map: M) -> Result<M, InferenceError> {
        let attended = map
            .layer_norm(&self.before_attention)
            .convolve(&self.split, Activation::None)?
            .attend(HEADS)
            .convolve(&self.join, Activation::None)?;
        let map = attended.add(&map);
        let perceived = map
            .layer_norm(&self.before_perceptron)
            .convolve(&self.widen, Activation::Swish)?
            .convolve(&self.narrow, Activation::None)?;
        Ok(perceived.add(&map))
    }
}

impl<M: FeatureMap> Architecture<M> for Recognizer<M> {
    const NAME: &'static str = "ppocrv6-rec-small";
    const OPERATORS: &'static [&'static str] = &["Erf", "HardSigmoid"];
    type Answer = Vec<Frame>;

    fn load(builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        let [_, _, last] = CHANNELS;
        let stem = Stem::load::<M>(builder, CHANNELS[0] / 2)?;
        let mut stages = Vec::with_capacity(CHANNELS.len());
        for (number, channels) in CHANNELS.into_iter().enumerate() {
            // The height shrinks, the width stays: frames are columns of this map.
            let down = number.checked_sub(1).map(|before| (CHANNELS[before], [2, 1]));
            stages.push(Stage::load::<M>(builder, number, channels, down, BLOCKS[number])?);
        }
        let along = Conv2dShape {
            kernel: [1, 7],
            padding: [0, 3],
            ..Conv2dShape::depthwise(WIDTH, 1)
        };
        Ok(Self {
            stem,
            stages,
            shortcut: builder.normed::<M>("frames.shortcut", Conv2dShape::pointwise(last, WIDTH))?,
            project: builder.normed::<M>("frames.project", Conv2dShape::pointwise(last, WIDTH))?,
            neighbours: builder.normed::<M>("frames.neighbours", along)?,
            blocks: (0..2)
                .map(|number| TransformerBlock::load(builder, &format!("block.{number}")))
                .collect::<Result<_, _>>()?,
            norm: builder.source.layer_norm("norm", WIDTH, EPSILONS[1])?,
            classifier: builder.linear::<M>("classifier", WIDTH, CLASSES)?,
        })
    }

    fn forward(&self, images: M) -> Result<Vec<Frame>, InferenceError> {
        let map = self.stem.forward(&images)?;
        drop(images);
        let map = self
            .stages
            .iter()
            .try_fold(map, |map, stage| stage.forward(&map))?;
        let frames = map.average_pool(WINDOW[0], WINDOW[1]);
        drop(map);
        let shortcut = frames.convolve(&self.shortcut, Activation::Swish)?;
        let projected = frames.convolve(&self.project, Activation::Swish)?;
        let read = projected
            .convolve(&self.neighbours, Activation::Swish)?
            .add(&projected);
        let read = self
            .blocks
            .iter()
            .try_fold(read, |read, block| block.forward(read))?;
        let likeliest = read
            .layer_norm(&self.norm)
            .add(&shortcut)
            .likeliest(&self.classifier)?;
        Ok(likeliest
            .into_iter()
            .map(|(class, probability)| Frame { class, probability })
            .collect())
    }
}
