//! Folders as BDRC publishes them: `model_config.json` or `config.json` and a network as `.onnx`, `.pth` or both.
//!
//! Published descriptions are wrong now and then. Where the weights or the declared input of the graph say otherwise, they
//! are believed, and the description's value is listed as corrected: refusing such a folder would refuse models that the
//! programs they were made for read well. A value is taken in this order: what the weights force, what the graph declares,
//! what the description says, what all published models share. Only contradictions that leave no reading, such as a charset
//! of another length than the network's classes, are errors.

mod recognition;
mod segmentation;

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::Bundle;
use super::description::{Correction, Fault, FileReference, Model, ModelDescription, TrainingSummary};
use crate::checkpoint::{Checkpoint, StateDict, WeightsError, read_limited};

/// Name of the file that describes a recogniser.
pub(crate) const RECOGNITION: &str = "model_config.json";
/// Name of the file that describes a segmentation network.
const SEGMENTATION: &str = "config.json";
/// Size beyond which descriptions are refused, in bytes; the longest charset has ten thousand stacks.
const MAX_DESCRIPTION_BYTES: usize = 16 << 20;

/// A model of BDRC's in the terms of a bundle.
pub(crate) struct Imported {
    /// Name of the description's file.
    pub(crate) file: &'static str,
    pub(crate) description: ModelDescription,
    /// SHA-256 of the description and the weights, hexadecimal.
    pub(crate) sha256: String,
    /// JSON object as in a bundle: a list of symbols for each head.
    pub(crate) charset: Vec<u8>,
    pub(crate) tensors: StateDict,
}

/// Reads the folder; `None` if it has none of the descriptions.
pub(crate) fn open(directory: &Path) -> Result<Option<Imported>, WeightsError> {
    if directory.join(RECOGNITION).exists() {
        return recognition::read(Source::open(directory, RECOGNITION)?).map(Some);
    }
    if directory.join(SEGMENTATION).exists() {
        return segmentation::read(Source::open(directory, SEGMENTATION)?).map(Some);
    }
    Ok(None)
}

/// A folder while it is read.
struct Source {
    directory: PathBuf,
    name: &'static str,
    /// Path of the description, for errors.
    file: String,
    bytes: Vec<u8>,
    corrections: Vec<Correction>,
}

impl Source {
    fn open(directory: &Path, name: &'static str) -> Result<Self, WeightsError> {
        let path = directory.join(name);
        let bytes = read_limited(&path)?;
        let file = path.display().to_string();
        if bytes.len() > MAX_DESCRIPTION_BYTES {
            return Err(WeightsError::TooLarge {
                file,
                bytes: bytes.len() as u64,
                limit: MAX_DESCRIPTION_BYTES as u64,
            });
        }
        Ok(Self {
            directory: directory.to_owned(),
            name,
            file,
            bytes,
            corrections: Vec::new(),
        })
    }

    fn description<T: DeserializeOwned>(&self) -> Result<T, WeightsError> {
        serde_json::from_slice(&self.bytes).map_err(|source| WeightsError::NotADescription {
            file: self.file.clone(),
            source,
        })
    }

    /// The file of weights: the graph that the description names, else its checkpoint, else the only one in the folder.
    fn weights(&mut self, graph: Option<&str>, checkpoint: Option<&str>) -> Result<PathBuf, WeightsError> {
        for name in [graph, checkpoint]
            .into_iter()
            .flatten()
            .filter(|name| !name.is_empty())
        {
            if !Bundle::is_plain_file_name(name) {
                return Err(WeightsError::FileName {
                    file: self.file.clone(),
                    name: name.to_owned(),
                });
            }
            let path = self.directory.join(name);
            if path.is_file() {
                return Ok(path);
            }
        }
        let found = ["onnx", "pth"]
            .into_iter()
            .find_map(|extension| self.only_file(extension))
            .ok_or_else(|| WeightsError::NoWeights {
                file: self.file.clone(),
            })?;
        self.corrections.push(Correction {
            key: "onnx-model",
            stated: graph.or(checkpoint).map(str::to_owned),
            fault: Fault::NoSuchFile,
            used: found
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        });
        Ok(found)
    }

    fn only_file(&self, extension: &str) -> Option<PathBuf> {
        let mut files = std::fs::read_dir(&self.directory)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|of_file| of_file == extension));
        let first = files.next()?;
        // With several there is no telling which one the description means.
        files.next().is_none().then_some(first)
    }

    fn correct(&mut self, key: &'static str, stated: Option<impl ToString>, used: impl ToString) {
        self.corrections.push(Correction {
            key,
            stated: stated.map(|stated| stated.to_string()),
            fault: Fault::DoesNotFit,
            used: used.to_string(),
        });
    }

    /// The known value of a key; notes a correction where the description states another.
    fn settle<T: PartialEq + ToString>(&mut self, key: &'static str, stated: Option<T>, known: T) -> T {
        if stated.as_ref().is_some_and(|stated| *stated != known) {
            self.correct(key, stated, known.to_string());
        }
        known
    }

    fn invalid(&self, key: &'static str, problem: impl Into<String>) -> WeightsError {
        WeightsError::Invalid {
            file: self.file.clone(),
            key,
            problem: problem.into(),
        }
    }

    /// The model of this folder, with what was corrected.
    fn imported(
        self,
        weights: &Path,
        checkpoint: &Checkpoint,
        model: Model,
        charset: Vec<u8>,
        tensors: StateDict,
    ) -> Result<Imported, WeightsError> {
        let weights_sha256 = checkpoint.sha256(weights)?;
        // Both decide the output: the description names charset and size, and the weights have no checksum in
        // it.
        let mut hash = Sha256::new_with_prefix(&self.bytes);
        hash.update(&weights_sha256);
        let file_name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        // A folder given as `.` has no name otherwise.
        let directory = self.directory.canonicalize().unwrap_or(self.directory);
        Ok(Imported {
            file: self.name,
            description: ModelDescription {
                version: Bundle::VERSION,
                name: file_name(&directory),
                weights: FileReference {
                    file: file_name(weights),
                    sha256: weights_sha256,
                },
                model,
                training: TrainingSummary {
                    description: "by the Buddhist Digital Resource Center or with its programs".to_owned(),
                    data: Vec::new(),
                    scores: std::collections::BTreeMap::new(),
                },
                corrections: self.corrections,
            },
            sha256: hex::encode(hash.finalize()),
            charset,
            tensors,
        })
    }
}

/// Shape of a tensor that the network has, with `D` dimensions.
fn shape_of<const D: usize>(file: &Path, tensors: &StateDict, key: &str) -> Result<[usize; D], WeightsError> {
    let label = || file.display().to_string();
    let Some(tensor) = tensors.get(key) else {
        return Err(WeightsError::MissingTensor {
            file: label(),
            key: key.to_owned(),
        });
    };
    let shape = tensor.shape.as_slice();
    shape.try_into().map_err(|_| WeightsError::TensorData {
        file: label(),
        key: key.to_owned(),
        problem: format!("has shape {shape:?}, expected {D} dimensions"),
    })
}
