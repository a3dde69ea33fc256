//! The classifier of page orientation, PP-LCNet (Cui et al. 2021).

use parkhang_kernels::feature_map::FeatureMap;
use parkhang_kernels::{Activation, Conv2dShape};
use parkhang_models::checkpoint::WeightsError;

use super::pplcnet::{self, Trunk};
use super::{Architecture, Builder};
use crate::inference::InferenceError;

/// Side of a picture in pixels.
pub(super) const SIDE: usize = 224;
/// Channels before the classifier.
const LAST: usize = 1280;
/// Factor that was left in the file of the dropout of training.
const DROPOUT: f32 = 0.8;

/// The network, for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct Classifier<M: FeatureMap> {
    trunk: Trunk<M>,
    last: M::Convolution,
    classifier: M::Convolution,
}

impl<M: FeatureMap> Architecture<M> for Classifier<M> {
    const NAME: &'static str = "pplcnet-doc-orientation";
    const OPERATORS: &'static [&'static str] = &["HardSigmoid", "HardSwish"];
    type Answer = Vec<[f32; 4]>;

    fn load(builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        Ok(Self {
            trunk: Trunk::load(builder)?,
            last: builder.convolution::<M>("last", Conv2dShape::pointwise(pplcnet::LAST, LAST))?,
            classifier: builder.damped::<M>("classifier", LAST, 4, DROPOUT)?,
        })
    }

    fn forward(&self, images: M) -> Result<Vec<[f32; 4]>, InferenceError> {
        let (_, map) = self.trunk.forward(images, &[])?;
        let read = map
            .mean(map.size().columns)
            .convolve(&self.last, Activation::HardSwish)?;
        let scores = read.convolve(&self.classifier, Activation::None)?;
        let scores = scores.planes()?;
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
