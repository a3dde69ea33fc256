//! Easter2 (Chaudhary and Bali, 2022) as BDRC trains it: convolutions along the line, whose channels are the rows of the
//! image, with a second path of residuals from unit to unit.
//!
//! Convolutions are not padded; their output is, with zeros, before the norm. So the columns at its end hold what the norm
//! makes of zero.

use parkhang_kernels::feature_map::{FeatureMap, Network};
use parkhang_kernels::{Activation, Conv2dShape};

use crate::checkpoint::Slot;
use crate::checkpoint::WeightsError;
use crate::checkpoint::layers::LayerLoader;
use crate::inference::InferenceError;

/// Kernels of the units.
const UNIT_KERNELS: [usize; 4] = [5, 5, 7, 9];
/// Kernels of the strided convolutions before them.
const STEM_KERNEL: usize = 3;
const STEM_STRIDE: usize = 2;
/// The wide convolution after them.
const WIDE_KERNEL: usize = 11;
const WIDE_DILATION: usize = 2;
const WIDE_PADDING: usize = 10;

/// Columns of the image for each frame of the output.
pub(crate) const HORIZONTAL_STRIDE: usize = STEM_STRIDE * STEM_STRIDE;

/// The layers in the order in which the network uses them.
pub(crate) fn slots() -> Vec<Slot> {
    let normed = |number: usize| Slot::normed(format!("conv1d_{number}"), format!("bn_{number}"));
    let mut slots = vec![normed(1), normed(2)];
    for unit in 1..=UNIT_KERNELS.len() {
        slots.extend((1..=5).map(|number| {
            Slot::normed(
                format!("easter{unit}.conv1d_{number}"),
                format!("easter{unit}.bn_{number}"),
            )
        }));
        slots.extend(
            (1..=2).map(|number| Slot::linear(format!("easter{unit}.global_context.linear{number}"))),
        );
    }
    slots.extend([normed(3), normed(4), Slot::convolution("conv1d_5")]);
    slots
}

/// A convolution whose output is padded before its norm.
#[derive(Debug)]
struct Padded<C> {
    convolution: C,
    activation: Activation,
    before: usize,
    after: usize,
    /// Value of the padding in each channel.
    of_zero: Vec<f32>,
}

impl<C> Padded<C> {
    fn load<M: FeatureMap<Convolution = C>>(
        loader: &mut LayerLoader<'_>,
        (name, norm): (&str, &str),
        shape: Conv2dShape,
        [before, after]: [usize; 2],
        activation: Activation,
    ) -> Result<Self, WeightsError> {
        let shape = Conv2dShape {
            padding: [0, 0],
            ..shape
        };
        let weights = loader.imported(name, Some(norm), shape)?;
        let of_zero = weights
            .of_zero
            .iter()
            .map(|&value| match activation {
                // The activation follows the norm, and so follows the padding as well.
                Activation::Relu => value.max(0.0),
                _ => value,
            })
            .collect();
        Ok(Self {
            convolution: M::convolution(weights, shape, loader.precision(), loader.device()),
            activation,
            before,
            after,
            of_zero,
        })
    }

    fn forward<M: FeatureMap<Convolution = C>>(&self, map: &M) -> Result<M, InferenceError> {
        let convolved = map.convolve(&self.convolution, self.activation)?;
        Ok(convolved.pad_columns(self.before, self.after, &self.of_zero))
    }
}

#[derive(Debug)]
struct Unit<C> {
    /// Convolutions of the path of residuals, and of the data joining it.
    joins: [C; 2],
    blocks: [Padded<C>; 3],
    /// Convolutions that weigh the channels.
    context: [C; 2],
    channels: usize,
}

impl<C> Unit<C> {
    fn load<M: FeatureMap<Convolution = C>>(
        loader: &mut LayerLoader<'_>,
        unit: usize,
        inputs: usize,
        kernel: usize,
    ) -> Result<Self, WeightsError> {
        let name = |layer: &str, number: usize| format!("easter{unit}.{layer}_{number}");
        let [channels, _, _] = loader.tensors.shape(&format!("{}.weight", name("conv1d", 1)))?;
        let mut join = |number| {
            let shape = Conv2dShape::sequence(inputs, channels, 1, 1);
            loader.layer::<M>(&name("conv1d", number), Some(&name("bn", number)), shape)
        };
        let joins = [join(1)?, join(2)?];
        let mut block = |number, inputs, activation| {
            Padded::load::<M>(
                loader,
                (&name("conv1d", number), &name("bn", number)),
                Conv2dShape::sequence(inputs, channels, kernel, 1),
                // All on the right, as BDRC's network pads; the columns that a frame sees lie to its right
                // therefore.
                [0, kernel - 1],
                activation,
            )
        };
        let blocks = [
            block(3, inputs, Activation::Relu)?,
            block(4, channels, Activation::Relu)?,
            block(5, channels, Activation::None)?,
        ];
        let context = format!("easter{unit}.global_context.linear");
        let [narrow, _] = loader.tensors.shape(&format!("{context}1.weight"))?;
        let mut linear = |number: usize, inputs, outputs| {
            let shape = Conv2dShape::pointwise(inputs, outputs);
            loader.layer::<M>(&format!("{context}{number}"), None, shape)
        };
        let context = [linear(1, channels, narrow)?, linear(2, narrow, channels)?];
        Ok(Self {
            joins,
            blocks,
            context,
            channels,
        })
    }

    /// The data and the residuals that the next unit takes.
    fn forward<M: FeatureMap<Convolution = C>>(
        &self,
        data: &M,
        residuals: &M,
    ) -> Result<(M, M), InferenceError> {
        let joined = residuals.convolve(&self.joins[0], Activation::None)?;
        let residuals = joined.add(&data.convolve(&self.joins[1], Activation::None)?);
        let [first, second, third] = &self.blocks;
        let deep = third.forward(&second.forward(&first.forward(data)?)?)?;
        let weighed = self.weigh(deep)?;
        Ok((weighed.add(&residuals).relu(), residuals))
    }

    /// The mean is taken over windows of as many frames as there are channels; what is left at the end has no say.
    fn weigh<M: FeatureMap<Convolution = C>>(&self, map: M) -> Result<M, InferenceError> {
        let frames = map.size().columns;
        // The mean of the means of equal windows is that of all their frames, so one mean is enough.
        let seen = frames - frames % self.channels;
        if seen == 0 {
            return Err(InferenceError::Shape {
                expected: format!("at least {} columns", HORIZONTAL_STRIDE * self.channels),
                actual: HORIZONTAL_STRIDE * frames,
            });
        }
        let [narrow, widen] = &self.context;
        let weights = map
            .mean(seen)
            .convolve(narrow, Activation::Relu)?
            .convolve(widen, Activation::Sigmoid)?;
        Ok(map.scale(&weights))
    }
}

/// The network for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct Easter2<M: FeatureMap> {
    stem: [Padded<M::Convolution>; 2],
    units: Vec<Unit<M::Convolution>>,
    wide: Padded<M::Convolution>,
    last: M::Convolution,
    head: M::Convolution,
    /// Rows of a line image.
    pub(crate) height: usize,
    /// Classes with the blank.
    pub(crate) classes: usize,
    /// Columns of the narrowest line image.
    pub(crate) min_width: usize,
}

impl<M: FeatureMap> Easter2<M> {
    /// Loads the network; its widths are those of the weights.
    pub(crate) fn load(loader: &mut LayerLoader<'_>) -> Result<Self, WeightsError> {
        let [first, height, _] = loader.tensors.shape("conv1d_1.weight")?;
        let [second, _, _] = loader.tensors.shape("conv1d_2.weight")?;
        let mut strided = |names, inputs, outputs| {
            let shape = Conv2dShape {
                stride: [1, STEM_STRIDE],
                ..Conv2dShape::sequence(inputs, outputs, STEM_KERNEL, 1)
            };
            Padded::load::<M>(loader, names, shape, [0, 1], Activation::Relu)
        };
        let stem = [
            strided(("conv1d_1", "bn_1"), height, first)?,
            strided(("conv1d_2", "bn_2"), first, second)?,
        ];
        let mut units: Vec<Unit<M::Convolution>> = Vec::with_capacity(UNIT_KERNELS.len());
        for (number, kernel) in UNIT_KERNELS.into_iter().enumerate() {
            let inputs = units.last().map_or(second, |unit| unit.channels);
            units.push(Unit::load::<M>(loader, number + 1, inputs, kernel)?);
        }
        let inputs = units.last().map_or(second, |unit| unit.channels);
        let [third, _, _] = loader.tensors.shape("conv1d_3.weight")?;
        let [fourth, _, _] = loader.tensors.shape("conv1d_4.weight")?;
        let [classes, _, _] = loader.tensors.shape("conv1d_5.weight")?;
        let wide = Padded::load::<M>(
            loader,
            ("conv1d_3", "bn_3"),
            Conv2dShape::sequence(inputs, third, WIDE_KERNEL, WIDE_DILATION),
            [WIDE_PADDING; 2],
            Activation::Relu,
        )?;
        let mut pointwise = |name, norm, inputs, outputs| {
            loader.layer::<M>(name, norm, Conv2dShape::sequence(inputs, outputs, 1, 1))
        };
        let widest = units.iter().map(|unit| unit.channels).max().unwrap_or(1);
        Ok(Self {
            stem,
            wide,
            last: pointwise("conv1d_4", Some("bn_4"), third, fourth)?,
            head: pointwise("conv1d_5", None, fourth, classes)?,
            units,
            height,
            classes,
            // The wide convolution sees this many frames at once.
            min_width: HORIZONTAL_STRIDE * widest.max(2 * WIDE_PADDING + 1),
        })
    }
}

impl<M: FeatureMap + Send + Sync + std::fmt::Debug> Network<M> for Easter2<M> {
    /// Images whose channels are their rows, to `[classes][1][columns / 4]`.
    fn forward(&self, map: M) -> Result<M, InferenceError> {
        let [first, second] = &self.stem;
        let mut data = second.forward(&first.forward(&map)?)?;
        // Both paths begin with the same frames; the second one has convolutions and no activations.
        let mut residuals = data.clone();
        for unit in &self.units {
            (data, residuals) = unit.forward(&data, &residuals)?;
        }
        let last = self.wide.forward(&data)?.convolve(&self.last, Activation::Relu)?;
        last.convolve(&self.head, Activation::None)
    }
}
