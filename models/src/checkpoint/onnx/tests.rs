//! Graphs that ask for more than their files hold.

use super::proto::{AttributeProto, StringStringEntryProto};
use super::*;

/// Bytes of the file with external data, which are four to a value.
const EXTERNAL_BYTES: usize = 1 << 16;

fn tensor(name: &str, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: dims.to_vec(),
        data_type: 1,
        ..TensorProto::default()
    }
}

/// The values of the whole file `w.data`.
fn of_file(name: &str) -> TensorProto {
    let location = StringStringEntryProto {
        key: "location".to_owned(),
        value: "w.data".to_owned(),
    };
    TensorProto {
        data_location: 1,
        external_data: vec![location],
        ..tensor(name, &[EXTERNAL_BYTES as i64 / 4])
    }
}

fn node(op_type: &str, weight: &str) -> NodeProto {
    NodeProto {
        op_type: op_type.to_owned(),
        input: vec!["x".to_owned(), weight.to_owned()],
        ..NodeProto::default()
    }
}

/// A node that holds the tensor of its name.
fn holding(value: TensorProto) -> NodeProto {
    NodeProto {
        op_type: "Constant".to_owned(),
        output: vec![value.name.clone()],
        attribute: vec![AttributeProto {
            name: "value".to_owned(),
            t: Some(value),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    }
}

/// The layers of a graph as it is read from a file, with `w.data` beside it.
fn layers(node: Vec<NodeProto>, initializer: Vec<TensorProto>) -> Result<usize, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("w.data"), vec![0; EXTERNAL_BYTES]).unwrap();
    let graph = GraphProto {
        node,
        initializer,
        ..GraphProto::default()
    };
    let bytes = ModelProto { graph: Some(graph) }.encode_to_vec();
    let graph = OnnxGraph::parse("m.onnx".to_owned(), Some(folder.path()), &bytes).unwrap();
    let layers = graph.layers(&[]);
    layers
        .map(|layers| layers.len())
        .map_err(|error| error.to_string())
}

#[test]
fn a_weight_without_values_costs_nothing() {
    let of_no_rows = tensor("w", &[0, 1 << 62]);
    let refused = layers(vec![node("MatMul", "w")], vec![of_no_rows]);
    assert_eq!(
        refused.unwrap_err(),
        "m.onnx: tensor `w` has the shape [0, 4611686018427387904]"
    );
}

/// In whichever tensors, and of however many layers.
#[test]
fn bytes_that_are_named_again_and_again_are_not_read_so_often() {
    let named = |times: usize| (0..times).map(|place| of_file(&format!("w{place}")));
    let users = |times: usize| (0..times).map(|place| node("Conv", &format!("w{place}")));
    let one = |times: usize| (0..times).map(|_| node("Conv", "w0"));
    let graphs = |times: usize| {
        [
            layers(users(times).collect(), named(times).collect()),
            layers(one(times).collect(), named(1).collect()),
            layers(
                named(times).map(holding).chain(users(times)).collect(),
                Vec::new(),
            ),
        ]
    };
    assert_eq!(graphs(4), [Ok(4), Ok(4), Ok(4)]);
    for refused in graphs(100) {
        let refused = refused.unwrap_err();
        assert!(
            refused.contains("has 16384 values, more than are left of its file"),
            "{refused}"
        );
    }
}

#[test]
fn a_matrix_is_transposed_also_without_rows() {
    let matrix = |shape: [usize; 2], values: &[f32]| HostTensor {
        shape: shape.to_vec(),
        values: values.to_vec(),
    };
    let turned = transposed(&matrix([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(turned.shape, [3, 2]);
    assert_eq!(turned.values, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let claimed = usize::MAX / 4;
    let empty = transposed(&matrix([0, claimed], &[]));
    assert!(empty.shape == [claimed, 0] && empty.values.is_empty());
}
