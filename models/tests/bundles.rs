//! Model bundles from a folder: what they say and which faults are found before a network is built.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod bundle_copy;

use std::fs;
use std::num::NonZeroUsize;

use parkhang_models::device::{ComputeDevice, DeviceSpec};
use parkhang_models::weights::{Bundle, WeightsError, load_recognizer, load_segmenter, shipped};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use bundle_copy::{copy_of, edit};

fn cpu() -> ComputeDevice {
    ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).unwrap()
}

/// Replaces the weights and the checksum of them.
fn replace_weights(bundle: &TempDir, weights: &[u8]) {
    let path = bundle.path().join("model.safetensors");
    let old = hex::encode(Sha256::digest(fs::read(&path).unwrap()));
    fs::write(path, weights).unwrap();
    edit(bundle, &old, &hex::encode(Sha256::digest(weights)));
}

const SEGMENTER: &str = "tests/fixtures/line-segmenter";
const RECOGNISER: &str = "weights/recogniser";

fn segmenter_error(bundle: &TempDir) -> WeightsError {
    Bundle::open(bundle.path())
        .and_then(|bundle| load_segmenter(&bundle, &cpu()))
        .unwrap_err()
}

#[test]
fn a_bundle_in_a_folder_is_the_one_that_is_shipped() {
    let opened = Bundle::open(copy_of(RECOGNISER).path()).unwrap();
    let built_in = shipped::recogniser().unwrap();
    assert_eq!(opened.name(), "parkhang-recogniser-12");
    assert_eq!(opened.sha256(), built_in.sha256());
    assert_eq!(opened.description(), built_in.description());
    let symbols = opened.symbols("stacks").unwrap();
    assert_eq!((symbols.len(), symbols[0].as_str()), (867, "་"));
    assert_eq!(opened.symbols("codepoints").unwrap().len(), 102);
}

#[test]
fn the_checksum_of_a_bundle_changes_with_its_description() {
    let copy = copy_of(SEGMENTER);
    let before = Bundle::open(copy.path()).unwrap().sha256().to_owned();
    edit(&copy, "\"threshold\": 0.5", "\"threshold\": 0.6");
    assert_ne!(Bundle::open(copy.path()).unwrap().sha256(), before);
}

#[test]
fn missing_files_are_named() {
    let without = |name: &str| {
        let copy = copy_of(RECOGNISER);
        fs::remove_file(copy.path().join(name)).unwrap();
        (copy.path().to_owned(), Bundle::open(copy.path()).unwrap_err())
    };
    for name in ["charset.json", "model.safetensors", "second.safetensors"] {
        match without(name) {
            (folder, WeightsError::Read { path, .. }) => assert_eq!(path, folder.join(name)),
            (_, other) => panic!("{other}"),
        }
    }
    match without(Bundle::DESCRIPTION) {
        (folder, WeightsError::NoDescription { directory }) => assert_eq!(directory, folder),
        (_, other) => panic!("{other}"),
    }
}

#[test]
fn changed_files_do_not_pass_for_the_model() {
    for name in ["charset.json", "model.safetensors", "second.safetensors"] {
        let copy = copy_of(RECOGNISER);
        let path = copy.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
        match Bundle::open(copy.path()).unwrap_err() {
            WeightsError::Checksum { file, .. } => assert!(file.ends_with(name), "{file}"),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn descriptions_do_not_reach_outside_their_folder() {
    for name in [
        "../model.safetensors",
        "/etc/passwd",
        "a/b",
        "a\\\\b",
        "..",
        "",
        ".hidden",
        "C:x",
    ] {
        let copy = copy_of(SEGMENTER);
        edit(&copy, "model.safetensors", name);
        let error = segmenter_error(&copy);
        assert!(matches!(error, WeightsError::FileName { .. }), "{name}: {error}");
    }
}

#[test]
fn faulty_descriptions_are_refused() {
    type Check = fn(&WeightsError) -> bool;
    let cases: [(&str, &str, Check); 8] = [
        ("{", "", |e| matches!(e, WeightsError::NotADescription { .. })),
        ("\"tile_size\": 64", "\"tile_size\": 0", |e| {
            matches!(e, WeightsError::NotADescription { .. })
        }),
        ("\"version\": 1", "\"version\": 2", |e| {
            matches!(
                e,
                WeightsError::UnsupportedVersion {
                    version: 2,
                    known: 1,
                    ..
                }
            )
        }),
        ("\"segmentation\"", "\"translation\"", |e| {
            matches!(e, WeightsError::NotADescription { .. })
        }),
        (
            "patch-segmenter",
            "u-net",
            |e| matches!(e, WeightsError::UnknownArchitecture { name, .. } if name == "u-net"),
        ),
        ("\"blocks\"", "\"layers\"", |e| {
            matches!(
                e,
                WeightsError::Invalid {
                    key: "architecture",
                    ..
                }
            )
        }),
        ("\"tile_size\": 64", "\"tile_size\": 100", |e| {
            matches!(e, WeightsError::Invalid { key: "tile_size", .. })
        }),
        (
            "      6,",
            "      7,",
            |e| matches!(e, WeightsError::TensorShape { key, .. } if key == "stem.weight"),
        ),
    ];
    for (from, to, expected) in cases {
        let copy = copy_of(SEGMENTER);
        edit(&copy, from, to);
        let error = segmenter_error(&copy);
        assert!(expected(&error), "{from} -> {to}: {error}");
    }
}

#[test]
fn a_network_with_other_layers_than_its_weights_is_refused() {
    let more = copy_of(SEGMENTER);
    edit(
        &more,
        "      1,\n      2,\n      2\n",
        "      1,\n      2,\n      3\n",
    );
    let error = segmenter_error(&more);
    assert!(
        matches!(&error, WeightsError::MissingTensor { key, .. } if key == "stage3.2.dw.weight"),
        "{error}"
    );

    let fewer = copy_of(SEGMENTER);
    edit(
        &fewer,
        "      1,\n      2,\n      2\n",
        "      1,\n      2,\n      1\n",
    );
    let error = segmenter_error(&fewer);
    assert!(
        matches!(&error, WeightsError::UnexpectedTensor { key, .. } if key.starts_with("stage3.1.")),
        "{error}"
    );
}

#[test]
fn damaged_weights_are_refused() {
    let copy = copy_of(SEGMENTER);
    let whole = fs::read(copy.path().join("model.safetensors")).unwrap();
    for damaged in [&whole[..whole.len() / 2], &[0xAB; 5000], &[]] {
        replace_weights(&copy, damaged);
        let error = segmenter_error(&copy);
        assert!(matches!(error, WeightsError::NotSafetensors { .. }), "{error}");
    }
}

#[test]
fn a_model_serves_only_its_purpose_and_its_heads() {
    let recogniser = shipped::recogniser().unwrap();
    let error = load_segmenter(&recogniser, &cpu()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "built-in recogniser/model.json: not a segmentation model"
    );
    let error = load_recognizer(&recogniser, &cpu(), "syllables").unwrap_err();
    assert_eq!(
        error.to_string(),
        "built-in recogniser/model.json: no head `syllables`; the model has [\"codepoints\", \"stacks\"]"
    );
    let segmenter = Bundle::open(copy_of(SEGMENTER).path()).unwrap();
    let error = load_recognizer(&segmenter, &cpu(), "stacks").unwrap_err();
    assert!(
        matches!(
            error,
            WeightsError::WrongKind {
                expected: "recognition",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_second_reading_begins_at_a_doubt() {
    for doubt in ["1.5", "-0.1"] {
        let copy = copy_of(RECOGNISER);
        edit(&copy, "\"doubt\": 0.2", &format!("\"doubt\": {doubt}"));
        let error = load_recognizer(&Bundle::open(copy.path()).unwrap(), &cpu(), "stacks").unwrap_err();
        assert!(
            matches!(
                &error,
                WeightsError::Invalid {
                    key: "second_reading.doubt",
                    ..
                }
            ),
            "{error}"
        );
    }
}
