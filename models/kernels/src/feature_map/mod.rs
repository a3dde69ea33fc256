//! Maps of features, and the operations on them that networks are made of.
//!
//! A network is written once, over [`FeatureMap`]; a processor computes it row by row in host memory ([`rows`]), a GPU as
//! tensors, where the cargo feature `tensors` compiles them in. Both give the same up to rounding, which tests hold operation by operation and network by network.
//!
//! The trait has the operations of the five networks and no more: it is not a tensor library. An operation is coarse where
//! the processor gains by it. A residual block is one method, because band after band of its three convolutions stays in the
//! cache; a recurrent layer is one, because its steps depend on each other and only the projection can be a product. Layers
//! that a map needs in a form of its own are associated types, made once from plain weights when a network is loaded.
//!
//! A map in host memory is one image, a tensor may be several: batches help a GPU and only drive the data out of a
//! processor's caches, which takes images side by side on its threads instead.

mod attention;
mod bands;
mod blocks;
mod recurrent;
mod rows;
#[cfg(feature = "tensors")]
mod tensors;

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;

use crate::activation::Activation;
use crate::convolution::{Conv2dShape, ConvolutionWeights};
use crate::device::Device;
use crate::error::InferenceError;
use crate::precision::Precision;
use crate::row_convolution::RowMap;

pub use recurrent::{DirectionWeights, LstmWeights};

/// Dimensions of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapSize {
    pub channels: usize,
    pub rows: usize,
    pub columns: usize,
}

/// The features of one image, or of several of one size.
pub trait FeatureMap: Sized + Clone {
    type Convolution: Debug + Send + Sync;
    type Lstm: Debug + Send + Sync;

    /// `count` images `[channels][rows][columns]`. A map in host memory takes one image.
    fn images(values: Vec<f32>, count: usize, size: MapSize, device: &Device) -> Self;

    /// A map in host memory heeds the precision, a GPU the device.
    fn convolution(
        weights: ConvolutionWeights,
        shape: Conv2dShape,
        precision: Precision,
        device: &Device,
    ) -> Self::Convolution;

    /// A layer that reads a sequence in both directions.
    fn lstm(weights: LstmWeights, device: &Device) -> Self::Lstm;

    fn size(&self) -> MapSize;

    fn convolve(
        &self,
        convolution: &Self::Convolution,
        activation: Activation,
    ) -> Result<Self, InferenceError>;

    /// The map after a convolution of the channels of maps of one size, one after the other.
    fn convolve_stack(
        maps: &[Self],
        convolution: &Self::Convolution,
        activation: Activation,
    ) -> Result<Self, InferenceError> {
        Self::stack(maps).convolve(convolution, activation)
    }

    /// Returns the result of `compute` for the map. The number of rows of the result is in proportion, and none depends on rows of the map that
    /// are `unit` rows or more above or below those that it is of: a map in host memory is computed in bands of rows.
    fn by_bands(
        &self,
        _unit: usize,
        compute: impl Fn(&Self) -> Result<Self, InferenceError>,
    ) -> Result<Self, InferenceError> {
        compute(self)
    }

    /// A block of ConvNeXt's: a depthwise convolution, then a two-layer perceptron per pixel, added to the map.
    fn residual_block(self, block: &ResidualBlock<Self::Convolution>) -> Result<Self, InferenceError> {
        whole_block(&self, block)
    }

    /// Two convolutions of single pixels with an activation between. `factors`, a map of one row and column, scale the channels
    /// of the map before.
    fn perceptron(
        &self,
        perceptron: &Perceptron<Self::Convolution>,
        factors: Option<&Self>,
    ) -> Result<Self, InferenceError> {
        whole_perceptron(self, perceptron, factors)
    }

    /// Self-attention (Vaswani et al. 2017) along a map of one row that has queries, keys and values stacked, each as many heads.
    fn attend(&self, heads: usize) -> Self;

    /// Norm of each pixel over its channels (Ba et al. 2016).
    fn layer_norm(&self, norm: &LayerNorm) -> Self;

    /// Mean of windows of so many rows and columns that do not overlap; what is left of the map beside them is not seen.
    fn average_pool(&self, rows: usize, columns: usize) -> Self;

    /// The map at `side` times the rows and columns, with the channels of a pixel as patches of pixels: those of the upper left pixel first, and so
    /// on along the rows of the patch.
    fn interleave(&self, side: usize) -> Self;

    /// For each column of each image of one row, the likeliest class after a convolution of single pixels, and its share of the
    /// softmax over all.
    fn likeliest(&self, classifier: &Self::Convolution) -> Result<Vec<(u32, f32)>, InferenceError>;

    /// Reads a map of one row along its columns: the channels of the way forward, then those of the way back.
    fn recur(&self, lstm: &Self::Lstm) -> Result<Self, InferenceError>;

    /// A map of one row in which each column has the channels of `count` columns, one after the other, from the `before`th before it
    /// on; beside the map there are zeros.
    fn windows(&self, before: usize, count: usize) -> Self;

    /// Sets the columns that are not kept to zero.
    fn masked(self, kept: &[bool]) -> Self;

    /// The largest value of each channel of each image of one row.
    fn peaks(self) -> Result<Vec<f32>, InferenceError>;

    /// Adds a map of the same size.
    fn add(self, other: &Self) -> Self;

    fn relu(self) -> Self;

    /// Puts columns before and after, which hold one value for each channel.
    fn pad_columns(self, before: usize, after: usize, values: &[f32]) -> Self;

    fn max_pool(&self, pool: Pool) -> Self;

    /// Mean over the rows and the first `columns` columns, as one row and column.
    fn mean(&self, columns: usize) -> Self;

    /// Multiplies each channel by that of a map of one row and column.
    fn scale(self, factors: &Self) -> Self;

    /// Repeats a map of one row and column.
    fn spread(&self, rows: usize, columns: usize) -> Self;

    /// Some of the channels.
    fn channels(&self, range: Range<usize>) -> Self;

    /// The channels of several maps of one size, in order.
    fn stack(maps: &[Self]) -> Self;

    /// Interpolates between pixels so that the corners stay where they are.
    fn enlarge(&self, rows: usize, columns: usize) -> Self;

    /// Each pixel twice in its row, each row twice.
    fn doubled(&self) -> Self;

    /// Adds a map of half the rows and columns, each of its pixels to four.
    fn add_doubled(self, coarse: &Self) -> Self {
        self.add(&coarse.doubled())
    }

    /// The first `rows` rows and `columns` columns, of which the map has as many at least.
    fn cropped(self, rows: usize, columns: usize) -> Self;

    /// One row, in which the rows of each channel are channels of their own, channel by channel.
    fn rows_as_channels(self) -> Self;

    /// The values of each image, `[channels][rows][columns]`.
    fn planes(&self) -> Result<Cow<'_, [f32]>, InferenceError>;

    /// The values of each image of one row, `[columns][channels]`.
    fn into_columns(self) -> Result<Vec<f32>, InferenceError>;
}

/// The convolutions of [`FeatureMap::residual_block`]. The first keeps the size of the map, the others see single pixels.
#[derive(Debug)]
pub struct ResidualBlock<C> {
    pub depthwise: C,
    pub widen: C,
    pub narrow: C,
}

fn whole_block<M: FeatureMap>(map: &M, block: &ResidualBlock<M::Convolution>) -> Result<M, InferenceError> {
    let narrowed = map
        .convolve(&block.depthwise, Activation::None)?
        .convolve(&block.widen, Activation::Relu)?
        .convolve(&block.narrow, Activation::None)?;
    Ok(narrowed.add(map).relu())
}

/// The convolutions of [`FeatureMap::perceptron`]; both see single pixels.
#[derive(Debug)]
pub struct Perceptron<C> {
    pub widen: C,
    pub activation: Activation,
    pub narrow: C,
    /// `true` adds what went in.
    pub residual: bool,
}

fn whole_perceptron<M: FeatureMap>(
    map: &M,
    perceptron: &Perceptron<M::Convolution>,
    factors: Option<&M>,
) -> Result<M, InferenceError> {
    let scaled = factors.map(|factors| map.clone().scale(factors));
    let map = scaled.as_ref().unwrap_or(map);
    let narrowed = map
        .convolve(&perceptron.widen, perceptron.activation)?
        .convolve(&perceptron.narrow, Activation::None)?;
    Ok(if perceptron.residual {
        narrowed.add(map)
    } else {
        narrowed
    })
}

/// Scale and shift of a [norm over channels](FeatureMap::layer_norm).
#[derive(Debug, Clone)]
pub struct LayerNorm {
    pub scale: Vec<f32>,
    pub shift: Vec<f32>,
    /// Value added to the variance.
    pub epsilon: f32,
}

/// Largest value of a window.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub padding: usize,
    /// Rows and columns after the last ones besides those of `padding`, for kernels of an even size.
    pub after: usize,
}

impl Pool {
    /// Windows that do not overlap.
    pub fn of(rows: usize, columns: usize) -> Self {
        Self {
            kernel: [rows, columns],
            stride: [rows, columns],
            padding: 0,
            after: 0,
        }
    }
}

/// A network in the form that suits its device.
pub trait Network<M>: Debug + Send + Sync {
    fn forward(&self, map: M) -> Result<M, InferenceError>;
}

/// The map of a processor.
pub type HostMap = RowMap;
/// The map of a GPU.
#[cfg(feature = "tensors")]
pub type DeviceMap = burn::tensor::Tensor<4>;
/// The map of a GPU, which nothing opens in a build without tensors; code for either kind of device compiles all the same.
#[cfg(not(feature = "tensors"))]
pub type DeviceMap = RowMap;

#[cfg(test)]
mod tests;
