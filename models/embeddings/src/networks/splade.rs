//! SPLADE (Formal et al. 2021) over a small BERT: which terms of the vocabulary a text is about, and how much.

use parkhang_kernels::device::ComputeDevice;
use parkhang_kernels::feature_map::{FeatureMap, LayerNorm, Perceptron};
use parkhang_kernels::{Activation, Conv2dShape, ConvolutionWeights, Precision};
use parkhang_models::checkpoint::WeightsError;
use parkhang_models::weights::Bundle;

use super::{Builder, Network, columns_of};
use crate::inference::{InferenceError, Terms};

const VOCABULARY: usize = 30_522;
const WIDTH: usize = 128;
const POSITIONS: usize = 512;
const HIDDEN: usize = 512;
const HEADS: usize = 2;
const LAYERS: usize = 2;
const EPSILON: f32 = 1e-12;

/// Terms whose scores are computed at a time: for a long text as many values as the second-level cache holds.
const AT_ONCE: usize = 1 << 10;

/// The network, for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct Splade<M: FeatureMap> {
    words: Vec<f32>,
    positions: Vec<f32>,
    norm: LayerNorm,
    layers: Vec<Layer<M::Convolution>>,
    transform: M::Convolution,
    transform_norm: LayerNorm,
    /// Scores of the terms, so many at a time; their weights are the embeddings of the words.
    scores: Vec<M::Convolution>,
}

#[derive(Debug)]
struct Layer<C> {
    /// To queries, keys and values.
    attend: C,
    attended: C,
    norm1: LayerNorm,
    perceptron: Perceptron<C>,
    norm2: LayerNorm,
}

impl<C> Layer<C> {
    fn load<M: FeatureMap<Convolution = C>>(
        builder: &mut Builder<'_>,
        number: usize,
    ) -> Result<Self, WeightsError> {
        let name = |part: &str| format!("layer{number}.{part}");
        Ok(Self {
            attend: builder.linear::<M>(&name("attend"), WIDTH, 3 * WIDTH)?,
            attended: builder.linear::<M>(&name("attended"), WIDTH, WIDTH)?,
            norm1: builder.layer_norm(&name("norm1"), WIDTH, EPSILON)?,
            perceptron: Perceptron {
                widen: builder.linear::<M>(&name("widen"), WIDTH, HIDDEN)?,
                activation: Activation::Gelu,
                narrow: builder.linear::<M>(&name("narrow"), HIDDEN, WIDTH)?,
                residual: true,
            },
            norm2: builder.layer_norm(&name("norm2"), WIDTH, EPSILON)?,
        })
    }

    fn forward<M: FeatureMap<Convolution = C>>(&self, map: &M) -> Result<M, InferenceError> {
        let attended = map.convolve(&self.attend, Activation::None)?.attend(HEADS);
        let attended = attended.convolve(&self.attended, Activation::None)?;
        let map = attended.add(map).layer_norm(&self.norm1);
        Ok(map.perceptron(&self.perceptron, None)?.layer_norm(&self.norm2))
    }
}

impl<M: FeatureMap> Network<M> for Splade<M> {
    const NAME: &'static str = "splade-tiny";
    const LONGEST: usize = POSITIONS;
    type Vector = Terms;

    fn load(_: &Bundle, builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        let words = builder.values("word.weight", [VOCABULARY, WIDTH])?;
        let bias = builder.values("word.bias", [VOCABULARY])?;
        let scores = words
            .chunks(AT_ONCE * WIDTH)
            .zip(bias.chunks(AT_ONCE))
            .map(|(weight, bias)| {
                let shape = Conv2dShape::pointwise(WIDTH, bias.len());
                let weights = ConvolutionWeights {
                    weight: weight.to_vec(),
                    bias: bias.to_vec(),
                    of_zero: vec![0.0; bias.len()],
                };
                M::convolution(weights, shape, Precision::Full, builder.device.burn())
            });
        Ok(Self {
            scores: scores.collect(),
            words,
            positions: builder.values("position.weight", [POSITIONS, WIDTH])?,
            norm: builder.layer_norm("norm", WIDTH, EPSILON)?,
            layers: (0..LAYERS)
                .map(|number| Layer::load::<M>(builder, number))
                .collect::<Result<_, _>>()?,
            transform: builder.linear::<M>("transform", WIDTH, WIDTH)?,
            transform_norm: builder.layer_norm("transform.norm", WIDTH, EPSILON)?,
        })
    }

    fn vocabulary(&self) -> usize {
        VOCABULARY
    }

    /// One text: its tokens see each other, and none of another one.
    fn together(_: &[Vec<u32>]) -> usize {
        1
    }

    fn forward(&self, texts: &[Vec<u32>], device: &ComputeDevice) -> Result<Vec<Terms>, InferenceError> {
        texts.iter().map(|text| self.terms(text, device)).collect()
    }
}

impl<M: FeatureMap> Splade<M> {
    fn terms(&self, text: &[u32], device: &ComputeDevice) -> Result<Terms, InferenceError> {
        let mut embeddings = Vec::with_capacity(text.len() * WIDTH);
        for (&id, position) in text.iter().zip(self.positions.chunks_exact(WIDTH)) {
            let word = &self.words[id as usize * WIDTH..][..WIDTH];
            embeddings.extend(word.iter().zip(position).map(|(word, position)| word + position));
        }
        let map = columns_of::<M>(&embeddings, WIDTH, device).layer_norm(&self.norm);
        let map = self
            .layers
            .iter()
            .try_fold(map, |map, layer| layer.forward(&map))?;
        let map = map
            .convolve(&self.transform, Activation::Gelu)?
            .layer_norm(&self.transform_norm);
        let mut terms = Terms::new();
        let mut index = 0;
        for scores in &self.scores {
            for peak in map.convolve(scores, Activation::None)?.peaks()? {
                // NaN goes on to whoever looks whether the device computes.
                if peak > 0.0 || peak.is_nan() {
                    terms.push((index, peak.ln_1p()));
                }
                index += 1;
            }
        }
        Ok(terms)
    }
}
