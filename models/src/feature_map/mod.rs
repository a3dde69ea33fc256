//! What a network computes with. The networks of other programs are written once, over [`FeatureMap`]; a processor computes
//! them row by row in host memory ([`rows`]), a GPU as tensors ([`tensors`]). Both give the same up to rounding.

mod recurrent;
mod rows;
mod tensors;

use std::fmt::Debug;

use burn::tensor::{Device, Tensor};

pub(crate) use crate::activation::Activation;
use crate::device::Precision;
use crate::inference::InferenceError;
use crate::row_convolution::RowMap;
use crate::weights::WeightsError;
use crate::weights::layers::{Conv2dShape, ImportedConvolution, LayerLoader, Shift};

pub(crate) use recurrent::LstmWeights;

/// Dimensions of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MapSize {
    pub(crate) channels: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// The features of one image, or of several of one size.
pub(crate) trait FeatureMap: Sized + Clone {
    type Convolution: Debug + Send + Sync;
    type Lstm: Debug + Send + Sync;

    /// `count` images `[channels][rows][columns]`. A map in host memory takes one image of one channel or of one row.
    fn images(values: Vec<f32>, count: usize, size: MapSize, device: &Device) -> Self;

    /// A map in host memory heeds the precision, a GPU the device.
    fn convolution(
        weights: ImportedConvolution,
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

    /// A block of ConvNeXt's: a depthwise convolution, then a two-layer perceptron per pixel, added to the map.
    fn residual_block(&self, block: &ResidualBlock<Self::Convolution>) -> Result<Self, InferenceError> {
        whole_block(self, block)
    }

    /// Reads a map of one row along its columns: the channels of the way forward, then those of the way back.
    fn recur(&self, lstm: &Self::Lstm) -> Result<Self, InferenceError>;

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

    /// The channels of several maps of one size, in order.
    fn stack(maps: &[Self]) -> Self;

    /// Interpolates between pixels so that the corners stay where they are.
    fn enlarge(&self, rows: usize, columns: usize) -> Self;

    /// Each pixel twice in its row, each row twice.
    fn doubled(&self) -> Self;

    /// One row, in which the rows of each channel are channels of their own, channel by channel.
    fn rows_as_channels(self) -> Self;

    /// The values of each image, `[channels][rows][columns]`.
    fn into_planes(self) -> Result<Vec<f32>, InferenceError>;

    /// The values of each image of one row, `[columns][channels]`.
    fn into_columns(self) -> Result<Vec<f32>, InferenceError>;
}

/// The convolutions of [`FeatureMap::residual_block`]. The first keeps the size of the map, the others see single pixels.
#[derive(Debug)]
pub(crate) struct ResidualBlock<C> {
    pub(crate) depthwise: C,
    pub(crate) widen: C,
    pub(crate) narrow: C,
}

fn whole_block<M: FeatureMap>(map: &M, block: &ResidualBlock<M::Convolution>) -> Result<M, InferenceError> {
    let narrowed = map
        .convolve(&block.depthwise, Activation::None)?
        .convolve(&block.widen, Activation::Relu)?
        .convolve(&block.narrow, Activation::None)?;
    Ok(narrowed.add(map).relu())
}

/// Largest value of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool {
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) padding: usize,
}

impl Pool {
    /// Windows that do not overlap.
    pub(crate) fn of(rows: usize, columns: usize) -> Self {
        Self {
            kernel: [rows, columns],
            stride: [rows, columns],
            padding: 0,
        }
    }
}

/// A network in the form that suits its device.
pub(crate) trait Network<M>: Debug + Send + Sync {
    fn forward(&self, map: M) -> Result<M, InferenceError>;
}

/// The map of a processor.
pub(crate) type HostMap = RowMap;
/// The map of a GPU.
pub(crate) type DeviceMap = Tensor<4>;

/// Takes a layer of another program out of its weights, for maps of the kind `M`.
pub(crate) fn load<M: FeatureMap>(
    loader: &mut LayerLoader<'_>,
    name: &str,
    norm: Option<&str>,
    shape: Conv2dShape,
) -> Result<M::Convolution, WeightsError> {
    let weights = loader.imported(name, norm, shape)?;
    Ok(M::convolution(
        weights,
        shape,
        loader.precision(),
        loader.device(),
    ))
}

/// Takes a layer of a network of our own, of which it is known where its shift comes from.
pub(crate) fn load_shifted<M: FeatureMap>(
    loader: &mut LayerLoader<'_>,
    name: &str,
    shift: Shift<'_>,
    shape: Conv2dShape,
) -> Result<M::Convolution, WeightsError> {
    let (weight, bias) = loader.folded(name, shift, shape)?;
    let weights = ImportedConvolution {
        weight,
        bias,
        of_zero: vec![0.0; shape.outputs],
    };
    Ok(M::convolution(
        weights,
        shape,
        loader.precision(),
        loader.device(),
    ))
}

#[cfg(test)]
mod tests;
