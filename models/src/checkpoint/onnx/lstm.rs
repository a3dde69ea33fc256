//! Bidirectional LSTM layers. ONNX keeps both directions in one tensor and orders the gates input, output, forget, cell;
//! PyTorch has one tensor per direction and the order input, forget, cell, output.

use std::collections::HashSet;

use super::layer::{GraphLayer, node_path};
use super::proto::NodeProto;
use super::{HostTensor, Index};
use crate::checkpoint::WeightsError;
use crate::checkpoint::{LayerKind, LayerTensors};

/// Positions of PyTorch's gates in ONNX.
const GATES: [usize; 4] = [0, 2, 3, 1];
/// Ends of PyTorch's names for the two directions.
const DIRECTIONS: [&str; 2] = ["", "_reverse"];

/// The operands that hold weights, and PyTorch's names of what each holds for a direction.
const OPERANDS: [(usize, &[&str]); 3] = [
    (1, &["weight_ih"]),
    (2, &["weight_hh"]),
    (3, &["bias_ih", "bias_hh"]),
];

pub(super) fn layer<'a>(index: &Index<'a>, node: &'a NodeProto) -> Result<GraphLayer, WeightsError> {
    let direction = node
        .attribute("direction")
        .map(|direction| direction.s.as_slice());
    if direction != Some(b"bidirectional") {
        return Err(index.problem(format!(
            "has the LSTM `{}`, which reads in one direction",
            node.name
        )));
    }
    let mut paths: Vec<String> = node_path(&node.name).into_iter().collect();
    let mut tensors = Vec::with_capacity(8);
    for (input, names) in OPERANDS {
        let name = node.input.get(input).map(String::as_str).unwrap_or_default();
        if let Some(operand) = index.operand(name) {
            let parts = unstacked(names, &index.read(&operand)?);
            let odd = || index.problem(format!("has the LSTM `{}` with odd shapes", node.name));
            tensors.extend(parts.ok_or_else(odd)?);
        } else {
            let (path, parts) = by_name(index, node, name, names)?;
            paths.push(path.to_owned());
            tensors.extend(parts);
        }
    }
    paths.dedup();
    Ok(GraphLayer {
        kind: LayerKind::Lstm,
        node: node.name.clone(),
        paths,
        tensors,
        norm: None,
    })
}

/// Takes a tensor of both directions apart, `[2, 4 h, columns]`, or `[2, 8 h]` with two biases one after the other.
fn unstacked(names: &[&str], tensor: &HostTensor) -> Option<LayerTensors> {
    let (rows, columns) = match *tensor.shape.as_slice() {
        [2, rows] => (rows, None),
        [2, rows, columns] => (rows, Some(columns)),
        _ => return None,
    };
    // The operand of biases has those of the input and of the state one after the other for each direction.
    let of_a_gate = rows / (GATES.len() * names.len()) * columns.unwrap_or(1);
    if !rows.is_multiple_of(GATES.len() * names.len()) || of_a_gate == 0 {
        return None;
    }
    let shape: Vec<usize> = std::iter::once(rows / names.len()).chain(columns).collect();
    let ends = DIRECTIONS
        .into_iter()
        .flat_map(|direction| names.iter().map(move |name| format!("{name}_l0{direction}")));
    let parts = tensor.values.chunks_exact(GATES.len() * of_a_gate);
    let in_order = |part: &[f32]| HostTensor {
        shape: shape.clone(),
        values: GATES
            .into_iter()
            .flat_map(|gate| &part[gate * of_a_gate..(gate + 1) * of_a_gate])
            .copied()
            .collect(),
    };
    Some(ends.zip(parts.map(in_order)).collect())
}

/// An exporter that does not fold leaves PyTorch's tensors in the file, under PyTorch's names, and puts the operand together
/// in the graph; the newer one does so with large tensors alone. Gives the path of the layer too.
fn by_name<'a>(
    index: &Index<'a>,
    node: &NodeProto,
    operand: &'a str,
    names: &[&str],
) -> Result<(&'a str, LayerTensors), WeightsError> {
    let missing = || index.problem(format!("has no weights for the LSTM `{}`", node.name));
    let path = names
        .first()
        .and_then(|name| origin(index, operand, &format!(".{name}_l0")))
        .ok_or_else(missing)?;
    let mut tensors = Vec::with_capacity(4);
    for direction in DIRECTIONS {
        for name in names {
            let name = format!("{name}_l0{direction}");
            let stored = index
                .constants
                .get(format!("{path}.{name}").as_str())
                .ok_or_else(missing)?;
            tensors.push((name, index.tensor(stored)?));
        }
    }
    Ok((path, tensors))
}

/// Text before `end` in the name of a constant that an operand is put together from.
fn origin<'a>(index: &Index<'a>, operand: &'a str, end: &str) -> Option<&'a str> {
    let mut ahead = vec![operand];
    let mut seen = HashSet::new();
    while let Some(value) = ahead.pop() {
        // A damaged graph may run in a circle.
        if !seen.insert(value) {
            continue;
        }
        if let Some(path) = value.strip_suffix(end)
            && index.constants.contains_key(value)
        {
            return Some(path);
        }
        let Some(&producer) = index.producers.get(value) else {
            continue;
        };
        let parts = match producer.op_type.as_str() {
            // An operand is put together of both directions; one of its parts carries the name that is looked
            // for.
            "Concat" => producer.input.len(),
            "Cast" | "Identity" | "Reshape" | "Slice" | "Squeeze" | "Transpose" | "Unsqueeze" => 1,
            _ => 0,
        };
        ahead.extend(producer.input.iter().take(parts).map(String::as_str));
    }
    None
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
        let shapes: [&[usize]; 3] = [&[2, 4, 2], &[2, 4, 1], &[2, 8]];
        let tensors: LayerTensors = OPERANDS
            .into_iter()
            .zip(shapes)
            .flat_map(|((_, names), shape)| unstacked(names, &numbered(shape)).unwrap())
            .collect();
        let of = |name: &str| {
            let (_, tensor) = tensors.iter().find(|(known, _)| known == name).unwrap();
            tensor.values.as_slice()
        };
        assert_eq!(of("weight_ih_l0"), [0.0, 1.0, 4.0, 5.0, 6.0, 7.0, 2.0, 3.0]);
        assert_eq!(of("weight_hh_l0_reverse"), [4.0, 6.0, 7.0, 5.0]);
        assert_eq!(of("bias_ih_l0"), [0.0, 2.0, 3.0, 1.0]);
        assert_eq!(of("bias_hh_l0_reverse"), [12.0, 14.0, 15.0, 13.0]);
        for odd in [&[1, 4, 2][..], &[2, 6, 2], &[2, 4, 0], &[2], &[2, 4, 2, 1]] {
            assert!(unstacked(&["weight_ih"], &numbered(odd)).is_none(), "{odd:?}");
        }
        assert!(unstacked(&["bias_ih", "bias_hh"], &numbered(&[2, 4])).is_none());
    }
}
