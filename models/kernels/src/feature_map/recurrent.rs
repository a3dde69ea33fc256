//! Bidirectional LSTM layers (Hochreiter and Schmidhuber, 1997), with the gates in PyTorch's order.

use super::{Activation, FeatureMap};
use crate::activation::{sigmoid, tanh};
use crate::convolution::{Conv2dShape, ConvolutionWeights};
use crate::device::Device;
use crate::error::InferenceError;
use crate::precision::Precision;
use crate::row_convolution::{InstructionSet, RowMap};

/// Number of gates whose recurrent weights are multiplied at a time.
const LANES: usize = 64;

/// The weights of both directions.
#[derive(Debug, Clone)]
pub struct LstmWeights {
    pub inputs: usize,
    pub hidden: usize,
    /// Forward, then back.
    pub directions: [DirectionWeights; 2],
}

#[derive(Debug, Clone)]
pub struct DirectionWeights {
    /// `[4 hidden][inputs]`.
    pub input: Vec<f32>,
    /// `[4 hidden][hidden]`.
    pub recurrent: Vec<f32>,
    /// `[4 hidden]`, of input and state together.
    pub bias: Vec<f32>,
}

impl DirectionWeights {
    pub(super) fn projection<M: FeatureMap>(&self, inputs: usize, device: &Device) -> M::Convolution {
        let gates = self.bias.len();
        let weights = ConvolutionWeights {
            weight: self.input.clone(),
            bias: self.bias.clone(),
            of_zero: vec![0.0; gates],
        };
        let shape = Conv2dShape::pointwise(inputs, gates);
        // Only networks of other programs have these layers, and those are computed in full precision.
        M::convolution(weights, shape, Precision::Full, device)
    }
}

/// The two directions on a processor.
#[derive(Debug)]
pub struct HostLstm {
    hidden: usize,
    directions: [HostDirection; 2],
}

#[derive(Debug)]
struct HostDirection {
    projection: <RowMap as FeatureMap>::Convolution,
    /// Recurrent weights in blocks of `LANES` gates, `[hidden][LANES]` each.
    recurrent: Vec<f32>,
}

impl HostLstm {
    pub(super) fn new(weights: LstmWeights, device: &Device) -> Self {
        let LstmWeights {
            inputs,
            hidden,
            directions,
        } = weights;
        let directions = directions.map(|direction| {
            let gates = 4 * hidden;
            let mut recurrent = vec![0.0; gates.next_multiple_of(LANES) * hidden];
            for gate in 0..gates {
                for unit in 0..hidden {
                    // Side by side lie the weights of one unit for many gates. A step then adds up vectors,
                    // each times one number, and never has to sum up along a vector.
                    let block = gate / LANES * hidden * LANES;
                    recurrent[block + unit * LANES + gate % LANES] =
                        direction.recurrent[gate * hidden + unit];
                }
            }
            HostDirection {
                projection: direction.projection::<RowMap>(inputs, device),
                recurrent,
            }
        });
        Self { hidden, directions }
    }

    pub(super) fn forward(&self, sequence: &RowMap) -> Result<RowMap, InferenceError> {
        let (hidden, steps) = (self.hidden, sequence.width);
        let mut values = vec![0.0; 2 * hidden * steps];
        for (number, direction) in self.directions.iter().enumerate() {
            let gates = sequence.convolve(&direction.projection, Activation::None)?;
            let gates = gates.into_columns();
            let states = &mut values[number * hidden * steps..(number + 1) * hidden * steps];
            InstructionSet::detect().run_loops(
                #[inline(always)]
                || direction.run(hidden, steps, &gates, states, number == 1),
            );
        }
        Ok(RowMap {
            rows: 1,
            channels: 2 * hidden,
            width: steps,
            values: values.into(),
        })
    }
}

impl HostDirection {
    /// Reads the sequence in one direction: `gates` is `[steps][4 hidden]` from the inputs, `states` is `[hidden][steps]`.
    #[inline(always)]
    fn run(&self, hidden: usize, steps: usize, gates: &[f32], states: &mut [f32], reverse: bool) {
        let width = 4 * hidden;
        let mut state = vec![0.0_f32; hidden];
        let mut cell = vec![0.0_f32; hidden];
        let mut sums = vec![0.0_f32; width.next_multiple_of(LANES)];
        for step in 0..steps {
            let step = if reverse { steps - 1 - step } else { step };
            // The projection of the inputs does not depend on the state and was computed for all steps as one
            // product.
            sums[..width].copy_from_slice(&gates[step * width..(step + 1) * width]);
            for (block, sums) in self
                .recurrent
                .chunks_exact(hidden * LANES)
                .zip(sums.as_chunks_mut::<LANES>().0)
            {
                let mut lanes = *sums;
                for (weights, &unit) in block.as_chunks::<LANES>().0.iter().zip(&state) {
                    for (lane, &weight) in lanes.iter_mut().zip(weights) {
                        *lane += weight * unit;
                    }
                }
                *sums = lanes;
            }
            for (unit, (cell, state)) in cell.iter_mut().zip(&mut state).enumerate() {
                let gate = |number: usize| sums[number * hidden + unit];
                *cell = sigmoid(gate(1)) * *cell + sigmoid(gate(0)) * tanh(gate(2));
                *state = sigmoid(gate(3)) * tanh(*cell);
                states[unit * steps + step] = *state;
            }
        }
    }
}
