//! Checkpoints: files of weights, from bytes to layers under the names that a network gives them.
//!
//! Three formats come in. `.safetensors` is that of the project's own models. `.onnx` and `.pth` are what BDRC publishes; they
//! are read when a model is opened and not converted beforehand, so that a folder as downloaded works and its checksum is that
//! of the files as published. All end as [`StateDict`] or [`WeightTensors`](tensors::WeightTensors), and a network takes its
//! tensors from there by name until none is left: a file of another network cannot pass for this one.
//!
//! An `.onnx` graph is not run. Its layers are put in order and matched with the [`Slot`]s that a network declares, because
//! one network for both formats gives one result, on every device, and no second runtime has to be built and shipped.
//!
//! Nothing here knows how a network computes or what a model is for. [`WeightsError`] is that of bundles too: a bundle fails
//! mostly because its files do, and one type spares every caller a second one. Files come from anywhere, so sizes are
//! checked before anything of that size is allocated.

mod error;
pub mod layers;
mod names;
mod onnx;
mod pytorch;
pub mod tensors;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

pub use error::WeightsError;
pub(crate) use names::LayerKind;
pub use names::{NamedConstant, Slot};
pub(crate) use onnx::OnnxGraph;

use sha2::{Digest, Sha256};

/// First bytes of the pointers of Git LFS.
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Size beyond which files are refused before they are read, in bytes.
const MAX_FILE_BYTES: u64 = 2 << 30;

/// A tensor in host memory, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTensor {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

/// Values that may still be read of a file. Any number of tensors may name the same bytes, or views of them that repeat, and
/// all that is read of them is kept in memory: it has no more values than the file has bytes, which is four times as many as a
/// file of 32-bit values holds.
#[derive(Debug)]
struct Allowance(Cell<u64>);

impl Allowance {
    fn of(file_bytes: u64) -> Self {
        Self(Cell::new(file_bytes))
    }

    /// Takes the values of a tensor off.
    ///
    /// # Errors
    /// The problem of the tensor, where no so many are left.
    fn take(&self, values: usize) -> Result<(), String> {
        let left = self.0.get().checked_sub(values as u64);
        let left = left.ok_or_else(|| format!("has {values} values, more than are left of its file"))?;
        self.0.set(left);
        Ok(())
    }
}

/// Tensors of one layer, by the last part of their names.
pub(crate) type LayerTensors = Vec<(String, HostTensor)>;

/// The tensors of a network under the names of its PyTorch modules.
pub type StateDict = BTreeMap<String, HostTensor>;

/// A file of weights that another program wrote.
#[derive(Debug, Clone)]
pub(crate) enum Checkpoint {
    Onnx(OnnxGraph),
    PyTorch(StateDict),
}

/// The tensors of the ONNX file `path` under the names of `slots`, the layers of a network in the order in which it uses them.
/// `constants` are tensors of parts that the graph does not spell out as layers, such as the body of a loop. `operators` are those
/// refused elsewhere, which this network has and computes.
///
/// # Errors
/// [`WeightsError`] for a file that is no graph of such layers.
pub fn import_onnx(
    path: &Path,
    slots: &[Slot],
    constants: &[NamedConstant],
    operators: &[&str],
) -> Result<StateDict, WeightsError> {
    refuse_pointer(path)?;
    let graph = OnnxGraph::open(path)?;
    let mut tensors = names::assign(graph.label(), graph.layers(operators)?, slots)?;
    tensors.extend(graph.constants(constants)?);
    Ok(tensors)
}

impl Checkpoint {
    /// Reads a file; its name says which kind it is.
    pub(crate) fn open(path: &Path) -> Result<Self, WeightsError> {
        refuse_pointer(path)?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("onnx") => Ok(Self::Onnx(OnnxGraph::open(path)?)),
            Some("pth" | "pt" | "ckpt") => Ok(Self::PyTorch(pytorch::read(path)?)),
            _ => Err(WeightsError::UnknownFormat {
                file: path.display().to_string(),
            }),
        }
    }

    /// Shape of the network's input where the file declares one; `None` for a dimension that varies.
    pub(crate) fn input_shape(&self) -> Option<&[Option<usize>]> {
        match self {
            Self::Onnx(graph) => graph.input_shape(),
            Self::PyTorch(_) => None,
        }
    }

    /// The tensors under the names of `slots`, the layers of the network in the order in which it uses them.
    pub(crate) fn state_dict(&self, slots: &[Slot]) -> Result<StateDict, WeightsError> {
        match self {
            Self::Onnx(graph) => names::assign(graph.label(), graph.layers(&[])?, slots),
            Self::PyTorch(tensors) => Ok(names::without_prefix(tensors, slots)),
        }
    }

    /// SHA-256 of the file `path` that this was read from, and of the files that it refers to, hexadecimal.
    pub(crate) fn sha256(&self, path: &Path) -> Result<String, WeightsError> {
        let mut hash = Sha256::new();
        let others = match self {
            Self::Onnx(graph) => graph.external_files(),
            Self::PyTorch(_) => Vec::new(),
        };
        for path in std::iter::once(path.to_owned()).chain(others) {
            hash.update(read_limited(&path)?);
        }
        Ok(hex::encode(hash.finalize()))
    }

    /// Returns whether the network has recurrent layers.
    pub(crate) fn is_recurrent(&self) -> bool {
        match self {
            Self::Onnx(graph) => graph.uses("LSTM") || graph.uses("GRU"),
            Self::PyTorch(tensors) => tensors.keys().any(|name| name.contains(".weight_hh_l0")),
        }
    }
}

/// Refuses the pointers of Git LFS: a clone of a repository without Git LFS has pointers in place of its large files.
fn refuse_pointer(path: &Path) -> Result<(), WeightsError> {
    let mut beginning = Vec::with_capacity(POINTER.len());
    std::fs::File::open(path)
        .and_then(|file| file.take(POINTER.len() as u64).read_to_end(&mut beginning))
        .map_err(|source| WeightsError::Read {
            path: path.to_owned(),
            source,
        })?;
    if beginning == POINTER {
        return Err(WeightsError::LfsPointer {
            file: path.display().to_string(),
        });
    }
    Ok(())
}

/// Reads a whole file that is no larger than the limit.
pub(crate) fn read_limited(path: &Path) -> Result<Vec<u8>, WeightsError> {
    let read_error = |source| WeightsError::Read {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(read_error)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(WeightsError::TooLarge {
            file: path.display().to_string(),
            bytes,
            limit: MAX_FILE_BYTES,
        });
    }
    std::fs::read(path).map_err(read_error)
}
