//! The text detector, PP-OCRv6 small: a trunk of four stages, a pyramid (Lin et al. 2017) whose levels are weighed by their means,
//! and the head of DB (Liao et al. 2020), which says of each pixel how likely it is text.

use parkhang_kernels::feature_map::{FeatureMap, MapSize};
use parkhang_kernels::{Activation, Conv2dShape};
use parkhang_models::checkpoint::WeightsError;

use super::lcnet::{Excitation, Stage, Stem};
use super::{Architecture, Builder};
use crate::inference::InferenceError;

/// Number that the sides of a page are multiples of: the trunk halves them five times.
pub(super) const MULTIPLE: usize = 32;
/// Channels of the stages of the trunk.
const CHANNELS: [usize; 4] = [48, 96, 192, 384];
/// Blocks of the stages that keep the size of the map, and whether they excite.
const BLOCKS: [&[bool]; 4] = [
    &[true, false],
    &[true, false],
    &[true, false, true, false],
    &[true, false],
];
/// Channels of the levels of the pyramid.
const LEVEL: usize = 96;
/// Channels of a level that the head sees.
const OUT: usize = LEVEL / 4;
/// Slope of the hard sigmoid of the pyramid.
const SLOPE: f32 = 0.2;

/// The network, for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct Detector<M: FeatureMap> {
    stem: Stem<M::Convolution>,
    stages: Vec<Stage<M::Convolution>>,
    /// From the coarsest to the finest.
    inputs: Vec<Weighed<M>>,
    /// From the coarsest to the finest.
    outputs: Vec<Output<M>>,
    head: M::Convolution,
    enlarge: M::Convolution,
    last: M::Convolution,
}

/// A convolution of single pixels whose channels are then weighed by their means, each at least once.
#[derive(Debug)]
struct Weighed<M: FeatureMap> {
    convolution: M::Convolution,
    excitation: Excitation<M::Convolution>,
    ones: M,
}

impl<M: FeatureMap> Weighed<M> {
    fn load(
        builder: &mut Builder<'_>,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self, WeightsError> {
        let size = MapSize {
            channels: outputs,
            rows: 1,
            columns: 1,
        };
        Ok(Self {
            convolution: builder.convolution::<M>(name, Conv2dShape::pointwise(inputs, outputs))?,
            excitation: Excitation::load::<M>(builder, &format!("{name}.excitation"), outputs, SLOPE)?,
            ones: M::images(vec![1.0; outputs], 1, size, builder.device.burn()),
        })
    }

    fn forward(&self, map: &M) -> Result<M, InferenceError> {
        let map = map.convolve(&self.convolution, Activation::None)?;
        let factors = self.excitation.factors(&map)?.add(&self.ones);
        Ok(map.scale(&factors))
    }
}

/// What makes the part of the head's input that is of one level.
#[derive(Debug)]
struct Output<M: FeatureMap> {
    depthwise: M::Convolution,
    reduce: Weighed<M>,
}

impl<M: FeatureMap> Architecture<M> for Detector<M> {
    const NAME: &'static str = "ppocrv6-det-small";
    const OPERATORS: &'static [&'static str] = &["ConvTranspose", "Erf", "HardSigmoid"];
    type Answer = Vec<f32>;

    fn load(builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        let stem = Stem::load::<M>(builder, CHANNELS[0] / 2)?;
        let mut stages = Vec::with_capacity(CHANNELS.len());
        for (number, channels) in CHANNELS.into_iter().enumerate() {
            let down = number.checked_sub(1).map(|before| (CHANNELS[before], [2, 2]));
            stages.push(Stage::load::<M>(builder, number, channels, down, BLOCKS[number])?);
        }
        let mut inputs = Vec::with_capacity(CHANNELS.len());
        for (number, channels) in CHANNELS.into_iter().enumerate().rev() {
            inputs.push(Weighed::load(
                builder,
                &format!("pyramid.in.{number}"),
                channels,
                LEVEL,
            )?);
        }
        let mut outputs = Vec::with_capacity(CHANNELS.len());
        for number in (0..CHANNELS.len()).rev() {
            let name = format!("pyramid.out.{number}");
            let shape = Conv2dShape::depthwise(LEVEL, 7);
            outputs.push(Output {
                depthwise: builder.convolution::<M>(&format!("{name}.depthwise"), shape)?,
                reduce: Weighed::load(builder, &name, LEVEL, OUT)?,
            });
        }
        Ok(Self {
            stem,
            stages,
            inputs,
            outputs,
            head: builder.convolution::<M>(
                "head.1",
                Conv2dShape::square(OUT * CHANNELS.len(), OUT, 3, [1, 1]),
            )?,
            enlarge: builder.transposed::<M>("head.2", OUT, OUT)?,
            last: builder.transposed::<M>("head.3", OUT, 1)?,
        })
    }

    fn forward(&self, images: M) -> Result<Vec<f32>, InferenceError> {
        let stem = self.stem.forward(&images)?;
        drop(images);
        let mut seen: Vec<M> = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            let map = stage.forward(seen.last().unwrap_or(&stem))?;
            seen.push(map);
        }
        drop(stem);
        let mut above: Option<M> = None;
        let mut parts: Vec<M> = Vec::with_capacity(self.outputs.len());
        for (input, output) in self.inputs.iter().zip(&self.outputs) {
            let Some(map) = seen.pop() else { break };
            let own = input.forward(&map)?;
            let level = match above {
                Some(above) => own.add_doubled(&above),
                None => own,
            };
            let smoothed = level.convolve(&output.depthwise, Activation::None)?;
            let part = output.reduce.forward(&smoothed)?;
            // What is of coarser levels becomes as large as this one, in the end as the finest.
            parts = parts.iter().map(M::doubled).collect();
            parts.push(part);
            above = Some(level);
        }
        let map = M::convolve_stack(&parts, &self.head, Activation::Relu)?;
        drop(parts);
        let probabilities = map.by_bands(1, |map| {
            let map = map
                .convolve(&self.enlarge, Activation::Relu)?
                .interleave(2)
                .convolve(&self.last, Activation::Sigmoid)?;
            Ok(map.interleave(2))
        });
        Ok(probabilities?.planes()?.into_owned())
    }
}
