//! The networks behind the traits of [`crate::inference`], over the maps of `parkhang-kernels`: plain code that knows neither texts nor
//! files.
//!
//! Tokens are the columns of a map of one row. All layers are products over single columns, so that what a text becomes does not depend on
//! those that share its pass, not even in the last bit.

mod levels;
mod splade;
mod universal;

use std::fmt::Debug;

use parkhang_kernels::device::{ComputeDevice, DeviceKind};
use parkhang_kernels::feature_map::{DeviceMap, FeatureMap, HostMap, LayerNorm, MapSize};
use parkhang_kernels::{Conv2dShape, Precision};
use parkhang_models::checkpoint::WeightsError;
use parkhang_models::checkpoint::layers::LayerLoader;
use parkhang_models::weights::Bundle;
use rayon::prelude::*;

use crate::inference::{InferenceError, TextEncoder, check};

pub(crate) use levels::Levels;
pub(crate) use splade::Splade;
pub(crate) use universal::Universal;

/// A network for maps of the kind `M`.
pub(crate) trait Network<M: FeatureMap>: Sized + Send + Sync {
    /// Name of the architecture in `model.json`.
    const NAME: &'static str;
    /// Number of tokens of the longest text.
    const LONGEST: usize;
    /// Vector of a text.
    type Vector: Send;

    fn load(bundle: &Bundle, builder: &mut Builder<'_>) -> Result<Self, WeightsError>;

    /// Number of ids.
    fn vocabulary(&self) -> usize;

    /// Texts that go through the network together, of those that a batch begins with; 1 at least.
    fn together(texts: &[Vec<u32>]) -> usize;

    /// Vectors of texts.
    fn forward(
        &self,
        texts: &[Vec<u32>],
        device: &ComputeDevice,
    ) -> Result<Vec<Self::Vector>, InferenceError>;
}

/// Layers of a bundle in the form of a device.
pub(crate) struct Builder<'a> {
    loader: LayerLoader<'a>,
    device: &'a ComputeDevice,
}

impl Builder<'_> {
    /// A layer that sees single columns.
    fn linear<M: FeatureMap>(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<M::Convolution, WeightsError> {
        let shape = Conv2dShape::pointwise(inputs, outputs);
        let weights = self.loader.imported(name, None, shape)?;
        // Vectors of one index come from many nodes, so their processors must not make a difference.
        Ok(M::convolution(
            weights,
            shape,
            Precision::Full,
            self.device.burn(),
        ))
    }

    fn values<const D: usize>(&mut self, name: &str, shape: [usize; D]) -> Result<Vec<f32>, WeightsError> {
        self.loader.tensors.take(name, shape)
    }

    fn layer_norm(&mut self, name: &str, channels: usize, epsilon: f32) -> Result<LayerNorm, WeightsError> {
        Ok(LayerNorm {
            scale: self.values(&format!("{name}.weight"), [channels])?,
            shift: self.values(&format!("{name}.bias"), [channels])?,
            epsilon,
        })
    }
}

/// A map of one row, of values `[columns][channels]`.
fn columns_of<M: FeatureMap>(columns: &[f32], channels: usize, device: &ComputeDevice) -> M {
    let count = columns.len() / channels.max(1);
    let mut values = vec![0.0; columns.len()];
    for (place, column) in columns.chunks_exact(channels.max(1)).enumerate() {
        for (channel, &value) in column.iter().enumerate() {
            values[channel * count + place] = value;
        }
    }
    let size = MapSize {
        channels,
        rows: 1,
        columns: count,
    };
    M::images(values, 1, size, device.burn())
}

/// A network in the form that suits its device.
#[derive(Debug)]
pub(crate) struct Placed<H, D> {
    form: Form<H, D>,
    device: ComputeDevice,
}

#[derive(Debug)]
enum Form<H, D> {
    Processor(Box<H>),
    Gpu(Box<D>),
}

impl<H: Network<HostMap>, D: Network<DeviceMap, Vector = H::Vector>> Placed<H, D> {
    /// Puts the network of a bundle on a device.
    pub(crate) fn load(bundle: &Bundle, device: &ComputeDevice) -> Result<Self, WeightsError> {
        bundle.embedding(H::NAME)?;
        let form = match device.kind() {
            DeviceKind::Cpu => Form::Processor(Box::new(load(bundle, device)?)),
            DeviceKind::Wgpu | DeviceKind::Cuda => Form::Gpu(Box::new(load(bundle, device)?)),
        };
        Ok(Self {
            form,
            device: device.clone(),
        })
    }
}

/// Reads the network of a bundle.
pub(crate) fn load<M: FeatureMap, N: Network<M>>(
    bundle: &Bundle,
    device: &ComputeDevice,
) -> Result<N, WeightsError> {
    let loader = LayerLoader::new(bundle.tensors()?, device.burn());
    let mut builder = Builder { loader, device };
    let network = N::load(bundle, &mut builder)?;
    // What no layer has taken belongs to another network.
    builder.loader.tensors.finish()?;
    Ok(network)
}

/// Parts of a batch that go through the network one after the other, or side by side.
fn parts<M: FeatureMap, N: Network<M>>(mut texts: &[Vec<u32>]) -> Vec<&[Vec<u32>]> {
    let mut parts = Vec::new();
    while !texts.is_empty() {
        let (part, rest) = texts.split_at(N::together(texts).clamp(1, texts.len()));
        parts.push(part);
        texts = rest;
    }
    parts
}

impl<H, D> TextEncoder for Placed<H, D>
where
    H: Network<HostMap> + Debug,
    D: Network<DeviceMap, Vector = H::Vector> + Debug,
{
    type Vector = H::Vector;

    fn vectors(&self, texts: &[Vec<u32>]) -> Result<Vec<H::Vector>, InferenceError> {
        let device = &self.device;
        device.run(|| match &self.form {
            Form::Processor(network) => {
                check(texts, network.vocabulary(), H::LONGEST)?;
                let vectors: Vec<Vec<H::Vector>> = parts::<HostMap, H>(texts)
                    .into_par_iter()
                    .map(|part| network.forward(part, device))
                    .collect::<Result<_, _>>()?;
                Ok(vectors.into_iter().flatten().collect())
            }
            Form::Gpu(network) => {
                check(texts, network.vocabulary(), D::LONGEST)?;
                let mut vectors = Vec::with_capacity(texts.len());
                for part in parts::<DeviceMap, D>(texts) {
                    vectors.extend(network.forward(part, device)?);
                }
                Ok(vectors)
            }
        })
    }

    fn longest(&self) -> usize {
        H::LONGEST
    }
}
