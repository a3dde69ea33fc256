//! ONNX files: their layers with weights, in the order of the graph.
//!
//! Exporters differ. PyTorch's older one folds batch norm into the convolutions before it and renames what it folded, so
//! that the path of a layer is left in the name of its node alone; the newer one keeps the names of the weights, not of the
//! nodes, and puts the values into a second file. Both leave a norm alone that padding parts from its convolution.

mod layer;
mod lstm;
mod proto;
mod tensor;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use prost::Message;

pub(super) use layer::GraphLayer;

use super::{Allowance, HostTensor, NamedConstant, StateDict, read_limited};
use crate::checkpoint::WeightsError;
use proto::{GraphProto, ModelProto, NodeProto, TensorProto};

/// Largest number of operators between a layer and the norm or the weight that belongs to it.
const MAX_STEPS: usize = 16;

/// The graph of an ONNX file.
#[derive(Debug, Clone)]
pub(crate) struct OnnxGraph {
    /// Name of the file, for errors.
    label: String,
    /// Folder of external data.
    directory: Option<PathBuf>,
    /// Length of the file itself.
    bytes: usize,
    graph: GraphProto,
    input_shape: Option<Vec<Option<usize>>>,
}

impl OnnxGraph {
    pub(super) fn open(path: &Path) -> Result<Self, WeightsError> {
        let bytes = read_limited(path)?;
        Self::parse(path.display().to_string(), path.parent(), &bytes)
    }

    pub(super) fn parse(label: String, directory: Option<&Path>, bytes: &[u8]) -> Result<Self, WeightsError> {
        let model = ModelProto::decode(bytes).map_err(|source| WeightsError::NotOnnx {
            file: label.clone(),
            source,
        })?;
        let graph = model.graph.ok_or_else(|| WeightsError::Graph {
            file: label.clone(),
            problem: "has no graph".to_owned(),
        })?;
        let input_shape = declared_input(&graph);
        Ok(Self {
            label,
            directory: directory.map(Path::to_owned),
            bytes: bytes.len(),
            graph,
            input_shape,
        })
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn input_shape(&self) -> Option<&[Option<usize>]> {
        self.input_shape.as_deref()
    }

    /// All tensors of the file.
    fn tensors(&self) -> impl Iterator<Item = &TensorProto> {
        let constants = self.graph.node.iter().filter_map(constant);
        self.graph.initializer.iter().chain(constants)
    }

    /// The files that hold external data.
    pub(super) fn external_files(&self) -> Vec<PathBuf> {
        let Some(directory) = &self.directory else {
            return Vec::new();
        };
        let locations: BTreeSet<&str> = self
            .tensors()
            .flat_map(|tensor| &tensor.external_data)
            // Only files that reading would accept: these are hashed, and a checksum must not reach outside
            // the folder either.
            .filter(|entry| entry.key == "location" && tensor::is_inside(&entry.value))
            .map(|entry| entry.value.as_str())
            .collect();
        locations
            .into_iter()
            .map(|location| directory.join(location))
            .collect()
    }

    /// Length of the file and of those with external data.
    fn all_bytes(&self) -> u64 {
        let length = |file: PathBuf| std::fs::metadata(file).map_or(0, |found| found.len());
        self.bytes as u64 + self.external_files().into_iter().map(length).sum::<u64>()
    }

    /// Returns whether an operator of this type occurs.
    pub(crate) fn uses(&self, operator: &str) -> bool {
        self.graph.node.iter().any(|node| node.op_type == operator)
    }

    /// The layers that have weights, in the order of the graph. `known` are operators that the network computes although others
    /// do not have them.
    pub(super) fn layers(&self, known: &[&str]) -> Result<Vec<GraphLayer>, WeightsError> {
        layer::layers(&Index::new(self), known)
    }

    /// Constants under the names that the network gives them.
    pub(super) fn constants(&self, wanted: &[NamedConstant]) -> Result<StateDict, WeightsError> {
        let index = Index::new(self);
        let read = |constant: &NamedConstant| {
            let published = constant.published.as_str();
            let tensor = index
                .constants
                .get(published)
                .ok_or_else(|| index.problem(format!("has no constant `{published}`")))?;
            Ok((constant.name.clone(), index.tensor(tensor)?))
        };
        wanted.iter().map(read).collect()
    }
}

/// The tensor that a node holds: some exporters keep weights in nodes and not in the list of initializers.
fn constant(node: &NodeProto) -> Option<&TensorProto> {
    let value = node.attribute("value").filter(|_| node.op_type == "Constant");
    value?.t.as_ref()
}

/// Shape of the first input that is no weight: old files list those as inputs too.
fn declared_input(graph: &GraphProto) -> Option<Vec<Option<usize>>> {
    let input = graph
        .input
        .iter()
        .find(|input| !graph.initializer.iter().any(|tensor| tensor.name == input.name))?;
    let shape = input.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?;
    Some(
        shape
            .dim
            .iter()
            .map(|dimension| dimension.dim_value.and_then(|value| usize::try_from(value).ok()))
            .collect(),
    )
}

/// A graph by the names of its values.
struct Index<'a> {
    file: &'a OnnxGraph,
    constants: HashMap<&'a str, &'a TensorProto>,
    producers: HashMap<&'a str, &'a NodeProto>,
    /// The nodes that take a value.
    consumers: HashMap<&'a str, Vec<&'a NodeProto>>,
    allowance: Allowance,
}

/// A constant operand of a node.
struct Operand<'a> {
    tensor: &'a TensorProto,
    /// `true` where the graph exchanges its two dimensions.
    transposed: bool,
}

impl<'a> Index<'a> {
    fn new(file: &'a OnnxGraph) -> Self {
        let graph = &file.graph;
        let mut constants: HashMap<&str, &TensorProto> = graph
            .initializer
            .iter()
            .map(|tensor| (tensor.name.as_str(), tensor))
            .collect();
        let mut producers = HashMap::new();
        let mut consumers: HashMap<&str, Vec<&NodeProto>> = HashMap::new();
        for node in &graph.node {
            if let (Some(value), Some(output)) = (constant(node), node.output.first()) {
                constants.insert(output, value);
            }
            for input in &node.input {
                consumers.entry(input).or_default().push(node);
            }
            producers.extend(node.output.iter().map(|output| (output.as_str(), node)));
        }
        Self {
            file,
            constants,
            producers,
            consumers,
            allowance: Allowance::of(file.all_bytes()),
        }
    }

    fn nodes(&self) -> &'a [NodeProto] {
        &self.file.graph.node
    }

    fn label(&self) -> &'a str {
        &self.file.label
    }

    /// The constant that the node behind `node` adds to its value or multiplies it with, as `operator` says, and its name. Nodes
    /// that change nothing may stand between.
    fn applied(&self, node: &'a NodeProto, operator: &str) -> Option<(&'a str, Operand<'a>)> {
        let mut value = node.output.first()?.as_str();
        for _ in 0..MAX_STEPS {
            let next = self.consumers.get(value)?;
            // The exporter may put the constant on either side.
            let found = next
                .iter()
                .filter(|next| next.op_type == operator)
                .find_map(|next| {
                    next.input
                        .iter()
                        .find_map(|input| Some((input.as_str(), self.operand(input)?)))
                });
            if found.is_some() {
                return found;
            }
            value = match next[..] {
                [next] if next.op_type == "Identity" => next.output.first()?,
                _ => return None,
            };
        }
        None
    }

    /// The constant that an operand stands for, if it is one.
    fn operand(&self, name: &'a str) -> Option<Operand<'a>> {
        let (mut name, mut transposed) = (name, false);
        // A damaged graph may run in a circle.
        for _ in 0..MAX_STEPS {
            if let Some(tensor) = self.constants.get(name) {
                return Some(Operand { tensor, transposed });
            }
            let producer = self.producers.get(name)?;
            match producer.op_type.as_str() {
                "Identity" | "Cast" => {}
                // Only matrices are transposed here, and those have one permutation that changes anything.
                "Transpose" => transposed = !transposed,
                _ => return None,
            }
            name = producer.input.first()?;
        }
        None
    }

    fn read(&self, operand: &Operand<'_>) -> Result<HostTensor, WeightsError> {
        let tensor = self.tensor(operand.tensor)?;
        Ok(if operand.transposed {
            transposed(&tensor)
        } else {
            tensor
        })
    }

    fn tensor(&self, tensor: &TensorProto) -> Result<HostTensor, WeightsError> {
        tensor::read(
            self.label(),
            self.file.directory.as_deref(),
            tensor,
            &self.allowance,
        )
    }

    fn problem(&self, problem: String) -> WeightsError {
        WeightsError::Graph {
            file: self.label().to_owned(),
            problem,
        }
    }
}

/// Exchanges the two dimensions of a matrix; leaves other tensors as they are.
fn transposed(tensor: &HostTensor) -> HostTensor {
    let &[rows, columns] = tensor.shape.as_slice() else {
        return tensor.clone();
    };
    let mut values = Vec::with_capacity(tensor.values.len());
    // Reading refuses a tensor without rows; one that had none would claim any number of columns.
    for column in 0..columns.min(tensor.values.len()) {
        values.extend(
            tensor
                .values
                .iter()
                .skip(column)
                .step_by(columns.max(1))
                .take(rows),
        );
    }
    HostTensor {
        shape: vec![columns, rows],
        values,
    }
}
