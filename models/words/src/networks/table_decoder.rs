//! The decoder of tables: a gated recurrent unit (Cho et al. 2014) that looks at places of a map by additive attention (Bahdanau et
//! al. 2015), and says one token of the table and the corners of a cell in each step. Its steps depend on each other and are of
//! single vectors, which a processor computes faster than a GPU starts them.

use parkhang_kernels::{sigmoid, tanh};
use parkhang_models::checkpoint::WeightsError;

use super::Builder;
use crate::inference::{TABLE_CLASSES, TableStep};

/// Channels of the map.
pub(super) const CHANNELS: usize = 96;
/// Size of the state.
const HIDDEN: usize = 256;
/// Input of the unit: what attention saw, and the class of the last token.
const INPUT: usize = CHANNELS + TABLE_CLASSES;
/// Coordinates of a cell: four corners.
const CORNERS: usize = 8;
/// Class of the token before the first one, and of the one after the last.
const START: usize = 0;
const END: usize = TABLE_CLASSES - 1;
/// Largest number of tokens.
const MAX_STEPS: usize = 501;

/// A matrix `[inputs][outputs]` and what is added to its product.
#[derive(Debug)]
struct Linear {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// A layer under the name that it has in the published file.
    fn load(
        builder: &mut Builder<'_>,
        name: &str,
        published: &str,
        [inputs, outputs]: [usize; 2],
        has_bias: bool,
    ) -> Result<Self, WeightsError> {
        let source = &mut builder.source;
        let weight = source.constant(
            &format!("{name}.weight"),
            &format!("{published}.w_0"),
            [inputs, outputs],
        )?;
        let bias = if has_bias {
            source.vector(&format!("{name}.bias"), &format!("{published}.b_0"), outputs)?
        } else {
            vec![0.0; outputs]
        };
        Ok(Self { weight, bias })
    }

    fn apply(&self, input: &[f32]) -> Vec<f32> {
        let mut output = self.bias.clone();
        for (row, &value) in self.weight.chunks_exact(output.len()).zip(input) {
            for (sum, weight) in output.iter_mut().zip(row) {
                *sum += value * weight;
            }
        }
        output
    }
}

/// Weights of one input of the unit: for each gate a matrix `[HIDDEN][input]`, reset, update and new one after the other.
#[derive(Debug)]
struct Gates {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Gates {
    fn load(
        builder: &mut Builder<'_>,
        name: &str,
        number: usize,
        inputs: usize,
    ) -> Result<Self, WeightsError> {
        let source = &mut builder.source;
        let published = |kind: char| format!("gru_cell_0.{kind}_{number}");
        Ok(Self {
            weight: source.constant(&format!("{name}.weight"), &published('w'), [3 * HIDDEN, inputs])?,
            bias: source.vector(&format!("{name}.bias"), &published('b'), 3 * HIDDEN)?,
        })
    }

    /// Sums of the three gates.
    fn apply(&self, input: &[f32]) -> Vec<f32> {
        let rows = self.weight.chunks_exact(input.len().max(1));
        rows.zip(&self.bias)
            .map(|(row, bias)| bias + dot(row, input))
            .collect()
    }
}

/// Product of two vectors, summed in lanes so that it becomes vector code.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (ones, rest) = one.as_chunks::<LANES>();
    let (others, other_rest) = other.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (one, other) in ones.iter().zip(others) {
        for lane in 0..LANES {
            sums[lane] += one[lane] * other[lane];
        }
    }
    let rest: f32 = rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f32>() + rest
}

/// The decoder.
#[derive(Debug)]
pub(super) struct TableDecoder {
    /// Projection of the places.
    places: Linear,
    /// Projection of the state.
    state: Linear,
    /// Score of a place.
    score: Linear,
    of_input: Gates,
    of_state: Gates,
    structure: [Linear; 2],
    corners: [Linear; 2],
}

impl TableDecoder {
    pub(super) fn load(builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        let square = [HIDDEN, HIDDEN];
        let mut linear = |name: &str, number: usize, sizes, has_bias| {
            let published = format!("linear_{number}");
            Linear::load(builder, &format!("decoder.{name}"), &published, sizes, has_bias)
        };
        let places = linear("attention.places", 0, [CHANNELS, HIDDEN], false)?;
        let state = linear("attention.state", 1, square, true)?;
        let score = linear("attention.score", 2, [HIDDEN, 1], false)?;
        let structure = [
            linear("structure.0", 3, square, true)?,
            linear("structure.1", 4, [HIDDEN, TABLE_CLASSES], true)?,
        ];
        let corners = [
            linear("corners.0", 5, square, true)?,
            linear("corners.1", 6, [HIDDEN, CORNERS], true)?,
        ];
        Ok(Self {
            places,
            state,
            score,
            of_input: Gates::load(builder, "decoder.unit.input", 0, INPUT)?,
            of_state: Gates::load(builder, "decoder.unit.state", 1, HIDDEN)?,
            structure,
            corners,
        })
    }

    /// The tokens of a map `[CHANNELS][places]`, without the one that ends them.
    pub(super) fn decode(&self, planes: &[f32]) -> Vec<TableStep> {
        let count = planes.len() / CHANNELS;
        let places: Vec<Vec<f32>> = (0..count)
            .map(|place| planes.iter().skip(place).step_by(count.max(1)).copied().collect())
            .collect();
        // The same in every step.
        let projected: Vec<Vec<f32>> = places.iter().map(|place| self.places.apply(place)).collect();
        let mut state = vec![0.0; HIDDEN];
        let mut class = START;
        let mut steps = Vec::new();
        while steps.len() < MAX_STEPS {
            let mut input = self.attend(&places, &projected, &state);
            input.resize(INPUT, 0.0);
            input[CHANNELS + class] = 1.0;
            state = self.next_state(&input, &state);
            let scores = self.structure[1].apply(&self.structure[0].apply(&state));
            let (likeliest, probability) = likeliest(&scores);
            if likeliest == END && probability.is_finite() {
                break;
            }
            let corners = self.corners[1].apply(&self.corners[0].apply(&state));
            steps.push(TableStep {
                class: likeliest,
                probability,
                corners: std::array::from_fn(|place| corners.get(place).copied().map_or(0.0, sigmoid)),
            });
            // A device that computes what is no number is told by this step.
            if !probability.is_finite() {
                break;
            }
            class = likeliest;
        }
        steps
    }

    /// Mean of the places, weighed by how well they fit the state.
    fn attend(&self, places: &[Vec<f32>], projected: &[Vec<f32>], state: &[f32]) -> Vec<f32> {
        let wanted = self.state.apply(state);
        let mut fits: Vec<f32> = projected
            .iter()
            .map(|place| {
                let seen: Vec<f32> = place
                    .iter()
                    .zip(&wanted)
                    .map(|(one, other)| tanh(one + other))
                    .collect();
                dot(&seen, &self.score.weight)
            })
            .collect();
        shares(&mut fits);
        let mut mean = vec![0.0; CHANNELS];
        for (place, share) in places.iter().zip(fits) {
            for (sum, value) in mean.iter_mut().zip(place) {
                *sum += share * value;
            }
        }
        mean
    }

    fn next_state(&self, input: &[f32], state: &[f32]) -> Vec<f32> {
        let (of_input, of_state) = (self.of_input.apply(input), self.of_state.apply(state));
        (0..HIDDEN)
            .map(|unit| {
                let sum = |gate: usize| of_input[gate * HIDDEN + unit] + of_state[gate * HIDDEN + unit];
                let (reset, update) = (sigmoid(sum(0)), sigmoid(sum(1)));
                let new = tanh(of_input[2 * HIDDEN + unit] + reset * of_state[2 * HIDDEN + unit]);
                (state[unit] - new) * update + new
            })
            .collect()
    }
}

/// The softmax.
fn shares(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
    }
    let sum: f32 = scores.iter().sum();
    for score in scores {
        *score /= sum;
    }
}

/// The class of the largest score, and its share of the softmax.
fn likeliest(scores: &[f32]) -> (usize, f32) {
    let mut probabilities = scores.to_vec();
    shares(&mut probabilities);
    let ranked = probabilities.into_iter().enumerate();
    ranked
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap_or((END, 0.0))
}
