//! The universal sentence encoder for sixteen languages, version 3 (Yang et al. 2019), in its form of convolutions: embeddings and windows of
//! two, three and five tokens, summed over the text, then a small perceptron. Nothing depends on the place in the text, and the cost
//! of a token is the same in texts of any length.

use parkhang_kernels::Activation;
use parkhang_kernels::device::ComputeDevice;
use parkhang_kernels::feature_map::{FeatureMap, LayerNorm};
use parkhang_models::checkpoint::WeightsError;
use parkhang_models::weights::Bundle;

use super::{Builder, Levels, Network, columns_of};
use crate::inference::InferenceError;

/// Ids of the tokenizer.
const VOCABULARY: usize = 128_000;
/// Blocks of the table of embeddings.
const BLOCKS: usize = 17;
/// Values of an embedding, and of the vector of a text.
const WIDTH: usize = 512;
/// Channels of the windows of one size.
const CHANNELS: usize = 256;
/// Columns of windows, and of these those before the token.
const ORDERS: [(usize, usize); 3] = [(2, 0), (3, 1), (5, 2)];
/// Columns without a token between texts, so that no window sees two of them.
const GAP: usize = 2;
/// Channels of a token after all windows.
const FEATURES: usize = WIDTH + ORDERS.len() * CHANNELS;
const HIDDEN: usize = 320;
const EPSILON: f32 = 1e-12;

/// Tokens of texts that share a pass: enough to read the weights seldom, and few enough for the maps to stay in the cache.
const TOGETHER: usize = 512;

/// The network, for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct Universal<M: FeatureMap> {
    table: Levels,
    /// To the channels of the windows of all sizes.
    project: M::Convolution,
    project_norm: LayerNorm,
    orders: Vec<Order<M::Convolution>>,
    norm: LayerNorm,
    reduce: M::Convolution,
    /// The layers of the perceptron, of which the second sees the input too, and the fourth the second.
    head: [M::Convolution; 4],
}

/// Windows of one size.
#[derive(Debug)]
struct Order<C> {
    size: usize,
    before: usize,
    layers: [C; 2],
}

impl<C> Order<C> {
    fn forward<M: FeatureMap<Convolution = C>>(
        &self,
        map: M,
        is_token: &[bool],
    ) -> Result<M, InferenceError> {
        self.layers.iter().try_fold(map, |map, layer| {
            let map = map.masked(is_token);
            let seen = map.windows(self.before, self.size);
            Ok(seen.convolve(layer, Activation::Relu)?.add(&map))
        })
    }
}

impl<M: FeatureMap> Network<M> for Universal<M> {
    const NAME: &'static str = "use-multilingual-v3";
    const LONGEST: usize = 1 << 14;
    type Vector = Vec<f32>;

    fn load(bundle: &Bundle, builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        let scales = builder.values("table.scale", [BLOCKS])?;
        let lowest = builder.values("table.lowest", [BLOCKS])?;
        let scales = scales.into_iter().zip(lowest).collect();
        let table = Levels::read(bundle, <Self as Network<M>>::NAME, scales, [VOCABULARY, WIDTH])?;
        let mut orders = Vec::with_capacity(ORDERS.len());
        for (size, before) in ORDERS {
            let name = |part: &str| format!("order{size}.{part}");
            let mut window = |part: &str| builder.linear::<M>(&name(part), size * CHANNELS, CHANNELS);
            let layers = [window("window1")?, window("window2")?];
            orders.push(Order { size, before, layers });
        }
        Ok(Self {
            table,
            project: builder.linear::<M>("project", WIDTH, FEATURES - WIDTH)?,
            project_norm: builder.layer_norm("project.norm", FEATURES - WIDTH, EPSILON)?,
            orders,
            norm: builder.layer_norm("norm", FEATURES, EPSILON)?,
            reduce: builder.linear::<M>("reduce", FEATURES + 1, WIDTH)?,
            head: [
                builder.linear::<M>("head1", WIDTH, HIDDEN)?,
                builder.linear::<M>("head2", WIDTH + HIDDEN, HIDDEN)?,
                builder.linear::<M>("head3", HIDDEN, WIDTH)?,
                builder.linear::<M>("head4", HIDDEN + WIDTH, WIDTH)?,
            ],
        })
    }

    fn vocabulary(&self) -> usize {
        self.table.rows().min(VOCABULARY)
    }

    fn together(texts: &[Vec<u32>]) -> usize {
        let mut tokens = 0;
        let fits = |text: &&Vec<u32>| {
            tokens += text.len() + GAP;
            tokens <= TOGETHER
        };
        texts.iter().take_while(fits).count()
    }

    fn forward(&self, texts: &[Vec<u32>], device: &ComputeDevice) -> Result<Vec<Vec<f32>>, InferenceError> {
        let (mut embeddings, mut is_token) = (Vec::new(), Vec::new());
        for text in texts {
            for &id in text {
                embeddings.extend(self.table.row(id));
            }
            embeddings.resize(embeddings.len() + GAP * WIDTH, 0.0);
            is_token.resize(is_token.len() + text.len(), true);
            is_token.resize(is_token.len() + GAP, false);
        }
        let embeddings: M = columns_of(&embeddings, WIDTH, device);
        let projected = embeddings
            .convolve(&self.project, Activation::None)?
            .layer_norm(&self.project_norm);
        let mut features = Vec::with_capacity(1 + self.orders.len());
        features.push(embeddings);
        for (number, order) in self.orders.iter().enumerate() {
            let channels = number * CHANNELS..(number + 1) * CHANNELS;
            features.push(order.forward(projected.channels(channels), &is_token)?);
        }
        let features = M::stack(&features).layer_norm(&self.norm).into_columns()?;
        let mut sums = Vec::with_capacity(texts.len() * (FEATURES + 1));
        let mut rest = &*features;
        for text in texts {
            let (tokens, after) = rest.split_at(text.len() * FEATURES);
            rest = &after[GAP * FEATURES..];
            let root = (text.len() as f32).sqrt();
            let mut sum = vec![0.0_f32; FEATURES];
            for token in tokens.chunks_exact(FEATURES) {
                for (sum, value) in sum.iter_mut().zip(token) {
                    *sum += value;
                }
            }
            sums.extend(sum.into_iter().map(|sum| sum / root));
            // The weight of the bias, which each of the tokens has.
            sums.push(root);
        }
        let [first, second, third, fourth] = &self.head;
        let text = columns_of::<M>(&sums, FEATURES + 1, device).convolve(&self.reduce, Activation::None)?;
        let hidden = text.convolve(first, Activation::Relu)?;
        let hidden = M::stack(&[text, hidden]).convolve(second, Activation::Relu)?;
        let wide = hidden.convolve(third, Activation::Relu)?;
        let vectors = M::stack(&[hidden, wide])
            .convolve(fourth, Activation::None)?
            .into_columns()?;
        Ok(vectors.chunks_exact(WIDTH).map(direction).collect())
    }
}

/// Hyperbolic tangents of values, at a length of 1.
fn direction(values: &[f32]) -> Vec<f32> {
    let mut values: Vec<f32> = values.iter().map(|value| value.tanh()).collect();
    let square: f32 = values.iter().map(|value| value * value).sum();
    let length = square.max(EPSILON).sqrt();
    for value in &mut values {
        *value /= length;
    }
    values
}
