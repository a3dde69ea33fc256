//! Layers made of nodes: a convolution with the norm behind it, a matrix product with the bias behind it.

use std::collections::HashMap;

use super::proto::NodeProto;
use super::{HostTensor, Index, MAX_STEPS, lstm, transposed};
use crate::checkpoint::WeightsError;
use crate::checkpoint::layers::BATCH_NORM_EPSILON;
use crate::checkpoint::{LayerKind, LayerTensors};

/// Layers and activations that would be computed as something else if they were passed over.
const FOREIGN: [&str; 20] = [
    "Celu",
    "ConvTranspose",
    "Elu",
    "Erf",
    "GRU",
    "Gelu",
    "GlobalMaxPool",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LayerNormalization",
    "LeakyRelu",
    "Mish",
    "PRelu",
    "RNN",
    "Selu",
    "Softplus",
    "Swish",
    "Tanh",
];

/// A layer of a graph, before it is known which layer of the network it is.
#[derive(Debug, Clone)]
pub(in crate::checkpoint) struct GraphLayer {
    pub(in crate::checkpoint) kind: LayerKind,
    /// Name of its node, for errors.
    pub(in crate::checkpoint) node: String,
    /// Paths of the layer in the network, from the name of its weight and from the name of its node.
    pub(in crate::checkpoint) paths: Vec<String>,
    /// Tensors by the last part of their names.
    pub(in crate::checkpoint) tensors: LayerTensors,
    /// `weight`, `bias`, `running_mean` and `running_var` of the batch norm behind it.
    pub(in crate::checkpoint) norm: Option<[HostTensor; 4]>,
}

pub(super) fn layers(index: &Index<'_>, known: &[&str]) -> Result<Vec<GraphLayer>, WeightsError> {
    let mut layers = Vec::new();
    let mut by_output: HashMap<&str, usize> = HashMap::new();
    for node in index.nodes() {
        let layer = match node.op_type.as_str() {
            "Conv" => Some(convolution(index, node)?),
            "Gemm" => Some(gemm(index, node)?),
            "MatMul" => product(index, node)?,
            "ConvTranspose" if known.contains(&"ConvTranspose") => Some(GraphLayer {
                kind: LayerKind::Transposed,
                ..convolution(index, node)?
            }),
            "Mul" => layer_norm(index, node)?,
            "LSTM" => Some(lstm::layer(index, node)?),
            "BatchNormalization" => {
                let before = layer_before(index, node, &by_output).and_then(|place| layers.get_mut(place));
                let Some(layer) = before else {
                    return Err(index.problem(format!("has the norm `{}` behind no convolution", node.name)));
                };
                attach_norm(index, node, layer)?;
                None
            }
            foreign if FOREIGN.contains(&foreign) && !known.contains(&foreign) => {
                return Err(index.problem(format!("has the operator {foreign}, which no known network has")));
            }
            _ => None,
        };
        if let Some(layer) = layer {
            // Before the layer goes into the list, whose length is its place.
            by_output.extend(node.output.iter().map(|output| (output.as_str(), layers.len())));
            layers.push(layer);
        }
    }
    Ok(layers)
}

fn layer(node: &NodeProto, kind: LayerKind, weight_name: Option<&str>, tensors: LayerTensors) -> GraphLayer {
    let of_weight = weight_name.and_then(|name| name.strip_suffix(".weight"));
    let paths = of_weight
        .map(str::to_owned)
        .into_iter()
        .chain(node_path(&node.name));
    GraphLayer {
        kind,
        node: node.name.clone(),
        paths: paths.collect(),
        tensors,
        norm: None,
    }
}

/// `/encoder/layer1/layer1.0/conv1/Conv` is `encoder.layer1.0.conv1`: a module in a list is named with the list.
pub(super) fn node_path(name: &str) -> Option<String> {
    let (modules, _operator) = name.strip_prefix('/')?.rsplit_once('/')?;
    let mut path: Vec<&str> = Vec::new();
    for module in modules.split('/') {
        let in_list = path.last().is_some_and(|last| {
            module
                .strip_prefix(last)
                .is_some_and(|rest| rest.starts_with('.'))
        });
        if in_list {
            path.pop();
        }
        path.push(module);
    }
    Some(path.join("."))
}

fn weight_of<'a>(
    index: &Index<'a>,
    node: &'a NodeProto,
    input: usize,
) -> Result<super::Operand<'a>, WeightsError> {
    node.input
        .get(input)
        .and_then(|name| index.operand(name))
        .ok_or_else(|| index.problem(format!("has no constant weight for `{}`", node.name)))
}

/// The bias of a convolution or a Gemm.
fn bias_of(index: &Index<'_>, node: &NodeProto) -> Result<Option<HostTensor>, WeightsError> {
    match node.input.get(2).filter(|name| !name.is_empty()) {
        Some(_) => Ok(Some(index.read(&weight_of(index, node, 2)?)?)),
        None => Ok(None),
    }
}

fn named(weight: HostTensor, bias: Option<HostTensor>) -> LayerTensors {
    let bias = bias.map(|bias| ("bias".to_owned(), bias));
    std::iter::once(("weight".to_owned(), weight))
        .chain(bias)
        .collect()
}

fn convolution<'a>(index: &Index<'a>, node: &'a NodeProto) -> Result<GraphLayer, WeightsError> {
    let operand = weight_of(index, node, 1)?;
    let bias = match bias_of(index, node)? {
        Some(bias) => Some(bias),
        None => added_bias(index, node)?,
    };
    let tensors = named(index.read(&operand)?, bias);
    Ok(layer(
        node,
        LayerKind::Convolution,
        Some(&operand.tensor.name),
        tensors,
    ))
}

/// The bias of a convolution where the next node adds it, as one value for each channel.
fn added_bias<'a>(index: &Index<'a>, node: &'a NodeProto) -> Result<Option<HostTensor>, WeightsError> {
    let Some((_, operand)) = index.applied(node, "Add") else {
        return Ok(None);
    };
    let bias = index.read(&operand)?;
    Ok(match bias.shape[..] {
        [1, channels, 1, 1] => Some(HostTensor {
            shape: vec![channels],
            ..bias
        }),
        _ => None,
    })
}

/// A norm over channels that the graph spells out: `node` multiplies a quotient by a root with the scale, and the next node adds
/// the shift.
fn layer_norm<'a>(index: &Index<'a>, node: &'a NodeProto) -> Result<Option<GraphLayer>, WeightsError> {
    let producer = |name: &String| index.producers.get(name.as_str()).copied();
    let normed = node.input.iter().filter_map(producer).any(|quotient| {
        let root = quotient.input.get(1).and_then(producer);
        quotient.op_type == "Div" && root.is_some_and(|root| root.op_type == "Sqrt")
    });
    let scale = node.input.iter().find_map(|input| index.operand(input));
    let (Some(scale), Some((_, shift))) = (scale.filter(|_| normed), index.applied(node, "Add")) else {
        return Ok(None);
    };
    let tensors = named(index.read(&scale)?, Some(index.read(&shift)?));
    Ok(Some(layer(node, LayerKind::LayerNorm, None, tensors)))
}

/// PyTorch's linear layer keeps its weight as `[outputs, inputs]`.
fn gemm(index: &Index<'_>, node: &NodeProto) -> Result<GraphLayer, WeightsError> {
    let flag = |name: &str| node.attribute(name).is_some_and(|flag| flag.i != 0);
    let factor = |name: &str| node.attribute(name).map_or(1.0, |factor| factor.f);
    // A linear layer is the input times the weight plus the bias, each once.
    if flag("transA") || factor("alpha") != 1.0 || factor("beta") != 1.0 {
        return Err(index.problem(format!("has `{}`, which is no linear layer", node.name)));
    }
    let operand = weight_of(index, node, 1)?;
    let stored = index.read(&operand)?;
    let weight = if flag("transB") {
        stored
    } else {
        transposed(&stored)
    };
    let tensors = named(weight, bias_of(index, node)?);
    Ok(layer(
        node,
        LayerKind::Linear,
        Some(&operand.tensor.name),
        tensors,
    ))
}

/// A matrix product with a constant is a linear layer whose bias is added by the next node.
fn product<'a>(index: &Index<'a>, node: &'a NodeProto) -> Result<Option<GraphLayer>, WeightsError> {
    let Some(operand) = node.input.get(1).and_then(|name| index.operand(name)) else {
        return Ok(None);
    };
    let weight = transposed(&index.read(&operand)?);
    let added = index.applied(node, "Add");
    let (bias_name, bias) = match &added {
        Some((name, operand)) => (Some(*name), Some(index.read(operand)?)),
        None => (None, None),
    };
    let mut layer = layer(
        node,
        LayerKind::Linear,
        Some(&operand.tensor.name),
        named(weight, bias),
    );
    // The weight was renamed when it was transposed; the bias was not.
    layer.paths.extend(
        bias_name
            .and_then(|name| name.strip_suffix(".bias"))
            .map(str::to_owned),
    );
    Ok(Some(layer))
}

/// The convolution whose output a norm takes, through the padding between them.
fn layer_before(index: &Index<'_>, node: &NodeProto, by_output: &HashMap<&str, usize>) -> Option<usize> {
    let mut name = node.input.first()?;
    for _ in 0..MAX_STEPS {
        if let Some(&place) = by_output.get(name.as_str()) {
            return Some(place);
        }
        let producer = index.producers.get(name.as_str())?;
        name = match producer.op_type.as_str() {
            "Concat" => producer
                .input
                .iter()
                .find(|input| by_output.contains_key(input.as_str()))?,
            "Pad" | "Identity" => producer.input.first()?,
            _ => return None,
        };
    }
    None
}

fn attach_norm(index: &Index<'_>, node: &NodeProto, layer: &mut GraphLayer) -> Result<(), WeightsError> {
    if layer.norm.is_some() {
        return Err(index.problem(format!("has the norm `{}` behind another norm", node.name)));
    }
    let tensor = |input| index.read(&weight_of(index, node, input)?);
    let [scale, shift, mean, mut variance] = [tensor(1)?, tensor(2)?, tensor(3)?, tensor(4)?];
    // The networks add PyTorch's default; what another epsilon differs by goes into the variance.
    let epsilon = node
        .attribute("epsilon")
        .map_or(BATCH_NORM_EPSILON, |epsilon| f64::from(epsilon.f));
    // Only the sum of variance and epsilon is ever used.
    for value in &mut variance.values {
        *value = (f64::from(*value) + epsilon - BATCH_NORM_EPSILON) as f32;
    }
    layer.norm = Some([scale, shift, mean, variance]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::node_path;

    #[test]
    fn nodes_are_named_after_their_modules() {
        let cases = [
            ("/conv1d_1/Conv", "conv1d_1"),
            (
                "/easter1/global_context/linear1/Gemm",
                "easter1.global_context.linear1",
            ),
            ("/encoder/layer1/layer1.0/conv1/Conv", "encoder.layer1.0.conv1"),
            (
                "/decoder/aspp/aspp.0/convs.1/convs.1.0/convs.1.0.1/Conv",
                "decoder.aspp.0.convs.1.0.1",
            ),
            ("/decoder/block2/block2.0/block2.0.0/Conv", "decoder.block2.0.0"),
        ];
        for (node, path) in cases {
            assert_eq!(node_path(node).as_deref(), Some(path), "{node}");
        }
        assert_eq!(node_path("node_conv1d_3"), None);
        assert_eq!(node_path("Conv_12"), None);
        assert_eq!(node_path("/Conv"), None);
    }
}
