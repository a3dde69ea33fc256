//! Whole pages, read with the bundles of the repository. The pages are read where `PARKHANG_SHARED` names their folder.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{RgbImage, imageops};
use parkhang_kernels::device::DeviceSpec;
use parkhang_words::inference::{ImageBatch, OrientationClassifier};
use parkhang_words::{
    ComputeDevice, InferenceError, PageReading, PrintModels, ReadOptions, Turn, load, read,
};

fn models() -> PrintModels {
    let device = ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).unwrap();
    load(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/print"),
        &device,
    )
    .unwrap()
}

fn shared() -> Option<PathBuf> {
    let shared = std::env::var_os("PARKHANG_SHARED");
    if shared.is_none() {
        eprintln!("SKIPPED: whole pages are read only when PARKHANG_SHARED names their folder");
    }
    shared.map(PathBuf::from)
}

fn page(path: &Path) -> RgbImage {
    image::open(path).unwrap().to_rgb8()
}

fn texts(reading: &PageReading) -> Vec<&str> {
    reading.lines.iter().map(|line| line.text.as_str()).collect()
}

/// A page in English and Chinese with a table, and the texts that stand on it.
fn sample(shared: &Path) -> (RgbImage, Vec<String>) {
    let folder = shared.join("models/samples");
    let truth: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("page.json")).unwrap()).unwrap();
    let texts = truth["truth"].as_array().unwrap();
    let texts = texts
        .iter()
        .map(|text| text[2].as_str().unwrap().to_owned())
        .collect();
    (page(&folder.join("page.png")), texts)
}

#[test]
fn every_text_of_a_page_in_two_scripts_is_read() {
    let Some(shared) = shared() else { return };
    let (page, expected) = sample(&shared);
    let reading = read(&page, &models(), &ReadOptions::default()).unwrap();
    assert_eq!(reading.turn, Turn::Upright);
    let read = texts(&reading);
    for text in &expected {
        assert!(read.contains(&text.as_str()), "{text} is not in {read:#?}");
    }
    // The bars of its chart are no text.
    assert_eq!(read.len(), expected.len(), "{read:#?}");
}

#[test]
fn a_turned_page_gives_the_same_texts_in_the_places_where_they_stand() {
    let Some(shared) = shared() else { return };
    let (page, expected) = sample(&shared);
    let turned = imageops::rotate90(&page);
    let reading = read(&turned, &models(), &ReadOptions::default()).unwrap();
    assert_eq!(reading.turn, Turn::Quarter);
    let read = texts(&reading);
    assert!(
        expected.iter().all(|text| read.contains(&text.as_str())),
        "{read:#?}"
    );
    for line in &reading.lines {
        let [x0, y0, x1, y1] = line.quad.bounds();
        assert!(x0 >= 0.0 && y0 >= 0.0);
        assert!(x1 <= turned.width() as f32 && y1 <= turned.height() as f32);
        for word in &line.words {
            let [left, top, right, bottom] = word.quad.bounds();
            let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
            assert!(
                (x0..=x1).contains(&middle.0) && (y0..=y1).contains(&middle.1),
                "{word:?}"
            );
        }
    }
}

/// A classifier that finds all turns alike.
#[derive(Debug)]
struct Undecided;

impl OrientationClassifier for Undecided {
    fn probabilities(&self, pictures: &ImageBatch) -> Result<Vec<[f32; 4]>, InferenceError> {
        Ok(vec![[0.25; 4]; pictures.count])
    }
}

#[test]
fn a_page_that_lies_upside_down_is_known_by_how_surely_it_reads() {
    let Some(shared) = shared() else { return };
    let (page, expected) = sample(&shared);
    let models = PrintModels {
        orientation: Arc::new(Undecided),
        ..models()
    };
    for (page, turn) in [(imageops::rotate180(&page), Turn::Half), (page, Turn::Upright)] {
        let reading = read(&page, &models, &ReadOptions::default()).unwrap();
        assert_eq!(reading.turn, turn);
        let read = texts(&reading);
        assert!(
            expected.iter().all(|text| read.contains(&text.as_str())),
            "{read:#?}"
        );
    }
}

#[test]
fn nearly_all_words_of_a_scan_are_read() {
    let Some(shared) = shared() else { return };
    let scan = page(&shared.join("data/pdf/linn.png"));
    let truth = std::fs::read_to_string(shared.join("data/pdf/linn.txt")).unwrap();
    let reading = read(&scan, &models(), &ReadOptions::default()).unwrap();
    let (expected, actual) = (counted(&truth), counted(&texts(&reading).join("\n")));
    let found: usize = expected
        .iter()
        .map(|(word, count)| actual.get(word).map_or(0, |read| *count.min(read)))
        .sum();
    let total = |words: &BTreeMap<String, usize>| words.values().sum::<usize>() as f64;
    // The truth has errors itself.
    assert!(
        found as f64 / total(&expected) > 0.97,
        "{found} of {}",
        total(&expected)
    );
    assert!(
        found as f64 / total(&actual) > 0.97,
        "{found} of {}",
        total(&actual)
    );
}

/// Words of three letters and more, and how often they stand in a text.
fn counted(text: &str) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    let lower = text.to_lowercase();
    for word in lower.split(|letter: char| !letter.is_alphanumeric()) {
        if word.chars().count() >= 3 {
            *words.entry(word.to_owned()).or_default() += 1;
        }
    }
    words
}

#[test]
fn pages_without_text_have_no_lines() {
    let models = models();
    for size in [(0, 0), (1, 1), (3, 700), (600, 800)] {
        let blank = RgbImage::from_pixel(size.0, size.1, image::Rgb([255; 3]));
        let reading = read(&blank, &models, &ReadOptions::default()).unwrap();
        assert!(reading.lines.is_empty(), "{size:?}: {reading:?}");
    }
}
