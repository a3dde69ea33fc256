//! Named tensors of a weights file, as 32-bit floats on the host.
//!
//! A tensor `X` of 8-bit integers has its scales beside it, `X.scale`: 32-bit floats, one for each index of its first dimension,
//! which are the outputs of a layer. An integer `q` stands for `scale * q`.

use std::collections::BTreeMap;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::WeightsError;
use super::{HostTensor, StateDict};

/// Bookkeeping of PyTorch's batch norm, of no use for inference.
const IGNORED_SUFFIX: &str = ".num_batches_tracked";
/// End of the name of the scales of a tensor of 8-bit integers.
const SCALE_SUFFIX: &str = ".scale";

/// The tensors of one weights file. Layers take what they need by name; [`finish`](Self::finish) then makes sure that
/// nothing is left, so that a file of another network cannot pass for this one.
#[derive(Debug)]
pub struct WeightTensors<'a> {
    /// Name of the file, for errors.
    file: String,
    tensors: BTreeMap<String, Stored<'a>>,
}

/// A tensor as its file keeps it, or as it was imported.
#[derive(Debug)]
enum Stored<'a> {
    View(safetensors::tensor::TensorView<'a>),
    Imported(HostTensor),
}

impl Stored<'_> {
    fn shape(&self) -> &[usize] {
        match self {
            Self::View(view) => view.shape(),
            Self::Imported(tensor) => &tensor.shape,
        }
    }
}

impl<'a> WeightTensors<'a> {
    /// The tensors of a `.safetensors` file; `file` names it in errors.
    ///
    /// # Errors
    /// [`WeightsError::NotSafetensors`].
    pub fn parse(file: &str, bytes: &'a [u8]) -> Result<Self, WeightsError> {
        let parsed = SafeTensors::deserialize(bytes).map_err(|source| WeightsError::NotSafetensors {
            file: file.to_owned(),
            source,
        })?;
        let tensors = parsed
            .tensors()
            .into_iter()
            .filter(|(key, _)| !key.ends_with(IGNORED_SUFFIX))
            .map(|(key, view)| (key, Stored::View(view)))
            .collect();
        Ok(Self {
            file: file.to_owned(),
            tensors,
        })
    }

    /// The tensors of another program.
    pub fn imported(file: &str, tensors: StateDict) -> Self {
        Self {
            file: file.to_owned(),
            tensors: tensors
                .into_iter()
                .filter(|(key, _)| !key.ends_with(IGNORED_SUFFIX))
                .map(|(key, tensor)| (key, Stored::Imported(tensor)))
                .collect(),
        }
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.tensors.contains_key(key)
    }

    /// Number of dimensions of the tensor `key`, if it is there.
    pub(crate) fn rank(&self, key: &str) -> Option<usize> {
        Some(self.tensors.get(key)?.shape().len())
    }

    /// Shape of the tensor `key`, which has `D` dimensions, none of them 0.
    pub(crate) fn shape<const D: usize>(&self, key: &str) -> Result<[usize; D], WeightsError> {
        let Some(stored) = self.tensors.get(key) else {
            return Err(self.missing(key));
        };
        let problem = |expected: &str| WeightsError::TensorData {
            file: self.file.clone(),
            key: key.to_owned(),
            problem: format!("has shape {:?}, expected {expected}", stored.shape()),
        };
        // Networks take their sizes from here and divide by them.
        if stored.shape().contains(&0) {
            return Err(problem("no dimension of 0"));
        }
        stored
            .shape()
            .try_into()
            .map_err(|_| problem(&format!("{D} dimensions")))
    }

    fn missing(&self, key: &str) -> WeightsError {
        WeightsError::MissingTensor {
            file: self.file.clone(),
            key: key.to_owned(),
        }
    }

    /// Removes the tensor `key` and returns its values, row-major.
    ///
    /// # Errors
    /// [`WeightsError`] for a tensor that is not there, or of another shape or type.
    pub fn take<const D: usize>(&mut self, key: &str, shape: [usize; D]) -> Result<Vec<f32>, WeightsError> {
        let Some(stored) = self.tensors.remove(key) else {
            return Err(self.missing(key));
        };
        // The values are flat from here on: a transposed matrix would pass for the right one by its number of
        // values.
        if stored.shape() != shape {
            return Err(WeightsError::TensorShape {
                file: self.file.clone(),
                key: key.to_owned(),
                expected: shape.to_vec(),
                actual: stored.shape().to_vec(),
            });
        }
        let view = match stored {
            Stored::View(view) => view,
            Stored::Imported(tensor) => return Ok(tensor.values),
        };
        let (pairs, quads) = (view.data().as_chunks::<2>().0, view.data().as_chunks::<4>().0);
        match view.dtype() {
            Dtype::F32 => Ok(quads.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()),
            Dtype::F16 => Ok(pairs
                .iter()
                .map(|&bytes| f16::from_le_bytes(bytes).to_f32())
                .collect()),
            Dtype::BF16 => Ok(pairs
                .iter()
                .map(|&bytes| bf16::from_le_bytes(bytes).to_f32())
                .collect()),
            Dtype::I8 => {
                let outputs = shape.first().copied().unwrap_or_default();
                let scales = self.take(&format!("{key}{SCALE_SUFFIX}"), [outputs])?;
                let values = view
                    .data()
                    .chunks_exact((view.data().len() / outputs.max(1)).max(1));
                Ok(values
                    .zip(scales)
                    .flat_map(|(values, scale)| {
                        values.iter().map(move |&value| scale * f32::from(value as i8))
                    })
                    .collect())
            }
            other => Err(WeightsError::TensorType {
                file: self.file.clone(),
                key: key.to_owned(),
                dtype: format!("{other:?}"),
            }),
        }
    }

    /// Removes the tensors that no layer will ask for: those whose name starts with `prefix`.
    pub(crate) fn discard(&mut self, prefix: &str) {
        self.tensors.retain(|key, _| !key.starts_with(prefix));
    }

    /// Fails if the file holds a tensor that nothing has taken.
    ///
    /// # Errors
    /// [`WeightsError::UnexpectedTensor`].
    pub fn finish(self) -> Result<(), WeightsError> {
        match self.tensors.into_keys().next() {
            Some(key) => Err(WeightsError::UnexpectedTensor { file: self.file, key }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::TensorView;

    fn file(tensors: &[(&str, Dtype, &[usize], &[u8])]) -> Vec<u8> {
        let views = tensors.iter().map(|&(key, dtype, shape, data)| {
            (
                key.to_owned(),
                TensorView::new(dtype, shape.to_vec(), data).unwrap(),
            )
        });
        safetensors::serialize(views, None).unwrap()
    }

    #[test]
    fn all_float_types_widen_to_the_same_values() {
        let values = [1.5_f32, -0.25];
        let wide: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let half: Vec<u8> = values
            .iter()
            .flat_map(|&v| f16::from_f32(v).to_le_bytes())
            .collect();
        let brain: Vec<u8> = values
            .iter()
            .flat_map(|&v| bf16::from_f32(v).to_le_bytes())
            .collect();
        let bytes = file(&[
            ("wide", Dtype::F32, &[2], &wide),
            ("half", Dtype::F16, &[2], &half),
            ("brain", Dtype::BF16, &[2], &brain),
        ]);
        let mut tensors = WeightTensors::parse("w", &bytes).unwrap();
        for key in ["wide", "half", "brain"] {
            assert_eq!(tensors.take(key, [2]).unwrap(), values, "{key}");
        }
        tensors.finish().unwrap();
    }

    #[test]
    fn a_size_of_nothing_is_refused() {
        let bytes = file(&[("head", Dtype::F32, &[0, 3], &[])]);
        let tensors = WeightTensors::parse("w", &bytes).unwrap();
        let error = tensors.shape::<2>("head").unwrap_err().to_string();
        assert_eq!(
            error,
            "w: tensor `head` has shape [0, 3], expected no dimension of 0"
        );
    }

    #[test]
    fn errors_name_the_file_and_the_tensor() {
        let bytes = file(&[
            ("a", Dtype::F32, &[1, 2], &[0; 8]),
            ("b", Dtype::I64, &[1], &[0; 8]),
        ]);
        let mut tensors = WeightTensors::parse("m.safetensors", &bytes).unwrap();
        assert_eq!(
            tensors.take("c", [1]).unwrap_err().to_string(),
            "m.safetensors: no tensor `c`"
        );
        assert_eq!(
            tensors.take("a", [2, 1]).unwrap_err().to_string(),
            "m.safetensors: tensor `a` has shape [1, 2], expected [2, 1]"
        );
        assert_eq!(
            tensors.take("b", [1]).unwrap_err().to_string(),
            "m.safetensors: tensor `b` holds I64, expected F32, F16, BF16 or I8"
        );
    }

    #[test]
    fn integers_have_a_scale_for_each_output() {
        let scales: Vec<u8> = [0.5_f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let weights = [1, 127, 0, -3_i8 as u8, -127_i8 as u8, 2];
        let bytes = file(&[
            ("w", Dtype::I8, &[2, 3], &weights),
            ("w.scale", Dtype::F32, &[2], &scales),
            ("alone", Dtype::I8, &[2, 1], &[1, 2]),
            ("empty", Dtype::I8, &[0, 3], &[]),
            ("empty.scale", Dtype::F32, &[0], &[]),
        ]);
        let mut tensors = WeightTensors::parse("m", &bytes).unwrap();
        assert_eq!(
            tensors.take("w", [2, 3]).unwrap(),
            [0.5, 63.5, 0.0, 6.0, 254.0, -4.0]
        );
        assert!(tensors.take("empty", [0, 3]).unwrap().is_empty());
        let error = tensors.take("alone", [2, 1]).unwrap_err().to_string();
        assert_eq!(error, "m: no tensor `alone.scale`");
        // The scales went with the tensors they belong to.
        tensors.finish().unwrap();
    }

    #[test]
    fn left_over_tensors_are_refused_but_not_the_batch_counter() {
        let bytes = file(&[
            ("bn.num_batches_tracked", Dtype::I64, &[], &[0; 8]),
            ("x.y", Dtype::F32, &[1], &[0; 4]),
        ]);
        let mut tensors = WeightTensors::parse("w", &bytes).unwrap();
        tensors.discard("x.");
        tensors.finish().unwrap();
        let error = WeightTensors::parse("w", &bytes).unwrap().finish().unwrap_err();
        assert_eq!(error.to_string(), "w: unexpected tensor `x.y`");
    }

    #[test]
    fn damaged_files_are_errors() {
        let bytes = file(&[("a", Dtype::F32, &[2], &[0; 8])]);
        for damaged in [&bytes[..bytes.len() - 1], &bytes[..5], &[], &[0xAB; 64]] {
            let error = WeightTensors::parse("w", damaged).unwrap_err();
            assert!(matches!(error, WeightsError::NotSafetensors { .. }), "{error}");
        }
    }
}
