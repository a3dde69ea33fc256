//! The classifier of page orientation, PP-LCNet (Cui et al. 2021).

use parkhang_kernels::feature_map::FeatureMap;
use parkhang_kernels::{Activation, Conv2dShape};
use parkhang_models::checkpoint::WeightsError;

use super::lcnet::{Excitation, SLOPE};
use super::{Architecture, Builder};
use crate::inference::InferenceError;

/// Side of a picture in pixels.
pub(super) const SIDE: usize = 224;
/// Channels after the first convolution.
const FIRST: usize = 16;
/// Channels before the classifier.
const LAST: usize = 1280;
/// Factor that was left in the file of the dropout of training.
const DROPOUT: f32 = 0.8;
/// The blocks: kernel, outputs, stride, and whether the channels are weighed.
const BLOCKS: [(usize, usize, usize, bool); 13] = [
    (3, 32, 1, false),
    (3, 64, 2, false),
    (3, 64, 1, false),
    (3, 128, 2, false),
    (3, 128, 1, false),
    (3, 256, 2, false),
    (5, 256, 1, false),
    (5, 256, 1, false),
    (5, 256, 1, false),
    (5, 256, 1, false),
    (5, 256, 1, false),
    (5, 512, 2, true),
    (5, 512, 1, true),
];

/// The network, for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct Classifier<M: FeatureMap> {
    first: M::Convolution,
    blocks: Vec<Block<M>>,
    last: M::Convolution,
    classifier: M::Convolution,
}

/// A depthwise separable convolution.
#[derive(Debug)]
struct Block<M: FeatureMap> {
    depthwise: M::Convolution,
    excitation: Option<Excitation<M::Convolution>>,
    pointwise: M::Convolution,
}

impl<M: FeatureMap> Architecture<M> for Classifier<M> {
    const NAME: &'static str = "pplcnet-doc-orientation";
    const OPERATORS: &'static [&'static str] = &["HardSigmoid", "HardSwish"];
    type Answer = Vec<[f32; 4]>;

    fn load(builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        let first = builder.normed::<M>("first", Conv2dShape::square(3, FIRST, 3, [2, 2]))?;
        let mut blocks = Vec::with_capacity(BLOCKS.len());
        let mut inputs = FIRST;
        for (number, (kernel, outputs, stride, excites)) in BLOCKS.into_iter().enumerate() {
            let name = format!("block.{number}");
            let shape = Conv2dShape::depthwise(inputs, kernel).with_stride([stride; 2]);
            let depthwise = builder.normed::<M>(&format!("{name}.depthwise"), shape)?;
            let excitation = if excites {
                let name = format!("{name}.excitation");
                Some(Excitation::load::<M>(builder, &name, inputs, SLOPE)?)
            } else {
                None
            };
            let pointwise = Conv2dShape::pointwise(inputs, outputs);
            blocks.push(Block {
                depthwise,
                excitation,
                pointwise: builder.normed::<M>(&format!("{name}.pointwise"), pointwise)?,
            });
            inputs = outputs;
        }
        Ok(Self {
            first,
            blocks,
            last: builder.convolution::<M>("last", Conv2dShape::pointwise(inputs, LAST))?,
            classifier: builder.damped::<M>("classifier", LAST, 4, DROPOUT)?,
        })
    }

    fn forward(&self, images: M) -> Result<Vec<[f32; 4]>, InferenceError> {
        let mut map = images.convolve(&self.first, Activation::HardSwish)?;
        for block in &self.blocks {
            map = map.convolve(&block.depthwise, Activation::HardSwish)?;
            if let Some(excitation) = &block.excitation {
                let factors = excitation.factors(&map)?;
                map = map.scale(&factors);
            }
            map = map.convolve(&block.pointwise, Activation::HardSwish)?;
        }
        let read = map
            .mean(map.size().columns)
            .convolve(&self.last, Activation::HardSwish)?;
        let scores = read.convolve(&self.classifier, Activation::None)?.into_planes()?;
        let (by_picture, _) = scores.as_chunks::<4>();
        Ok(by_picture.iter().map(|scores| shares(*scores)).collect())
    }
}

/// The softmax.
fn shares(scores: [f32; 4]) -> [f32; 4] {
    let largest = scores.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let raised = scores.map(|score| (score - largest).exp());
    let sum: f32 = raised.iter().sum();
    raised.map(|value| value / sum)
}
