//! The values of a tensor, wherever and however an ONNX file keeps them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path};

use half::{bf16, f16};

use super::proto::TensorProto;
use crate::checkpoint::WeightsError;
use crate::checkpoint::{Allowance, HostTensor, MAX_FILE_BYTES, refuse_pointer};

/// `TensorProto.DataLocation.EXTERNAL`.
const EXTERNAL: i32 = 1;

/// Element types of `TensorProto.DataType` that weights come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElementType {
    F32,
    F64,
    F16,
    Bf16,
    I64,
}

impl ElementType {
    fn of(data_type: i32) -> Option<Self> {
        match data_type {
            1 => Some(Self::F32),
            7 => Some(Self::I64),
            10 => Some(Self::F16),
            11 => Some(Self::F64),
            16 => Some(Self::Bf16),
            _ => None,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// Widens or narrows little-endian values; `bytes` holds whole ones.
    fn floats(self, bytes: &[u8]) -> Vec<f32> {
        let (pairs, _) = bytes.as_chunks::<2>();
        let (quads, _) = bytes.as_chunks::<4>();
        let (octets, _) = bytes.as_chunks::<8>();
        match self {
            Self::F32 => quads.iter().map(|&value| f32::from_le_bytes(value)).collect(),
            Self::F64 => octets
                .iter()
                .map(|&value| f64::from_le_bytes(value) as f32)
                .collect(),
            Self::F16 => pairs
                .iter()
                .map(|&value| f16::from_le_bytes(value).to_f32())
                .collect(),
            Self::Bf16 => pairs
                .iter()
                .map(|&value| bf16::from_le_bytes(value).to_f32())
                .collect(),
            Self::I64 => octets
                .iter()
                .map(|&value| i64::from_le_bytes(value) as f32)
                .collect(),
        }
    }
}

/// Reads a tensor of the file `label`, whose external data lies beside it in `directory`.
pub(super) fn read(
    label: &str,
    directory: Option<&Path>,
    tensor: &TensorProto,
    allowance: &Allowance,
) -> Result<HostTensor, WeightsError> {
    let problem = |problem: String| WeightsError::TensorData {
        file: label.to_owned(),
        key: tensor.name.clone(),
        problem,
    };
    let element = ElementType::of(tensor.data_type)
        .ok_or_else(|| problem(format!("has the element type {}", tensor.data_type)))?;
    let shape = tensor
        .dims
        .iter()
        .map(|&dimension| usize::try_from(dimension))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| problem(format!("has the shape {:?}", tensor.dims)))?;
    let count = shape
        .iter()
        .try_fold(1_usize, |count, &dimension| count.checked_mul(dimension))
        // No file can hold more values, and below this the number of bytes cannot overflow. No weight is empty, and a dimension
        // of 0 would hide the length of the others, which those who take a tensor apart count up to.
        .filter(|&count| count > 0 && count as u64 <= MAX_FILE_BYTES)
        .ok_or_else(|| problem(format!("has the shape {shape:?}")))?;
    allowance.take(count).map_err(problem)?;
    let values = if tensor.data_location == EXTERNAL {
        let bytes = external(label, directory, tensor, count * element.bytes())?;
        element.floats(&bytes)
    } else if !tensor.raw_data.is_empty() {
        if tensor.raw_data.len() != count * element.bytes() {
            let bytes = tensor.raw_data.len();
            return Err(problem(format!("has {bytes} bytes for the shape {shape:?}")));
        }
        element.floats(&tensor.raw_data)
    } else {
        typed(tensor, element)
    };
    if values.len() != count {
        let values = values.len();
        return Err(problem(format!("has {values} values for the shape {shape:?}")));
    }
    Ok(HostTensor { shape, values })
}

/// Values in the list of their own type.
fn typed(tensor: &TensorProto, element: ElementType) -> Vec<f32> {
    // The format has no list of 16-bit values and keeps their bits in this one.
    let bits = || tensor.int32_data.iter().map(|&bits| bits as u16);
    match element {
        ElementType::F32 => tensor.float_data.clone(),
        ElementType::F64 => tensor.double_data.iter().map(|&value| value as f32).collect(),
        ElementType::F16 => bits().map(|bits| f16::from_bits(bits).to_f32()).collect(),
        ElementType::Bf16 => bits().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        ElementType::I64 => tensor.int64_data.iter().map(|&value| value as f32).collect(),
    }
}

/// Bytes of a tensor that lies in a file of its own. Only files in the folder of the model are read.
fn external(
    label: &str,
    directory: Option<&Path>,
    tensor: &TensorProto,
    expected: usize,
) -> Result<Vec<u8>, WeightsError> {
    let problem = |problem: String| WeightsError::TensorData {
        file: label.to_owned(),
        key: tensor.name.clone(),
        problem,
    };
    let entry = |key: &str| {
        tensor
            .external_data
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| entry.value.as_str())
    };
    let number = |key: &str, default: u64| match entry(key) {
        Some(text) => text
            .parse::<u64>()
            .map_err(|_| problem(format!("has the {key} {text:?}"))),
        None => Ok(default),
    };
    let location = entry("location").ok_or_else(|| problem("has no location".to_owned()))?;
    let path = match directory {
        Some(directory) if is_inside(location) => directory.join(location),
        _ => {
            return Err(WeightsError::FileName {
                file: label.to_owned(),
                name: location.to_owned(),
            });
        }
    };
    let (offset, length) = (number("offset", 0)?, number("length", expected as u64)?);
    // A length of its own could only contradict the shape.
    if length != expected as u64 {
        return Err(problem(format!("has {length} bytes, its shape needs {expected}")));
    }
    let read_error = |source| WeightsError::Read {
        path: path.clone(),
        source,
    };
    refuse_pointer(&path)?;
    let mut file = File::open(&path).map_err(read_error)?;
    let size = file.metadata().map_err(read_error)?.len();
    // Before the memory is taken: a forged shape must not cost more than the file is large.
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(problem(format!("ends after {location}")));
    }
    file.seek(SeekFrom::Start(offset)).map_err(read_error)?;
    let mut bytes = vec![0; expected];
    file.read_exact(&mut bytes).map_err(read_error)?;
    Ok(bytes)
}

/// Returns whether a location is the plain name of a file in the same folder.
pub(super) fn is_inside(location: &str) -> bool {
    let mut components = Path::new(location).components();
    let plain = !location.contains(['\\', ':']);
    plain
        && matches!(
            (components.next(), components.next()),
            (Some(Component::Normal(_)), None)
        )
}

#[cfg(test)]
mod tests {
    use super::super::proto::StringStringEntryProto;
    use super::*;

    fn tensor(data_type: i32, dims: &[i64]) -> TensorProto {
        TensorProto {
            dims: dims.to_vec(),
            data_type,
            name: "w".to_owned(),
            ..TensorProto::default()
        }
    }

    fn values(tensor: &TensorProto) -> Vec<f32> {
        read("m.onnx", None, tensor, &Allowance::of(100)).unwrap().values
    }

    #[test]
    fn every_element_type_is_read_raw_and_typed() {
        let expected = [1.5_f32, -2.0];
        let halves = expected.map(|value| f16::from_f32(value).to_bits());
        let brains = expected.map(|value| bf16::from_f32(value).to_bits());
        let bits = |values: [u16; 2]| values.map(i32::from).to_vec();
        let bytes = |values: [u16; 2]| values.iter().flat_map(|bits| bits.to_le_bytes()).collect();

        let mut floats = tensor(1, &[2]);
        floats.float_data = expected.to_vec();
        assert_eq!(values(&floats), expected);
        floats.raw_data = expected.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(values(&floats), expected);

        for (data_type, stored) in [(10, halves), (16, brains)] {
            let mut typed = tensor(data_type, &[2, 1]);
            typed.int32_data = bits(stored);
            assert_eq!(values(&typed), expected);
            typed.raw_data = bytes(stored);
            assert_eq!(values(&typed), expected);
        }

        let mut doubles = tensor(11, &[2]);
        doubles.double_data = expected.map(f64::from).to_vec();
        assert_eq!(values(&doubles), expected);
        let mut integers = tensor(7, &[1, 2]);
        integers.int64_data = vec![3, -4];
        assert_eq!(values(&integers), [3.0, -4.0]);
        integers.raw_data = [3_i64, -4].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(values(&integers), [3.0, -4.0]);
    }

    #[test]
    fn tensors_that_do_not_add_up_are_named() {
        let allowance = Allowance::of(100);
        let error = |tensor: &TensorProto| read("m.onnx", None, tensor, &allowance).unwrap_err().to_string();
        assert_eq!(
            error(&tensor(8, &[1])),
            "m.onnx: tensor `w` has the element type 8"
        );
        assert_eq!(
            error(&tensor(1, &[2])),
            "m.onnx: tensor `w` has 0 values for the shape [2]"
        );
        assert_eq!(error(&tensor(1, &[-1])), "m.onnx: tensor `w` has the shape [-1]");
        let mut huge = tensor(1, &[i64::MAX, i64::MAX]);
        assert!(error(&huge).contains("has the shape"));
        huge.dims = vec![0, 1 << 62];
        assert_eq!(
            error(&huge),
            "m.onnx: tensor `w` has the shape [0, 4611686018427387904]"
        );
        huge.dims = vec![3];
        huge.raw_data = vec![0; 11];
        assert_eq!(error(&huge), "m.onnx: tensor `w` has 11 bytes for the shape [3]");
    }

    #[test]
    fn external_data_stays_in_its_folder_and_in_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let stored: Vec<u8> = [7.0_f32, 1.0, 2.0]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        std::fs::write(folder.path().join("m.onnx.data"), stored).unwrap();
        let with = |entries: &[(&str, &str)]| {
            let mut external = tensor(1, &[2]);
            external.data_location = EXTERNAL;
            external.external_data = entries
                .iter()
                .map(|&(key, value)| StringStringEntryProto {
                    key: key.to_owned(),
                    value: value.to_owned(),
                })
                .collect();
            read("m.onnx", Some(folder.path()), &external, &Allowance::of(100))
        };
        let inside = with(&[("location", "m.onnx.data"), ("offset", "4"), ("length", "8")]);
        assert_eq!(inside.unwrap().values, [1.0, 2.0]);

        for location in [
            "../m.onnx.data",
            "/etc/passwd",
            "a/b",
            "..",
            ".",
            "",
            "C:x",
            "a\\b",
        ] {
            let error = with(&[("location", location)]).unwrap_err();
            assert!(
                matches!(error, WeightsError::FileName { .. }),
                "{location}: {error}"
            );
        }
        let beyond: [&[(&str, &str)]; 5] = [
            &[("location", "m.onnx.data"), ("offset", "8")],
            &[("location", "m.onnx.data"), ("offset", "18446744073709551615")],
            &[("location", "m.onnx.data"), ("offset", "-4")],
            &[("location", "m.onnx.data"), ("length", "4")],
            &[("offset", "0")],
        ];
        for entries in beyond {
            let error = with(entries).unwrap_err();
            assert!(
                matches!(error, WeightsError::TensorData { .. }),
                "{entries:?}: {error}"
            );
        }
        let missing = with(&[("location", "other.data")]).unwrap_err();
        assert!(matches!(missing, WeightsError::Read { .. }), "{missing}");
    }
}
