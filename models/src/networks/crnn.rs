//! The convolutional recurrent network (Shi, Bai and Yao, 2015) as BDRC trains it: seven convolutions, two bidirectional
//! LSTM layers, one frame for every four columns.

use std::ops::RangeInclusive;

use parkhang_kernels::feature_map::{FeatureMap, Network, Pool};
use parkhang_kernels::{Activation, Conv2dShape};

use crate::checkpoint::Slot;
use crate::checkpoint::WeightsError;
use crate::checkpoint::layers::LayerLoader;
use crate::inference::InferenceError;

/// The convolutions; all have a norm in a checkpoint, these use it.
const BLOCKS: usize = 7;
const NORMED: [usize; 2] = [4, 5];
/// Pixels of a line image for each row of features, before the last convolution takes one away.
const VERTICAL_STRIDE: usize = 16;
/// Columns of the narrowest line image.
pub(crate) const MIN_WIDTH: usize = 8;

/// The layers in the order in which the network uses them.
pub(crate) fn slots() -> Vec<Slot> {
    let mut slots: Vec<Slot> = (0..BLOCKS)
        .map(|block| {
            let path = format!("conv_block_{block}.conv2d");
            if NORMED.contains(&block) {
                Slot::normed(path, format!("conv_block_{block}.bn"))
            } else {
                Slot::convolution(path)
            }
        })
        .collect();
    slots.extend([
        Slot::linear("linear"),
        Slot::lstm("rnn1"),
        Slot::lstm("rnn2"),
        Slot::linear("dense"),
    ]);
    slots
}

fn pool_after(block: usize) -> Option<Pool> {
    match block {
        0 | 1 => Some(Pool::of(2, 2)),
        3 | 5 => Some(Pool::of(2, 1)),
        _ => None,
    }
}

/// The network for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct Crnn<M: FeatureMap> {
    blocks: Vec<M::Convolution>,
    linear: M::Convolution,
    recurrent: [M::Lstm; 2],
    head: M::Convolution,
    /// Rows of features.
    rows: usize,
    /// Classes with the blank.
    pub(crate) classes: usize,
}

impl<M: FeatureMap> Crnn<M> {
    /// Loads the network; its widths are those of the weights.
    pub(crate) fn load(loader: &mut LayerLoader<'_>) -> Result<Self, WeightsError> {
        let mut blocks = Vec::with_capacity(BLOCKS);
        let mut inputs = 1;
        for block in 0..BLOCKS {
            let name = format!("conv_block_{block}.conv2d");
            let norm = format!("conv_block_{block}.bn");
            let [outputs, _, _, _] = loader.tensors.shape(&format!("{name}.weight"))?;
            // The last one takes two rows and columns at a time and is not padded, which leaves one less of
            // each.
            let shape = if block + 1 == BLOCKS {
                Conv2dShape {
                    padding: [0, 0],
                    ..Conv2dShape::square(inputs, outputs, 2, [1, 1])
                }
            } else {
                Conv2dShape::square(inputs, outputs, 3, [1, 1])
            };
            let used = NORMED.contains(&block).then_some(norm.as_str());
            blocks.push(loader.layer::<M>(&name, used, shape)?);
            // Checkpoints have the norms that the network defines and does not use; left over, they would be
            // an error.
            loader.tensors.discard(&format!("{norm}."));
            inputs = outputs;
        }
        let [between, flat] = loader.tensors.shape("linear.weight")?;
        let [classes, states] = loader.tensors.shape("dense.weight")?;
        let linear = loader.layer::<M>("linear", None, Conv2dShape::pointwise(flat, between))?;
        let first = loader.lstm("rnn1", between)?;
        let second = loader.lstm("rnn2", 2 * first.hidden)?;
        let head = loader.layer::<M>("dense", None, Conv2dShape::pointwise(states, classes))?;
        let device = loader.device();
        Ok(Self {
            blocks,
            linear,
            recurrent: [M::lstm(first, device), M::lstm(second, device)],
            head,
            // The linear layer sees all rows of all channels, which is how its width tells the height of the
            // images.
            rows: flat / inputs.max(1),
            classes,
        })
    }

    /// Heights of line images that give the rows which the network was made for.
    pub(crate) fn heights(&self) -> RangeInclusive<usize> {
        heights(self.rows)
    }
}

/// Heights of line images that give as many rows of features.
pub(crate) fn heights(rows: usize) -> RangeInclusive<usize> {
    let lowest = (rows + 1) * VERTICAL_STRIDE;
    lowest..=lowest + VERTICAL_STRIDE - 1
}

impl<M: FeatureMap + Send + Sync + std::fmt::Debug> Network<M> for Crnn<M> {
    /// Images of one channel, to `[classes][1][columns / 4 - 1]`.
    fn forward(&self, map: M) -> Result<M, InferenceError> {
        let mut map = map;
        for (number, block) in self.blocks.iter().enumerate() {
            map = map.convolve(block, Activation::Relu)?;
            if let Some(pool) = pool_after(number) {
                map = map.max_pool(pool);
            }
        }
        let sequence = map.rows_as_channels().convolve(&self.linear, Activation::None)?;
        let [first, second] = &self.recurrent;
        sequence
            .recur(first)?
            .recur(second)?
            .convolve(&self.head, Activation::None)
    }
}
