//! Assignment of the layers of a graph to the layers of a network.

use super::StateDict;
use super::onnx::GraphLayer;
use crate::checkpoint::WeightsError;

/// Kind of a layer, which decides its tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerKind {
    Convolution,
    Linear,
    Lstm,
    /// A convolution that enlarges; its weight is `[inputs, outputs, rows, columns]`.
    Transposed,
    /// A norm over channels, with `weight` and `bias`.
    LayerNorm,
}

/// A layer that a network has, by its path in PyTorch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    kind: LayerKind,
    path: String,
    /// Path of the batch norm behind it.
    norm: Option<String>,
}

/// A tensor of a network that a file has under a name of its own, in a part whose layers cannot be told from the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedConstant {
    /// Name of the tensor in the network.
    pub name: String,
    /// Name of the constant in the file.
    pub published: String,
}

impl Slot {
    pub fn convolution(path: impl Into<String>) -> Self {
        Self {
            kind: LayerKind::Convolution,
            path: path.into(),
            norm: None,
        }
    }

    pub fn normed(path: impl Into<String>, norm: impl Into<String>) -> Self {
        Self {
            norm: Some(norm.into()),
            ..Self::convolution(path)
        }
    }

    pub fn linear(path: impl Into<String>) -> Self {
        Self {
            kind: LayerKind::Linear,
            ..Self::convolution(path)
        }
    }

    pub fn transposed(path: impl Into<String>) -> Self {
        Self {
            kind: LayerKind::Transposed,
            ..Self::convolution(path)
        }
    }

    pub fn layer_norm(path: impl Into<String>) -> Self {
        Self {
            kind: LayerKind::LayerNorm,
            ..Self::convolution(path)
        }
    }

    pub(crate) fn lstm(path: impl Into<String>) -> Self {
        Self {
            kind: LayerKind::Lstm,
            ..Self::convolution(path)
        }
    }
}

/// Gives each layer of a graph the names of one slot: by the path in the name of its weight, else by the path in the name of
/// its node, else the first slot of its kind that no name claims, in the order of the graph. The networks then check shapes.
pub(super) fn assign(file: &str, layers: Vec<GraphLayer>, slots: &[Slot]) -> Result<StateDict, WeightsError> {
    let problem = |problem: String| WeightsError::Graph {
        file: file.to_owned(),
        problem,
    };
    // Equal numbers, and a slot that is taken once only: when all layers have a place, no slot is left
    // without one.
    if layers.len() != slots.len() {
        return Err(problem(format!(
            "has {} layers with weights, the network has {}",
            layers.len(),
            slots.len()
        )));
    }
    let mut taken = vec![false; slots.len()];
    let mut places: Vec<Option<usize>> = vec![None; layers.len()];
    let longest = layers.iter().map(|layer| layer.paths.len()).max().unwrap_or(0);
    // Tier by tier over all layers: the name of a weight is surer than that of a node, and must not find its
    // slot taken by the node of another layer.
    for tier in 0..longest {
        for (layer, place) in layers.iter().zip(&mut places) {
            let Some(path) = layer.paths.get(tier).filter(|_| place.is_none()) else {
                continue;
            };
            *place = slot_of(path, layer.kind, slots).filter(|&slot| !taken[slot]);
            if let Some(slot) = *place {
                taken[slot] = true;
            }
        }
    }
    let mut tensors = StateDict::new();
    for (layer, place) in layers.into_iter().zip(places) {
        let place = place
            // Slots stand in the order in which the network uses its layers, which is that of the graph.
            .or_else(|| (0..slots.len()).find(|&slot| !taken[slot] && slots[slot].kind == layer.kind))
            .ok_or_else(|| {
                problem(format!(
                    "has `{}`, which the network has no place for",
                    layer.node
                ))
            })?;
        taken[place] = true;
        let Slot { path, norm, .. } = &slots[place];
        for (name, tensor) in layer.tensors {
            tensors.insert(format!("{path}.{name}"), tensor);
        }
        if let Some(values) = layer.norm {
            let norm = norm.as_ref().ok_or_else(|| {
                problem(format!(
                    "has a norm behind `{}`, the network has none",
                    layer.node
                ))
            })?;
            for (name, tensor) in ["weight", "bias", "running_mean", "running_var"]
                .into_iter()
                .zip(values)
            {
                tensors.insert(format!("{norm}.{name}"), tensor);
            }
        }
    }
    Ok(tensors)
}

/// The slot whose path ends that of the layer, the longest of several: exporters may put the name of a wrapper before.
fn slot_of(path: &str, kind: LayerKind, slots: &[Slot]) -> Option<usize> {
    let ends = |slot: &Slot| {
        let before = path.strip_suffix(&slot.path);
        slot.kind == kind && before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    (0..slots.len())
        .filter(|&slot| ends(&slots[slot]))
        // `easter1.conv1d_1` ends in `conv1d_1`, another layer, as well.
        .max_by_key(|&slot| slots[slot].path.len())
}

/// Tensors without what wrappers such as `DataParallel` put before all their names.
pub(super) fn without_prefix(tensors: &StateDict, slots: &[Slot]) -> StateDict {
    let first = slots
        .first()
        .map(|slot| format!("{}.weight", slot.path))
        .unwrap_or_default();
    let prefix = tensors
        .keys()
        .filter_map(|name| name.strip_suffix(&first))
        .filter(|prefix| prefix.is_empty() || prefix.ends_with('.'))
        // Another layer may end in the same name, deeper within the network: the wrapper's prefix is the
        // shorter one.
        .min_by_key(|prefix| prefix.len())
        .unwrap_or("");
    tensors
        .iter()
        .filter_map(|(name, tensor)| Some((name.strip_prefix(prefix)?.to_owned(), tensor.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::HostTensor;
    use super::*;

    fn layer(kind: LayerKind, paths: &[&str], value: f32) -> GraphLayer {
        GraphLayer {
            kind,
            node: format!("node {value}"),
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            tensors: vec![("weight".to_owned(), tensor(value))],
            norm: None,
        }
    }

    fn tensor(value: f32) -> HostTensor {
        HostTensor {
            shape: vec![1],
            values: vec![value],
        }
    }

    fn values(tensors: &StateDict) -> Vec<(&str, f32)> {
        tensors
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor.values[0]))
            .collect()
    }

    #[test]
    fn names_go_before_order() {
        let slots = [
            Slot::convolution("conv_1"),
            Slot::convolution("unit.conv_1"),
            Slot::linear("linear"),
            Slot::convolution("last"),
        ];
        let layers = vec![
            layer(LayerKind::Convolution, &["wrapper.unit.conv_1"], 1.0),
            layer(LayerKind::Convolution, &["onnx::Conv_7", "conv_1"], 2.0),
            layer(LayerKind::Convolution, &[], 3.0),
            layer(LayerKind::Linear, &["elsewhere"], 4.0),
        ];
        let tensors = assign("m.onnx", layers, &slots).unwrap();
        assert_eq!(
            values(&tensors),
            [
                ("conv_1.weight", 2.0),
                ("last.weight", 3.0),
                ("linear.weight", 4.0),
                ("unit.conv_1.weight", 1.0)
            ]
        );
    }

    #[test]
    fn layers_without_a_place_are_refused() {
        let slots = [Slot::convolution("a"), Slot::linear("b")];
        let error = |layers| assign("m.onnx", layers, &slots).unwrap_err().to_string();
        let one = vec![layer(LayerKind::Convolution, &[], 1.0)];
        assert_eq!(
            error(one),
            "m.onnx: the graph has 1 layers with weights, the network has 2"
        );
        let two = vec![
            layer(LayerKind::Convolution, &[], 1.0),
            layer(LayerKind::Convolution, &[], 2.0),
        ];
        assert_eq!(
            error(two),
            "m.onnx: the graph has `node 2`, which the network has no place for"
        );
        let mut normed = vec![
            layer(LayerKind::Convolution, &[], 1.0),
            layer(LayerKind::Linear, &[], 2.0),
        ];
        normed[0].norm = Some([1.0, 2.0, 3.0, 4.0].map(tensor));
        assert!(error(normed).contains("the network has none"));
    }

    #[test]
    fn wrappers_are_taken_off_checkpoints() {
        let slots = [Slot::convolution("conv")];
        for prefix in ["", "module.", "_orig_mod.module."] {
            let stored: StateDict = [("conv.weight", 1.0), ("sub.conv.weight", 2.0)]
                .map(|(name, value)| (format!("{prefix}{name}"), tensor(value)))
                .into();
            assert_eq!(
                values(&without_prefix(&stored, &slots)),
                [("conv.weight", 1.0), ("sub.conv.weight", 2.0)]
            );
        }
    }
}
