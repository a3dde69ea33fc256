//! PyTorch's own files, `.pth`: a dictionary of tensors, by itself or under `state_dict` beside the state of the optimiser.

use std::path::Path;

use half::{bf16, f16};
use pytorch_reader::{DType, PytorchReader};

use super::{Allowance, HostTensor, MAX_FILE_BYTES, StateDict};
use crate::checkpoint::WeightsError;

/// Prefixes of the weights in files that hold more than those.
const NESTED: [&str; 3] = ["state_dict.", "model_state_dict.", "model."];

pub(super) fn read(path: &Path) -> Result<StateDict, WeightsError> {
    let file = path.display().to_string();
    let bytes = std::fs::metadata(path)
        .map_err(|source| WeightsError::Read {
            path: path.to_owned(),
            source,
        })?
        .len();
    if bytes > MAX_FILE_BYTES {
        let limit = MAX_FILE_BYTES;
        return Err(WeightsError::TooLarge { file, bytes, limit });
    }
    let stored = PytorchReader::new(path).map_err(|source| WeightsError::NotPytorch {
        file: file.clone(),
        source: Box::new(source),
    })?;
    let nested = NESTED
        .into_iter()
        .find(|prefix| stored.tensors().keys().any(|name| name.starts_with(prefix)))
        .unwrap_or("");
    let allowance = Allowance::of(bytes);
    let mut tensors = StateDict::new();
    for (name, tensor) in stored.tensors() {
        let Some(name) = name.strip_prefix(nested) else {
            continue;
        };
        let problem = |problem: String| WeightsError::TensorData {
            file: file.clone(),
            key: name.to_owned(),
            problem,
        };
        // Counters and the like are no weights; whether one is missing that the network needs is found out by
        // name later.
        let Some(widen) = widening(tensor.dtype()) else {
            continue;
        };
        // The shape is a claim of the file, and views may repeat what is stored once.
        allowance.take(tensor.num_elements()).map_err(problem)?;
        let bytes = tensor
            .read()
            .map_err(|source| problem(format!("cannot be read: {source}")))?;
        let (shape, values) = (tensor.shape().to_vec(), widen(&bytes));
        tensors.insert(name.to_owned(), HostTensor { shape, values });
    }
    Ok(tensors)
}

/// Conversion of native-endian values to 32-bit floats.
type Widen = fn(&[u8]) -> Vec<f32>;

/// Conversion of values of a type to 32-bit floats; `None` for types that no weight has, such as counters.
fn widening(dtype: DType) -> Option<Widen> {
    fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes
            .as_chunks::<N>()
            .0
            .iter()
            .map(|&bytes| value(bytes))
            .collect()
    }
    Some(match dtype {
        DType::F32 => |bytes| each(bytes, f32::from_ne_bytes),
        DType::F64 => |bytes| each(bytes, |value| f64::from_ne_bytes(value) as f32),
        DType::F16 => |bytes| each(bytes, |value| f16::from_ne_bytes(value).to_f32()),
        DType::BF16 => |bytes| each(bytes, |value| bf16::from_ne_bytes(value).to_f32()),
        _ => return None,
    })
}
