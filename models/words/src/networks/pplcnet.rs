//! The trunk of the networks for pages as a whole, PP-LCNet (Cui et al. 2021): depthwise separable convolutions, the last of them
//! with squeeze and excitation.

use parkhang_kernels::feature_map::FeatureMap;
use parkhang_kernels::{Activation, Conv2dShape};
use parkhang_models::checkpoint::WeightsError;

use super::Builder;
use super::lcnet::{Excitation, SLOPE};
use crate::inference::InferenceError;

/// Channels after the first convolution.
const FIRST: usize = 16;
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
/// Channels of the last map.
pub(super) const LAST: usize = 512;

/// The layers, for maps of the kind `M`.
#[derive(Debug)]
pub(super) struct Trunk<M: FeatureMap> {
    first: M::Convolution,
    blocks: Vec<Separable<M>>,
}

/// A depthwise separable convolution with a norm behind each half.
#[derive(Debug)]
pub(super) struct Separable<M: FeatureMap> {
    depthwise: M::Convolution,
    excitation: Option<Excitation<M::Convolution>>,
    pointwise: M::Convolution,
}

impl<M: FeatureMap> Separable<M> {
    /// A convolution of `kernel` rows and columns that does not weigh the channels.
    pub(super) fn load(
        builder: &mut Builder<'_>,
        name: &str,
        kernel: usize,
        [inputs, outputs]: [usize; 2],
        stride: usize,
    ) -> Result<Self, WeightsError> {
        Self::weighed(builder, name, kernel, [inputs, outputs], stride, false)
    }

    fn weighed(
        builder: &mut Builder<'_>,
        name: &str,
        kernel: usize,
        [inputs, outputs]: [usize; 2],
        stride: usize,
        excites: bool,
    ) -> Result<Self, WeightsError> {
        let shape = Conv2dShape::depthwise(inputs, kernel).with_stride([stride; 2]);
        let depthwise = builder.normed::<M>(&format!("{name}.depthwise"), shape)?;
        let excitation = if excites {
            let name = format!("{name}.excitation");
            Some(Excitation::load::<M>(builder, &name, inputs, SLOPE)?)
        } else {
            None
        };
        let pointwise = Conv2dShape::pointwise(inputs, outputs);
        Ok(Self {
            depthwise,
            excitation,
            pointwise: builder.normed::<M>(&format!("{name}.pointwise"), pointwise)?,
        })
    }

    pub(super) fn forward(&self, map: &M) -> Result<M, InferenceError> {
        let mut map = map.convolve(&self.depthwise, Activation::HardSwish)?;
        if let Some(excitation) = &self.excitation {
            let factors = excitation.factors(&map)?;
            map = map.scale(&factors);
        }
        map.convolve(&self.pointwise, Activation::HardSwish)
    }
}

impl<M: FeatureMap> Trunk<M> {
    pub(super) fn load(builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        let first = builder.normed::<M>("first", Conv2dShape::square(3, FIRST, 3, [2, 2]))?;
        let mut blocks = Vec::with_capacity(BLOCKS.len());
        let mut inputs = FIRST;
        for (number, (kernel, outputs, stride, excites)) in BLOCKS.into_iter().enumerate() {
            let name = format!("block.{number}");
            let channels = [inputs, outputs];
            blocks.push(Separable::weighed(
                builder, &name, kernel, channels, stride, excites,
            )?);
            inputs = outputs;
        }
        Ok(Self { first, blocks })
    }

    /// The maps behind the blocks whose numbers are `kept`, in ascending order, and the last one.
    pub(super) fn forward(&self, images: M, kept: &[usize]) -> Result<(Vec<M>, M), InferenceError> {
        let mut map = images.convolve(&self.first, Activation::HardSwish)?;
        drop(images);
        let mut maps = Vec::with_capacity(kept.len() + 1);
        for (number, block) in self.blocks.iter().enumerate() {
            map = block.forward(&map)?;
            if kept.contains(&number) {
                maps.push(map.clone());
            }
        }
        Ok((maps, map))
    }
}
