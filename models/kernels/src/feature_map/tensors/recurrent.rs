//! Recurrent layers of tensors.

use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Device, Tensor, TensorData};

use super::super::recurrent::LstmWeights;
use super::super::{Activation, FeatureMap};
use crate::error::InferenceError;

/// The two directions as tensors.
#[derive(Debug)]
pub struct DeviceLstm {
    hidden: usize,
    directions: [DeviceDirection; 2],
}

#[derive(Debug)]
struct DeviceDirection {
    projection: <Tensor<4> as FeatureMap>::Convolution,
    /// `[hidden, 4 hidden]`.
    recurrent: Tensor<2>,
}

impl DeviceLstm {
    pub(super) fn new(weights: LstmWeights, device: &Device) -> Self {
        let LstmWeights {
            inputs,
            hidden,
            directions,
        } = weights;
        let directions = directions.map(|direction| {
            let recurrent = TensorData::new(direction.recurrent.clone(), [4 * hidden, hidden]);
            DeviceDirection {
                projection: direction.projection::<Tensor<4>>(inputs, device),
                recurrent: Tensor::<2>::from_data(recurrent, device).transpose(),
            }
        });
        Self { hidden, directions }
    }

    /// `[images, inputs, 1, steps]` to `[images, 2 hidden, 1, steps]`.
    pub(super) fn forward(&self, sequence: &Tensor<4>) -> Result<Tensor<4>, InferenceError> {
        let [images, _, _, steps] = sequence.dims();
        let hidden = self.hidden;
        let mut ways = Vec::with_capacity(2);
        for (number, direction) in self.directions.iter().enumerate() {
            let gates = sequence.convolve(&direction.projection, Activation::None)?;
            let gates: Tensor<3> = gates.squeeze_dim(2);
            let mut state = Tensor::<2>::zeros([images, hidden], &sequence.device());
            let mut cell = state.clone();
            let mut states = Vec::with_capacity(steps);
            for step in 0..steps {
                let step = if number == 1 { steps - 1 - step } else { step };
                let input: Tensor<2> = gates
                    .clone()
                    .slice([0..images, 0..4 * hidden, step..step + 1])
                    .squeeze_dim(2);
                let sums = input + state.matmul(direction.recurrent.clone());
                let gate = |number: usize| {
                    sums.clone()
                        .slice([0..images, number * hidden..(number + 1) * hidden])
                };
                cell = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * tanh(gate(2));
                state = sigmoid(gate(3)) * tanh(cell.clone());
                states.push(state.clone().unsqueeze_dim::<3>(2));
            }
            if number == 1 {
                // The way back visits the last step first, and the result is in the order of the line.
                states.reverse();
            }
            ways.push(Tensor::cat(states, 2));
        }
        Ok(Tensor::cat(ways, 1).unsqueeze_dim(2))
    }
}
