//! Bidirectional LSTM layers. ONNX keeps both directions in one tensor and orders the gates input, output, forget, cell;
//! PyTorch has one tensor per direction and the order input, forget, cell, output.

use super::layer::{GraphLayer, node_path};
use super::proto::NodeProto;
use super::{HostTensor, Index};
use crate::weights::WeightsError;
use crate::weights::import::{LayerKind, LayerTensors};

/// Where PyTorch's gates stand in ONNX.
const GATES: [usize; 4] = [0, 2, 3, 1];
/// Ends of PyTorch's names for the two directions.
const DIRECTIONS: [&str; 2] = ["", "_reverse"];

pub(super) fn layer(index: &Index<'_>, node: &NodeProto) -> Result<GraphLayer, WeightsError> {
    let direction = node
        .attribute("direction")
        .map(|direction| direction.s.as_slice());
    if direction != Some(b"bidirectional") {
        return Err(index.problem(format!(
            "has the LSTM `{}`, which reads in one direction",
            node.name
        )));
    }
    let stacked = [1, 2, 3].map(|input| node.input.get(input).and_then(|name| index.operand(name)));
    let (paths, tensors) = if let [Some(weights), Some(recurrent), Some(bias)] = &stacked {
        let paths = node_path(&node.name).into_iter().collect();
        let stacked = [index.read(weights)?, index.read(recurrent)?, index.read(bias)?];
        let tensors = unstacked(stacked)
            .ok_or_else(|| index.problem(format!("has the LSTM `{}` with odd shapes", node.name)))?;
        (paths, tensors)
    } else {
        by_name(index, node)?
    };
    Ok(GraphLayer {
        kind: LayerKind::Lstm,
        node: node.name.clone(),
        paths,
        tensors,
        norm: None,
    })
}

/// Takes `[2, 4 h, inputs]`, `[2, 4 h, h]` and `[2, 8 h]` apart.
fn unstacked([weights, recurrent, bias]: [HostTensor; 3]) -> Option<LayerTensors> {
    let &[2, gates, inputs] = weights.shape.as_slice() else {
        return None;
    };
    let hidden = gates / 4;
    if gates % 4 != 0 || recurrent.shape != [2, gates, hidden] || bias.shape != [2, 2 * gates] {
        return None;
    }
    let mut tensors = Vec::with_capacity(8);
    for (number, direction) in DIRECTIONS.into_iter().enumerate() {
        let mut push = |name: &str, from: &HostTensor, offset: usize, columns: usize, shape: Vec<usize>| {
            let mut values = Vec::with_capacity(gates * columns);
            for gate in GATES {
                let start = offset + gate * hidden * columns;
                values.extend_from_slice(&from.values[start..start + hidden * columns]);
            }
            tensors.push((format!("{name}_l0{direction}"), HostTensor { shape, values }));
        };
        push(
            "weight_ih",
            &weights,
            number * gates * inputs,
            inputs,
            vec![gates, inputs],
        );
        push(
            "weight_hh",
            &recurrent,
            number * gates * hidden,
            hidden,
            vec![gates, hidden],
        );
        push("bias_ih", &bias, 2 * number * gates, 1, vec![gates]);
        push("bias_hh", &bias, (2 * number + 1) * gates, 1, vec![gates]);
    }
    Some(tensors)
}

/// An exporter that folds nothing leaves PyTorch's tensors in the file, under PyTorch's names, and takes them apart in the
/// graph. The node's name says which they are.
fn by_name(index: &Index<'_>, node: &NodeProto) -> Result<(Vec<String>, LayerTensors), WeightsError> {
    let missing = || index.problem(format!("has no weights for the LSTM `{}`", node.name));
    let path = node_path(&node.name).ok_or_else(missing)?;
    let mut tensors = Vec::with_capacity(8);
    for direction in DIRECTIONS {
        for name in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"] {
            let name = format!("{name}_l0{direction}");
            let stored = index
                .constants
                .get(format!("{path}.{name}").as_str())
                .ok_or_else(missing)?;
            tensors.push((name, index.tensor(stored)?));
        }
    }
    Ok((vec![path], tensors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_and_directions_are_told_apart() {
        let count = |shape: &[usize]| -> usize { shape.iter().product() };
        let numbered = |shape: &[usize]| HostTensor {
            shape: shape.to_vec(),
            values: (0..count(shape)).map(|value| value as f32).collect(),
        };
        let tensors = unstacked([numbered(&[2, 4, 2]), numbered(&[2, 4, 1]), numbered(&[2, 8])]).unwrap();
        let of = |name: &str| {
            let (_, tensor) = tensors.iter().find(|(known, _)| known == name).unwrap();
            tensor.values.as_slice()
        };
        assert_eq!(of("weight_ih_l0"), [0.0, 1.0, 4.0, 5.0, 6.0, 7.0, 2.0, 3.0]);
        assert_eq!(of("weight_hh_l0_reverse"), [4.0, 6.0, 7.0, 5.0]);
        assert_eq!(of("bias_ih_l0"), [0.0, 2.0, 3.0, 1.0]);
        assert_eq!(of("bias_hh_l0_reverse"), [12.0, 14.0, 15.0, 13.0]);
        assert!(unstacked([numbered(&[1, 4, 2]), numbered(&[1, 4, 1]), numbered(&[1, 8])]).is_none());
        assert!(unstacked([numbered(&[2, 4, 2]), numbered(&[2, 4, 2]), numbered(&[2, 8])]).is_none());
    }
}
