//! The trunk of detector and recogniser, LCNet v4 (Baidu, `rec_lcnetv4.py` of RapidOCR): blocks of a depthwise convolution, with
//! squeeze and excitation behind every other one, and a perceptron for each pixel.

use parkhang_kernels::feature_map::{FeatureMap, Perceptron, Pool};
use parkhang_kernels::{Activation, Conv2dShape};
use parkhang_models::checkpoint::WeightsError;

use super::Builder;
use crate::inference::InferenceError;

/// Channel factors from the means of the channels (Hu et al. 2018).
#[derive(Debug)]
pub(super) struct Excitation<C> {
    squeeze: C,
    excite: C,
}

impl<C> Excitation<C> {
    /// Layers of `channels` channels. `slope` is that of the hard sigmoid at the end.
    pub(super) fn load<M: FeatureMap<Convolution = C>>(
        builder: &mut Builder<'_>,
        name: &str,
        channels: usize,
        slope: f32,
    ) -> Result<Self, WeightsError> {
        let middle = channels / 4;
        Ok(Self {
            squeeze: builder.convolution::<M>(
                &format!("{name}.squeeze"),
                Conv2dShape::pointwise(channels, middle),
            )?,
            // The activation has a slope of 1/6; a steeper one is that of a larger value.
            excite: builder.scaled::<M>(&format!("{name}.excite"), middle, channels, 6.0 * slope)?,
        })
    }

    /// Factors of the channels of a map, as a map of one row and column.
    pub(super) fn factors<M: FeatureMap<Convolution = C>>(&self, map: &M) -> Result<M, InferenceError> {
        map.mean(map.size().columns)
            .convolve(&self.squeeze, Activation::Relu)?
            .convolve(&self.excite, Activation::HardSigmoid)
    }
}

/// Slope of the hard sigmoid of the trunk.
pub(super) const SLOPE: f32 = 1.0 / 6.0;

/// Rows of an image for one of the map behind the first layers.
const SHRINKAGE: usize = 4;

/// The first layers: to a quarter of the rows and columns.
#[derive(Debug)]
pub(super) struct Stem<C> {
    first: C,
    narrow: C,
    widen: C,
    third: C,
    fourth: C,
}

impl<C> Stem<C> {
    /// Layers from 3 channels by way of `middle` to twice as many.
    pub(super) fn load<M: FeatureMap<Convolution = C>>(
        builder: &mut Builder<'_>,
        middle: usize,
    ) -> Result<Self, WeightsError> {
        let halving = |inputs| Conv2dShape::square(inputs, middle, 3, [2, 2]);
        Ok(Self {
            first: builder.convolution::<M>("stem.1", halving(3))?,
            narrow: builder.convolution::<M>("stem.2a", Conv2dShape::even(middle, middle / 2, 2))?,
            widen: builder.convolution::<M>("stem.2b", Conv2dShape::even(middle / 2, middle, 2))?,
            third: builder.convolution::<M>("stem.3", halving(2 * middle))?,
            fourth: builder.convolution::<M>("stem.4", Conv2dShape::pointwise(middle, 2 * middle))?,
        })
    }

    pub(super) fn forward<M: FeatureMap<Convolution = C>>(&self, images: &M) -> Result<M, InferenceError> {
        images.by_bands(SHRINKAGE, |images| {
            let map = images.convolve(&self.first, Activation::Relu)?;
            let convolved = map
                .convolve(&self.narrow, Activation::Relu)?
                .convolve(&self.widen, Activation::Relu)?;
            let pooled = map.max_pool(Pool {
                kernel: [2, 2],
                stride: [1, 1],
                padding: 0,
                after: 1,
            });
            M::convolve_stack(&[pooled, convolved], &self.third, Activation::Relu)?
                .convolve(&self.fourth, Activation::Relu)
        })
    }
}

/// A block of the trunk.
#[derive(Debug)]
pub(super) struct Block<C> {
    depthwise: C,
    excitation: Option<Excitation<C>>,
    perceptron: Perceptron<C>,
}

impl<C> Block<C> {
    /// A block that keeps the size of the map.
    fn same<M: FeatureMap<Convolution = C>>(
        builder: &mut Builder<'_>,
        name: &str,
        channels: usize,
        excites: bool,
    ) -> Result<Self, WeightsError> {
        let depthwise =
            builder.convolution::<M>(&format!("{name}.depthwise"), Conv2dShape::depthwise(channels, 3))?;
        let excitation = if excites {
            let name = format!("{name}.excitation");
            Some(Excitation::load::<M>(builder, &name, channels, SLOPE)?)
        } else {
            None
        };
        Ok(Self {
            depthwise,
            excitation,
            perceptron: perceptron::<M>(builder, name, channels, channels)?,
        })
    }

    /// A block that goes to another number of channels, with a stride.
    fn down<M: FeatureMap<Convolution = C>>(
        builder: &mut Builder<'_>,
        name: &str,
        [inputs, outputs]: [usize; 2],
        stride: [usize; 2],
    ) -> Result<Self, WeightsError> {
        let shape = Conv2dShape::depthwise(inputs, 3).with_stride(stride);
        Ok(Self {
            depthwise: builder.convolution::<M>(&format!("{name}.depthwise"), shape)?,
            excitation: None,
            perceptron: perceptron::<M>(builder, name, inputs, outputs)?,
        })
    }

    fn forward<M: FeatureMap<Convolution = C>>(&self, map: &M) -> Result<M, InferenceError> {
        let map = map.convolve(&self.depthwise, Activation::None)?;
        let factors = match &self.excitation {
            Some(excitation) => Some(excitation.factors(&map)?),
            None => None,
        };
        map.perceptron(&self.perceptron, factors.as_ref())
    }
}

fn perceptron<M: FeatureMap>(
    builder: &mut Builder<'_>,
    name: &str,
    inputs: usize,
    outputs: usize,
) -> Result<Perceptron<M::Convolution>, WeightsError> {
    let widen = Conv2dShape::pointwise(inputs, 2 * inputs);
    let narrow = Conv2dShape::pointwise(2 * inputs, outputs);
    Ok(Perceptron {
        widen: builder.convolution::<M>(&format!("{name}.widen"), widen)?,
        activation: Activation::Gelu,
        narrow: builder.convolution::<M>(&format!("{name}.narrow"), narrow)?,
        residual: inputs == outputs,
    })
}

/// A stage of the trunk: where it is not the first, a block that makes the map smaller, and blocks that keep its size.
#[derive(Debug)]
pub(super) struct Stage<C> {
    blocks: Vec<Block<C>>,
}

impl<C> Stage<C> {
    /// The stage number `number`; `inputs` and `stride` are those of its first block, `None` for the first stage. `blocks` are the
    /// others.
    pub(super) fn load<M: FeatureMap<Convolution = C>>(
        builder: &mut Builder<'_>,
        number: usize,
        channels: usize,
        down: Option<(usize, [usize; 2])>,
        excites: &[bool],
    ) -> Result<Self, WeightsError> {
        let mut blocks = Vec::with_capacity(excites.len() + 1);
        if let Some((inputs, stride)) = down {
            let name = format!("stage.{number}.down");
            blocks.push(Block::down::<M>(builder, &name, [inputs, channels], stride)?);
        }
        for (block, &excites) in excites.iter().enumerate() {
            let name = format!("stage.{number}.{block}");
            blocks.push(Block::same::<M>(builder, &name, channels, excites)?);
        }
        Ok(Self { blocks })
    }

    pub(super) fn forward<M: FeatureMap<Convolution = C>>(&self, map: &M) -> Result<M, InferenceError> {
        let (first, others) = self
            .blocks
            .split_first()
            .ok_or_else(|| InferenceError::Failed("a stage without blocks".to_owned()))?;
        let map = first.forward(map)?;
        others.iter().try_fold(map, |map, block| block.forward(&map))
    }
}
