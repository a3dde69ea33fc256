//! Models as BDRC publishes them: every form of their networks gives the scores that PyTorch gives, and wrong descriptions
//! are set right. `fixtures/bdrc/make_fixtures.py` makes the networks and what is expected of them.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use parkhang_models::device::{ComputeDevice, DeviceSpec};
use parkhang_models::inference::{InferenceError, LineBatch, Logits, TileBatch};
use parkhang_models::recognition::charset::Encoding;
use parkhang_models::recognition::ctc::Decoder;
use parkhang_models::recognition::ewts;
use parkhang_models::recognition::line_image::{BatchLimits, LineImage};
use parkhang_models::recognition::read::{ReadOptions, read_lines};
use parkhang_models::weights::{Bundle, WeightsError, load_recognizer, load_segmenter};
use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;

/// Largest difference of a score from PyTorch's.
const TOLERANCE: f32 = 1e-4;
const FORMS: [&[&str]; 4] = [
    &["folded.onnx"],
    &["preserve.onnx"],
    &["dynamo.onnx", "dynamo.onnx.data"],
    &["model.pth"],
];

fn cpu() -> ComputeDevice {
    ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/bdrc")
        .join(name)
}

/// A folder with the description of a network and one form of it, as its own name or as the one that is described.
fn folder(network: &str, description: &str, files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        fs::copy(fixture(network).join(file), folder.path().join(file)).unwrap();
    }
    let text = fs::read_to_string(fixture(network).join(description)).unwrap();
    let text = text.replace("folded.onnx", files[0]);
    let target = if network.starts_with("deeplab") {
        "config.json"
    } else {
        "model_config.json"
    };
    fs::write(folder.path().join(target), text).unwrap();
    folder
}

/// Changes the description of a recogniser.
fn edit(folder: &TempDir, from: &str, to: &str) {
    let path = folder.path().join("model_config.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn corrections(bundle: &Bundle) -> Vec<String> {
    bundle
        .description()
        .corrections
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn expected(network: &str, tensor: &str) -> Vec<f32> {
    let bytes = fs::read(fixture(network).join("expected.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let values = file.tensor(tensor).unwrap().data().to_vec();
    values
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&value| f32::from_le_bytes(value))
        .collect()
}

fn logits(bundle: &Bundle, network: &str) -> Result<Logits, InferenceError> {
    let preprocessing = bundle.recognition().unwrap().preprocessing;
    let (width, height) = preprocessing.canvas().unwrap();
    let head = &bundle.recognition().unwrap().heads[0].name;
    let batch = LineBatch {
        height,
        width,
        line_widths: vec![width],
        values: expected(network, "input"),
    };
    let answer = load_recognizer(bundle, &cpu(), head).unwrap().logits(&batch)?;
    Ok(answer.into_iter().next().unwrap())
}

fn assert_close(actual: &[f32], expected: &[f32], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let difference = actual
        .iter()
        .zip(expected)
        .map(|(actual, expected)| (actual - expected).abs())
        .fold(0.0, f32::max);
    assert!(difference < TOLERANCE, "{what}: differs by {difference}");
}

fn assert_scores(network: &str, classes: usize, forms: &[&[&str]]) {
    let expected = expected(network, "logits");
    for files in forms {
        let folder = folder(network, "model_config.json", files);
        let bundle = Bundle::open(folder.path()).unwrap();
        let answer = logits(&bundle, network).unwrap();
        assert_eq!(answer.classes, classes);
        assert_close(&answer.values, &expected, &format!("{network} {}", files[0]));
    }
}

#[test]
fn every_form_of_easter2_scores_as_in_pytorch() {
    assert_scores("easter2", 13, &FORMS);
    assert_scores("easter2-random", 13, &FORMS[..1]);
}

#[test]
fn every_form_of_crnn_scores_as_in_pytorch() {
    assert_scores("crnn", 9, &FORMS);
    assert_scores("crnn-random", 9, &FORMS[..1]);
    // As the newer exporter writes recurrent layers of the published size.
    assert_scores("crnn", 9, &[&["unfolded.onnx"]]);
}

/// Logits of every 16th pixel of the tile that the fixture describes.
fn thinned(probabilities: &[f32], size: usize) -> Vec<f32> {
    probabilities
        .chunks_exact(size)
        .step_by(16)
        .flat_map(|row| row.iter().step_by(16))
        .map(|probability| (probability / (1.0 - probability)).ln())
        .collect()
}

fn tile() -> TileBatch {
    let size = 640_usize;
    let values = (0..size * size)
        .map(|place| f32::from(u8::from(place * 7919 % 1000 < 800)))
        .collect();
    TileBatch {
        size,
        count: 1,
        values,
    }
}

#[test]
fn every_form_of_deeplab_scores_as_in_pytorch() {
    assert_line_scores("deeplab", &FORMS);
    assert_line_scores("deeplab-trained", &FORMS[..1]);
}

fn assert_line_scores(network: &str, forms: &[&[&str]]) {
    let expected = expected(network, "lines");
    for files in forms {
        let folder = folder(network, "config.json", files);
        let bundle = Bundle::open(folder.path()).unwrap();
        assert_eq!(corrections(&bundle), [""; 0]);
        let segmenter = load_segmenter(&bundle, &cpu()).unwrap();
        assert!(!segmenter.has_layout());
        let probabilities = segmenter.line_probabilities(&tile()).unwrap();
        let what = format!("{network} {}", files[0]);
        assert_close(&thinned(&probabilities, 640), &expected, &what);
    }
}

#[test]
fn the_classes_of_a_layout_come_in_their_usual_order() {
    assert_layout_scores("checkpoint", "layout.pth");
    assert_layout_scores("onnx-model", "layout.onnx");
}

/// The description names `file` under `key` and no other.
fn assert_layout_scores(key: &str, file: &str) {
    let folder = folder("deeplab", "layout.json", &[file]);
    let path = folder.path().join("config.json");
    let mut description: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    description["checkpoint"] = "".into();
    description["onnx-model"] = "".into();
    description[key] = file.into();
    fs::write(path, description.to_string()).unwrap();
    let bundle = Bundle::open(folder.path()).unwrap();
    assert_eq!(corrections(&bundle), [""; 0]);
    let segmenter = load_segmenter(&bundle, &cpu()).unwrap();
    assert!(segmenter.has_layout());
    let planes = segmenter.layout_probabilities(&tile()).unwrap();
    let lines = segmenter.line_probabilities(&tile()).unwrap();
    let area = 640 * 640;
    assert_eq!(lines, planes[2 * area..3 * area]);

    // The network has background, line, caption, image and margin.
    let stored = expected("deeplab", "layout");
    let pixels = stored.len() / 5;
    for pixel in 0..pixels {
        let place = pixel / 40 * 16 * 640 + pixel % 40 * 16;
        let scores: Vec<f32> = (0..5).map(|class| stored[class * pixels + pixel]).collect();
        let sum: f32 = scores.iter().map(|score| score.exp()).sum();
        for (plane, class) in [0, 3, 1, 4, 2].into_iter().enumerate() {
            let probability = planes[plane * area + place];
            assert!((probability - scores[class].exp() / sum).abs() < TOLERANCE);
        }
    }
}

/// Text read from the image of a line, with its preprocessing.
fn read(network: &str, encoding: Encoding) -> String {
    let folder = folder(network, "model_config.json", &["folded.onnx"]);
    let bundle = Bundle::open(folder.path()).unwrap();
    let model = bundle.recognition().unwrap();
    let head = &model.heads[0].name;
    let image = image::open(fixture(network).join("line.png"))
        .unwrap()
        .into_luma8();
    let options = ReadOptions {
        preprocessing: model.preprocessing,
        decoder: Decoder::Greedy,
        language: None,
        encoding,
        batch: BatchLimits::default(),
    };
    let recognizer = load_recognizer(&bundle, &cpu(), head).unwrap();
    let lines = [LineImage {
        image: &image,
        bilevel: true,
    }];
    let texts = read_lines(
        &lines,
        recognizer.as_ref(),
        &bundle.charset(head).unwrap(),
        &options,
    )
    .unwrap();
    texts.into_iter().next().unwrap().text
}

#[test]
fn a_line_is_read_as_in_pytorch_and_spelled_as_asked() {
    let wylie = fs::read_to_string(fixture("easter2/line.txt"))
        .unwrap()
        .replace('§', " ");
    assert!(wylie.trim().len() > 3);
    assert_eq!(read("easter2", Encoding::Wylie), wylie.trim());
    let unicode = read("easter2", Encoding::Unicode);
    assert_eq!(unicode.trim(), ewts::to_unicode_exact(wylie.trim()).trim());
    let stacks = fs::read_to_string(fixture("crnn/line.txt")).unwrap();
    assert_eq!(read("crnn", Encoding::Unicode), stacks.trim());
}

#[test]
fn descriptions_are_set_right_by_the_network() {
    let folder = folder("crnn", "model_config.json", &["folded.onnx"]);
    let stated_wrong = "`swap_hw` is yes, which does not fit the network; no is used";
    assert_eq!(corrections(&Bundle::open(folder.path()).unwrap()), [stated_wrong]);
    edit(&folder, "\"CRNN\"", "\"Easter2\"");
    edit(&folder, "\"input_width\": 224", "\"input_width\": 3200");
    edit(&folder, "\"input_height\": 32", "\"input_height\": 100");
    edit(
        &folder,
        "\"squeeze_channel_dim\": \"no\"",
        "\"squeeze_channel_dim\": true",
    );
    edit(&folder, "\"add_blank\": \"yes\"", "\"add_blank\": \"no\"");
    edit(&folder, "\"encoder\": \"stack\"", "\"encoder\": \"wylie\"");
    let bundle = Bundle::open(folder.path()).unwrap();
    assert_eq!(
        corrections(&bundle),
        [
            "`architecture` is Easter2, which does not fit the network; CRNN is used",
            "`input_height` is 100, which does not fit the network; 32 is used",
            "`input_width` is 3200, which does not fit the network; 224 is used",
            "`squeeze_channel_dim` is yes, which does not fit the network; no is used",
            stated_wrong,
            "`add_blank` is no, which does not fit the network; yes is used",
            "`encoder` is wylie, which does not fit the network; stack is used",
        ]
    );
    assert_close(
        &logits(&bundle, "crnn").unwrap().values,
        &expected("crnn", "logits"),
        "corrected",
    );
}

#[test]
fn a_charset_may_hold_the_blank_and_be_a_list() {
    let folder = folder("easter2", "model_config.json", &["model.pth"]);
    edit(
        &folder,
        "\"kgncjtdpbm§/\"",
        r#"["<blk>", "k", "g", "n", "c", "j", "t", "d", "p", "b", "m", "§", "/"]"#,
    );
    let bundle = Bundle::open(folder.path()).unwrap();
    let symbols = bundle.symbols("wylie").unwrap();
    assert_eq!((symbols.len(), symbols[0].as_str()), (12, "k"));
    assert_eq!(
        corrections(&bundle),
        [
            // The description names a graph that is not there.
            "`add_blank` is yes, which does not fit the network; no is used",
        ]
    );
    edit(&folder, "\"<blk>\", \"k\", ", "");
    let error = Bundle::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("`charset` has 11 symbols, the network 13 classes with the blank"),
        "{error}"
    );
}

#[test]
fn unknown_networks_are_refused_by_name() {
    let folder = folder("easter2", "model_config.json", &["folded.onnx"]);
    for name in ["Easter2b", "Easter2-Vit", "Easter2-Attention", "Transformer"] {
        edit(&folder, "\"Easter2\"", &format!("\"{name}\""));
        match Bundle::open(folder.path()).unwrap_err() {
            WeightsError::UnknownArchitecture {
                name: named, known, ..
            } => {
                assert_eq!((named.as_str(), known), (name, "Easter2, CRNN"));
            }
            other => panic!("{other}"),
        }
        edit(&folder, &format!("\"{name}\""), "\"Easter2\"");
    }
}

#[test]
fn weights_of_another_network_are_refused() {
    let folder = folder("easter2", "model_config.json", &["folded.onnx"]);
    fs::copy(fixture("deeplab/folded.onnx"), folder.path().join("folded.onnx")).unwrap();
    let error = Bundle::open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("in another way than Easter2"), "{error}");
    fs::copy(fixture("crnn/folded.onnx"), folder.path().join("folded.onnx")).unwrap();
    let error = Bundle::open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("the network 9 classes with the blank"), "{error}");
    fs::copy(fixture("deeplab/model.pth"), folder.path().join("folded.pth")).unwrap();
    edit(&folder, "folded.onnx", "folded.pth");
    let error = Bundle::open(folder.path()).unwrap_err();
    assert!(
        matches!(&error, WeightsError::MissingTensor { key, .. } if key == "conv1d_1.weight"),
        "{error}"
    );
}

#[test]
fn weights_are_looked_for_in_the_folder_alone() {
    let folder = folder("easter2", "model_config.json", &["folded.onnx"]);
    edit(
        &folder,
        "\"onnx-model\": \"folded.onnx\"",
        "\"onnx-model\": \"gone.onnx\"",
    );
    let bundle = Bundle::open(folder.path()).unwrap();
    assert_eq!(
        corrections(&bundle),
        ["`onnx-model` is gone.onnx, which is not there; folded.onnx is used"]
    );
    let before = bundle.sha256().to_owned();
    assert_ne!(Bundle::open(&fixture("easter2")).unwrap().sha256(), before);

    fs::remove_file(folder.path().join("folded.onnx")).unwrap();
    let error = Bundle::open(folder.path()).unwrap_err();
    assert!(matches!(error, WeightsError::NoWeights { .. }), "{error}");
    edit(&folder, "gone.onnx", "../easter2/folded.onnx");
    let error = Bundle::open(folder.path()).unwrap_err();
    assert!(matches!(error, WeightsError::FileName { .. }), "{error}");
}

#[test]
fn descriptions_that_cannot_be_used_say_what_is_expected() {
    let refused = |from: &str, to: &str| {
        let folder = folder("easter2", "model_config.json", &["model.pth"]);
        edit(&folder, from, to);
        let bundle = Bundle::open(folder.path());
        let head = |bundle: &Bundle| bundle.recognition().unwrap().heads[0].name.clone();
        let error = match bundle.and_then(|bundle| load_recognizer(&bundle, &cpu(), &head(&bundle))) {
            Ok(_) => panic!("{to} is no error"),
            Err(error) => error,
        };
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let told = format!("{error} {}", source.unwrap_or_default());
        assert!(told.contains("/model_config.json: "), "{told}");
        told
    };
    let width = |width| refused("\"input_width\": 256", &format!("\"input_width\": {width}"));
    assert!(width("0").contains("`input_width` is 0; this program takes 1 to 32768"));
    assert!(width("320000").contains("`input_width` is 320000"));
    assert!(width("8").contains("is for images 8 columns wide"));
    let flag = refused("\"swap_hw\": \"no\"", "\"swap_hw\": \"perhaps\"");
    assert!(flag.contains("are `yes` or `no`"), "{flag}");
    let charset = refused("\"kgncjtdpbm§/\"", "[1, 2]");
    assert!(
        charset.contains("a string with a letter for each class"),
        "{charset}"
    );
}

#[test]
fn tiles_that_the_network_cannot_take_are_refused() {
    for size in [0, 500, 8192] {
        let folder = folder("deeplab", "config.json", &["model.pth"]);
        let path = folder.path().join("config.json");
        let text = fs::read_to_string(&path).unwrap();
        let changed = text.replace("\"patch_size\": 640", &format!("\"patch_size\": {size}"));
        assert_ne!(text, changed);
        fs::write(path, changed).unwrap();
        let error = Bundle::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("/config.json: `patch_size` is"), "{error}");
    }
}

#[test]
fn a_pointer_of_git_lfs_is_told_from_a_damaged_file() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 988000\n";
    for (files, pointed) in [
        (FORMS[0], "folded.onnx"),
        (FORMS[2], "dynamo.onnx.data"),
        (FORMS[3], "model.pth"),
    ] {
        let folder = folder("easter2", "model_config.json", files);
        fs::write(folder.path().join(pointed), pointer).unwrap();
        match Bundle::open(folder.path()).unwrap_err() {
            WeightsError::LfsPointer { file } => assert!(file.ends_with(pointed), "{file}"),
            other => panic!("{pointed}: {other}"),
        }
    }
}
