//! The shipped bundles against numbers of onnxruntime that are part of the repository.

use std::path::{Path, PathBuf};

use image::{RgbImage, imageops};
use parkhang_documents::{LayoutClass, Region};
use serde::Deserialize;

use super::processor;
use crate::imagenet::normalized;
use crate::inference::ImageBatch;
use crate::models::{LayoutModels, PrintModels, load, load_layout};
use crate::table_structure::{padded, table_structure};

/// Numbers for the pictures beside them.
#[derive(Debug, Deserialize)]
struct Reference {
    line_0: Frames,
    line_1: Frames,
    page: Map,
    /// Probabilities of the orientations, of the picture as it is and turned clockwise once to three times.
    picture: [[f32; 4]; 4],
}

/// Frames of a line.
#[derive(Debug, Deserialize)]
struct Frames {
    classes: Vec<u32>,
    probabilities: Vec<f32>,
}

/// Probabilities of text at each `step`th pixel of each `step`th row, from the middle of the first on.
#[derive(Debug, Deserialize)]
struct Map {
    step: usize,
    probabilities: Vec<f32>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parity")
}

fn reference() -> Reference {
    let json = std::fs::read(folder().join("reference.json")).unwrap();
    serde_json::from_slice(&json).unwrap()
}

fn picture(name: &str) -> RgbImage {
    image::open(folder().join(name)).unwrap().to_rgb8()
}

fn models() -> PrintModels {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/print");
    load(&weights, &processor()).unwrap()
}

/// A picture with values from -1 to 1.
fn batch(picture: &RgbImage) -> ImageBatch {
    let channel = |channel: usize| {
        picture
            .pixels()
            .map(move |pixel| f32::from(pixel[channel]) / 127.5 - 1.0)
    };
    ImageBatch {
        count: 1,
        height: picture.height() as usize,
        width: picture.width() as usize,
        values: [2, 1, 0].into_iter().flat_map(channel).collect(),
    }
}

#[test]
fn lines_are_read_as_onnxruntime_reads_them() {
    let (models, reference) = (models(), reference());
    for (name, expected) in [("line_0.png", reference.line_0), ("line_1.png", reference.line_1)] {
        let frames = models.recognizer.frames(&batch(&picture(name))).unwrap();
        let classes: Vec<u32> = frames[0].iter().map(|frame| frame.class).collect();
        assert_eq!(classes, expected.classes, "{name}");
        for (frame, probability) in frames[0].iter().zip(expected.probabilities) {
            // The weights were rounded to 16 bits.
            assert!(
                (frame.probability - probability).abs() < 0.05,
                "{name}: {frame:?} {probability}"
            );
        }
    }
}

#[test]
fn text_is_found_as_onnxruntime_finds_it() {
    let page = picture("page.png");
    let (width, height) = (page.width() as usize, page.height() as usize);
    let actual = models().detector.probabilities(&batch(&page)).unwrap();
    let Map { step, probabilities } = reference().page;
    let places = (step / 2..height).step_by(step).flat_map(|row| {
        (step / 2..width)
            .step_by(step)
            .map(move |column| row * width + column)
    });
    let places: Vec<usize> = places.collect();
    assert_eq!(places.len(), probabilities.len());
    for (place, expected) in places.into_iter().zip(probabilities) {
        let actual = actual[place];
        assert!((actual - expected).abs() < 0.02, "{place}: {actual} {expected}");
    }
}

#[test]
fn turned_pages_are_known_as_onnxruntime_knows_them() {
    let models = models();
    let mut picture = picture("picture.png");
    for expected in reference().picture {
        let batch = ImageBatch {
            count: 1,
            height: picture.height() as usize,
            width: picture.width() as usize,
            values: normalized(picture.as_raw()),
        };
        let actual = models.orientation.probabilities(&batch).unwrap();
        for (actual, expected) in actual[0].iter().zip(expected) {
            assert!((actual - expected).abs() < 0.01, "{actual} {expected}");
        }
        picture = imageops::rotate90(&picture);
    }
}

/// Numbers for the pictures of a page and a table.
#[derive(Debug, Deserialize)]
struct Layout {
    regions: Vec<ExpectedRegion>,
    classes: Vec<usize>,
    /// Corners of each cell.
    corners: Vec<[f32; 8]>,
}

#[derive(Debug, Deserialize)]
struct ExpectedRegion {
    kind: LayoutClass,
    score: f32,
    bounds: [f32; 4],
}

fn layout() -> (Layout, LayoutModels) {
    let json = std::fs::read(folder().join("layout.json")).unwrap();
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/print");
    (
        serde_json::from_slice(&json).unwrap(),
        load_layout(&weights, &processor()).unwrap(),
    )
}

#[test]
fn regions_are_found_as_onnxruntime_finds_them() {
    let (Layout { regions, .. }, models) = layout();
    let found = crate::regions(&picture("layout.png"), models.layout.as_ref()).unwrap();
    assert_eq!(found.len(), regions.len(), "{found:?}");
    for expected in regions {
        let near = |found: &&Region| {
            let edges = found.bounds.iter().zip(expected.bounds);
            found.kind == expected.kind
                && edges.fold(true, |near, (one, other)| near && (one - other).abs() < 2.0)
        };
        let found = found
            .iter()
            .find(near)
            .unwrap_or_else(|| panic!("{expected:?} {found:?}"));
        // The weights were rounded to 16 bits.
        assert!(
            (found.score - expected.score).abs() < 0.02,
            "{found:?} {expected:?}"
        );
    }
}

#[test]
fn tables_are_read_as_onnxruntime_reads_them() {
    let (Layout { classes, corners, .. }, models) = layout();
    let steps = models
        .table
        .steps(&padded(&picture("table.png")))
        .unwrap()
        .remove(0);
    let actual: Vec<usize> = steps.iter().map(|step| step.class).collect();
    assert_eq!(actual, classes);
    let cells = steps.iter().filter(|step| step.class == 48);
    for (step, expected) in cells.zip(corners) {
        for (actual, expected) in step.corners.iter().zip(expected) {
            assert!((actual - expected).abs() < 0.01, "{step:?} {expected}");
        }
    }
    let structure = table_structure(&picture("table.png"), models.table.as_ref()).unwrap();
    assert_eq!((structure.rows, structure.columns), (6, 4));
}
