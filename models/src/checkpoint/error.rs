use std::path::PathBuf;

use crate::recognition::language::NgramError;

/// Reason why a model bundle could not be opened or its network not be built. `file` is a path, or `built-in NAME/...`.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{file}: not a model description")]
    NotADescription { file: String, source: serde_json::Error },
    #[error("{file}: format version {version}; this program knows version {known}")]
    UnsupportedVersion { file: String, version: u32, known: u32 },
    #[error("{file}: `{key}` {problem}")]
    Invalid {
        file: String,
        key: &'static str,
        problem: String,
    },
    #[error("{file}: `{name}` is not a plain file name")]
    FileName { file: String, name: String },
    #[error("{file}: SHA-256 is {actual}, model.json says {expected}")]
    Checksum {
        file: String,
        expected: String,
        actual: String,
    },
    #[error("{file}: not a {expected} model")]
    WrongKind { file: String, expected: &'static str },
    #[error("{file}: unknown architecture `{name}`; this program knows `{known}`")]
    UnknownArchitecture {
        file: String,
        name: String,
        known: &'static str,
    },
    #[error("{file}: no head `{head}`; the model has {known:?}")]
    UnknownHead {
        file: String,
        head: String,
        known: Vec<String>,
    },
    #[error("{file}: no list of symbols `{head}`")]
    Charset {
        file: String,
        head: String,
        source: serde_json::Error,
    },
    #[error("{file}: no n-grams")]
    Ngrams { file: String, source: NgramError },
    #[error("{file}: not a safetensors file")]
    NotSafetensors {
        file: String,
        source: safetensors::SafeTensorError,
    },
    #[error("{file}: no tensor `{key}`")]
    MissingTensor { file: String, key: String },
    #[error("{file}: tensor `{key}` has shape {actual:?}, expected {expected:?}")]
    TensorShape {
        file: String,
        key: String,
        expected: Vec<usize>,
        actual: Vec<usize>,
    },
    #[error("{file}: tensor `{key}` holds {dtype}, expected F32, F16, BF16 or I8")]
    TensorType {
        file: String,
        key: String,
        dtype: String,
    },
    #[error("{file}: unexpected tensor `{key}`")]
    UnexpectedTensor { file: String, key: String },
    #[error("{file}: unknown kind of weights; this program reads .onnx, .pth and .safetensors")]
    UnknownFormat { file: String },
    #[error("{file}: {bytes} bytes are more than the limit of {limit}")]
    TooLarge { file: String, bytes: u64, limit: u64 },
    #[error("{file}: a pointer of Git LFS and not the file itself; `git lfs pull` fetches it")]
    LfsPointer { file: String },
    #[error("{file}: not an ONNX file")]
    NotOnnx {
        file: String,
        source: prost::DecodeError,
    },
    #[error("{file}: not a PyTorch checkpoint")]
    NotPytorch {
        file: String,
        source: Box<pytorch_reader::PytorchError>,
    },
    #[error("{file}: the graph {problem}")]
    Graph { file: String, problem: String },
    #[error("{file}: tensor `{key}` {problem}")]
    TensorData {
        file: String,
        key: String,
        problem: String,
    },
    #[error(
        "{} is no model: a folder with model.json, or with BDRC's model_config.json or config.json, and weights",
        directory.display()
    )]
    NoDescription { directory: PathBuf },
    #[error("{file}: neither the file that it names nor any other .onnx or .pth lies beside it")]
    NoWeights { file: String },
}
