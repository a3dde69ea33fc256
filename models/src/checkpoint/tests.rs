//! Whatever a file holds, reading it ends in tensors or in an error that names the file.

use std::path::{Path, PathBuf};

use parkhang_fuzz::Fuzz;
use proptest::prelude::*;

use super::tensors::WeightTensors;
use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/bdrc");
/// Length of the description of all tensors in `easter2/model.pth`, which its archive holds as it is.
const PICKLE_BYTES: usize = 21_551;

fn fixture(name: &str) -> PathBuf {
    Path::new(FIXTURES).join(name)
}

/// Everything that can be asked of a file.
fn open(path: &Path) -> Result<usize, WeightsError> {
    let checkpoint = Checkpoint::open(path)?;
    checkpoint.input_shape();
    match &checkpoint {
        Checkpoint::Onnx(graph) => Ok(graph.layers(&[])?.len()),
        Checkpoint::PyTorch(tensors) => Ok(tensors.len()),
    }
}

fn written(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn truncated_files_are_errors() {
    for name in ["easter2/folded.onnx", "crnn/folded.onnx", "easter2/model.pth"] {
        let whole = std::fs::read(fixture(name)).unwrap();
        assert!(open(&fixture(name)).unwrap() > 0, "{name}");
        for length in (0..whole.len()).step_by(whole.len() / 97 + 1) {
            let (_folder, path) = written(name.rsplit('/').next().unwrap(), &whole[..length]);
            // A cut between two messages leaves a valid file with fewer layers.
            if let Ok(layers) = open(&path) {
                assert!(
                    name.ends_with("onnx") && layers < open(&fixture(name)).unwrap(),
                    "{name} {length}"
                );
            }
        }
    }
}

#[test]
fn other_formats_are_named() {
    let (_folder, path) = written("weights.bin", b"weights");
    assert!(matches!(open(&path), Err(WeightsError::UnknownFormat { .. })));
    let (_folder, path) = written("model.onnx", b"");
    let error = open(&path).unwrap_err().to_string();
    assert!(
        error.contains("model.onnx") && error.contains("no graph"),
        "{error}"
    );
    let (_folder, path) = written("model.pth", b"\x80garbage");
    assert!(matches!(open(&path), Err(WeightsError::NotPytorch { .. })));
    let missing = open(Path::new("nowhere/model.pth")).unwrap_err();
    assert!(matches!(missing, WeightsError::Read { .. }), "{missing}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), pickle: bool) {
        let (_folder, path) = written(if pickle { "m.pth" } else { "m.onnx" }, &bytes);
        let _ = open(&path);
    }

    #[test]
    fn damage_does_not_panic(
        name in prop::sample::select(vec!["easter2/folded.onnx", "crnn/preserve.onnx", "crnn/model.pth"]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut bytes = std::fs::read(fixture(name)).unwrap();
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let (_folder, path) = written(name.rsplit('/').next().unwrap(), &bytes);
        let _ = open(&path);
    }
}

/// A view may repeat what is stored once any number of times.
#[test]
fn views_hold_no_more_than_their_file() {
    let mut bytes = std::fs::read(fixture("easter2/model.pth")).unwrap();
    let replace = |bytes: &mut [u8], old: &[u8], new: &[u8]| {
        let mut times = 0;
        for at in 0..=bytes.len() - old.len() {
            if bytes[at..].starts_with(old) {
                bytes[at..at + new.len()].copy_from_slice(new);
                times += 1;
            }
        }
        times
    };
    let entry = |bytes: &[u8]| {
        let begin = bytes.windows(2).position(|two| two == b"\x80\x02").unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[begin..begin + PICKLE_BYTES]);
        crc.sum().to_le_bytes()
    };
    let before = entry(&bytes);
    // The first tensor, of 16 x 16 x 3 values, becomes one of 255 x 255 x 255, all of them the same.
    let (shape, large) = (
        b"K\x10K\x10K\x03\x87q\x0bK0K\x03K\x01",
        b"K\xffK\xffK\xff\x87q\x0bK\0K\0K\0",
    );
    assert_eq!(replace(&mut bytes, shape, large), 1);
    let after = entry(&bytes);
    assert_eq!(
        replace(&mut bytes, &before, &after),
        2,
        "once before the entry and once in the list"
    );
    let (_folder, path) = written("model.pth", &bytes);
    let refused = open(&path).unwrap_err().to_string();
    assert!(
        refused.contains("has 16581375 values, more than are left of its file"),
        "{refused}"
    );
}

/// Everything that can be asked of an ONNX file, without a file.
#[test]
fn fuzz_onnx() {
    let names = ["easter2/folded.onnx", "crnn/folded.onnx", "crnn/preserve.onnx"];
    Fuzz::of_files("onnx", FIXTURES, &names).feeds(|bytes| {
        let Ok(graph) = OnnxGraph::parse("model.onnx".to_owned(), None, bytes) else {
            return;
        };
        let _ = (graph.input_shape(), graph.external_files(), graph.layers(&[]));
    });
}

#[test]
fn fuzz_pytorch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pth");
    Fuzz::of_files("pytorch", FIXTURES, &["easter2/model.pth", "crnn/model.pth"]).feeds(|bytes| {
        std::fs::write(&path, bytes).unwrap();
        let _ = open(&path);
    });
}

#[test]
fn fuzz_safetensors() {
    let header = |json: &str| [&(json.len() as u64).to_le_bytes()[..], json.as_bytes(), &[0; 24]].concat();
    let corpus = [
        header(
            r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"F16","shape":[4],"data_offsets":[16,24]}}"#,
        ),
        header(r#"{"__metadata__":{"k":"v"},"c":{"dtype":"I8","shape":[3,8],"data_offsets":[0,24]}}"#),
    ];
    Fuzz::new("safetensors", corpus).feeds(|bytes| {
        let Ok(mut tensors) = WeightTensors::parse("w.safetensors", bytes) else {
            return;
        };
        let _ = (
            tensors.take("a", [2, 2]),
            tensors.take("b", [4]),
            tensors.take("c", [3, 8]),
        );
        let _ = tensors.finish();
    });
}
