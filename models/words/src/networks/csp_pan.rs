//! The neck of layout and table networks, CSP-PAN (Yu et al. 2021): maps of several sizes exchange what they see, first from the
//! coarsest to the finest and then back, through blocks of which one half passes by (Wang et al. 2020).

use parkhang_kernels::feature_map::FeatureMap;
use parkhang_kernels::{Activation, Conv2dShape};
use parkhang_models::checkpoint::WeightsError;

use super::Builder;
use super::pplcnet::Separable;
use crate::inference::InferenceError;

/// Rows and columns of depthwise kernels.
pub(super) const KERNEL: usize = 5;

/// A block for two maps of one size: half of the channels goes through two further convolutions.
#[derive(Debug)]
struct PartialStage<M: FeatureMap> {
    short: M::Convolution,
    main: M::Convolution,
    narrow: M::Convolution,
    separable: Separable<M>,
    join: M::Convolution,
}

impl<M: FeatureMap> PartialStage<M> {
    fn load(builder: &mut Builder<'_>, name: &str, channels: usize) -> Result<Self, WeightsError> {
        let half = channels / 2;
        let mut pointwise = |part: &str, inputs, outputs| {
            builder.normed::<M>(&format!("{name}.{part}"), Conv2dShape::pointwise(inputs, outputs))
        };
        let short = pointwise("short", 2 * channels, half)?;
        let main = pointwise("main", 2 * channels, half)?;
        let narrow = pointwise("narrow", half, half)?;
        let separable = Separable::load(builder, name, KERNEL, [half, half], 1)?;
        let join = builder.normed::<M>(
            &format!("{name}.join"),
            Conv2dShape::pointwise(channels, channels),
        )?;
        Ok(Self {
            short,
            main,
            narrow,
            separable,
            join,
        })
    }

    fn forward(&self, maps: &[M; 2]) -> Result<M, InferenceError> {
        let short = M::convolve_stack(maps, &self.short, Activation::HardSwish)?;
        let main = M::convolve_stack(maps, &self.main, Activation::HardSwish)?
            .convolve(&self.narrow, Activation::HardSwish)?;
        let main = self.separable.forward(&main)?;
        M::convolve_stack(&[main, short], &self.join, Activation::HardSwish)
    }
}

/// The neck, for maps of the kind `M`.
#[derive(Debug)]
pub(super) struct Neck<M: FeatureMap> {
    /// From the finest to the coarsest.
    laterals: Vec<M::Convolution>,
    /// From the coarsest but one to the finest.
    down: Vec<PartialStage<M>>,
    /// From the finest but one to the coarsest, with the halving before each.
    up: Vec<(Separable<M>, PartialStage<M>)>,
}

/// Maps of a neck, from the finest to the coarsest.
pub(super) struct Levels<M> {
    /// The maps of the trunk, all of the neck's number of channels.
    pub(super) laterals: Vec<M>,
    pub(super) maps: Vec<M>,
}

impl<M: FeatureMap> Neck<M> {
    /// A neck of `channels` channels for maps of `inputs` channels, from the finest to the coarsest.
    pub(super) fn load(
        builder: &mut Builder<'_>,
        inputs: &[usize],
        channels: usize,
    ) -> Result<Self, WeightsError> {
        let mut laterals = Vec::with_capacity(inputs.len());
        for (number, &inputs) in inputs.iter().enumerate() {
            let shape = Conv2dShape::pointwise(inputs, channels);
            laterals.push(builder.normed::<M>(&format!("neck.lateral.{number}"), shape)?);
        }
        let steps = inputs.len().saturating_sub(1);
        let mut down = Vec::with_capacity(steps);
        for number in 0..steps {
            down.push(PartialStage::load(
                builder,
                &format!("neck.down.{number}"),
                channels,
            )?);
        }
        let mut up = Vec::with_capacity(steps);
        for number in 0..steps {
            let name = format!("neck.up.{number}");
            let halving = format!("{name}.halving");
            up.push((
                Separable::load(builder, &halving, KERNEL, [channels; 2], 2)?,
                PartialStage::load(builder, &name, channels)?,
            ));
        }
        Ok(Self { laterals, down, up })
    }

    /// Maps of the trunk, from the finest to the coarsest, after the exchange.
    pub(super) fn forward(&self, maps: &[M]) -> Result<Levels<M>, InferenceError> {
        let laterals: Vec<M> = maps
            .iter()
            .zip(&self.laterals)
            .map(|(map, lateral)| map.convolve(lateral, Activation::HardSwish))
            .collect::<Result<_, _>>()?;
        // From the coarsest to the finest.
        let mut seen: Vec<M> = laterals.last().cloned().into_iter().collect();
        for (lateral, stage) in laterals.iter().rev().skip(1).zip(&self.down) {
            let Some(above) = seen.last() else { break };
            let size = lateral.size();
            // A map with an odd number of rows was halved to one that is too large by a row when doubled.
            let above = above.doubled().cropped(size.rows, size.columns);
            seen.push(stage.forward(&[above, lateral.clone()])?);
        }
        let mut maps: Vec<M> = seen.pop().into_iter().collect();
        for (halving, stage) in &self.up {
            let (Some(below), Some(own)) = (maps.last(), seen.pop()) else {
                break;
            };
            let below = halving.forward(below)?;
            maps.push(stage.forward(&[below, own])?);
        }
        Ok(Levels { laterals, maps })
    }
}
