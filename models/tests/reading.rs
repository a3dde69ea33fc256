//! Real lines through preprocessing, the shipped recogniser and the decoder.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use image::GrayImage;
use parkhang_models::device::{ComputeDevice, DeviceSpec};
use parkhang_models::recognition::charset::{Charset, Encoding};
use parkhang_models::recognition::ctc::Decoder;
use parkhang_models::recognition::line_image::{BatchLimits, LineImage};
use parkhang_models::recognition::normalize::canonical_letters;
use parkhang_models::recognition::read::{LineText, ReadOptions, read_lines};
use parkhang_models::weights::{load_recognizer, shipped};
use rapidfuzz::distance::levenshtein;

struct Line {
    collection: String,
    image: GrayImage,
    text: String,
}

/// The images of a folder that have a text beside them.
fn lines(folder: &Path) -> Vec<Line> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let line = |path: &Path| {
        let text = fs::read_to_string(path.with_extension("txt")).ok()?;
        let image = image::open(path).ok()?.to_luma8();
        let name = path.file_stem()?.to_str()?;
        Some(Line {
            collection: name.split('_').next()?.to_owned(),
            image,
            text,
        })
    };
    paths.iter().filter_map(|path| line(path)).collect()
}

fn read(lines: &[Line], head: &str, decoder: Decoder) -> Vec<LineText> {
    let bundle = shipped::recogniser().unwrap();
    let charset = Charset::new(bundle.symbols(head).unwrap()).unwrap();
    let device = ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).unwrap();
    let recognizer = load_recognizer(&bundle, &device, head).unwrap();
    let images: Vec<LineImage<'_>> = lines
        .iter()
        .map(|line| LineImage {
            image: &line.image,
            bilevel: line.image.pixels().all(|p| matches!(p.0[0], 0 | 255)),
        })
        .collect();
    let options = ReadOptions {
        preprocessing: bundle.recognition().unwrap().preprocessing,
        decoder,
        language: bundle.language_model(head).unwrap().map(Arc::new),
        encoding: Encoding::Unicode,
        batch: BatchLimits::default(),
    };
    read_lines(&images, recognizer.as_ref(), &charset, &options).unwrap()
}

/// Character error rate per collection.
fn error_rates(lines: &[Line], texts: &[LineText]) -> BTreeMap<String, f64> {
    let mut errors: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (line, read) in lines.iter().zip(texts) {
        let (truth, text) = (canonical_letters(&line.text), canonical_letters(&read.text));
        let (wrong, letters) = errors.entry(line.collection.clone()).or_default();
        *wrong += levenshtein::distance(truth.chars(), text.chars());
        *letters += truth.chars().count();
    }
    errors
        .into_iter()
        .map(|(name, (wrong, letters))| (name, wrong as f64 / letters as f64))
        .collect()
}

#[test]
fn shipped_recogniser_reads_real_lines() {
    let lines = lines(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/lines"));
    assert_eq!(lines.len(), 8);
    for head in ["codepoints", "stacks"] {
        for decoder in [Decoder::Greedy, Decoder::default()] {
            let texts = read(&lines, head, decoder);
            for (collection, rate) in error_rates(&lines, &texts) {
                assert!(rate < 0.15, "{head}, {decoder:?}: {collection} {rate}");
            }
            for (line, read) in lines.iter().zip(&texts) {
                assert!(
                    read.confidence > 0.5 && read.confidence <= 1.0,
                    "{}",
                    read.confidence
                );
                assert!(read.syllables.is_sorted_by(|a, b| a.x_end <= b.x_start));
                assert!(
                    read.syllables
                        .iter()
                        .all(|syllable| syllable.x_end <= line.image.width())
                );
                let joined: String = read
                    .syllables
                    .iter()
                    .map(|syllable| syllable.text.as_str())
                    .collect();
                assert_eq!(joined.trim(), read.text);
            }
        }
    }
}

/// Number of real lines of which one is read: all of them take minutes.
const OF_LINES: usize = 4;

#[test]
fn shipped_recogniser_reads_lines_of_each_collection() {
    let Some(shared) = std::env::var_os("PARKHANG_SHARED") else {
        eprintln!(
            "SKIPPED: the real lines of four collections are read only when PARKHANG_SHARED names their folder"
        );
        return;
    };
    let lines: Vec<Line> = lines(&Path::new(&shared).join("data/real/lines"))
        .into_iter()
        .step_by(OF_LINES)
        .collect();
    let rates = error_rates(&lines, &read(&lines, "stacks", Decoder::default()));
    eprintln!("{rates:?}");
    for collection in ["TCCG", "proj19", "proj42", "Lhasa"] {
        assert!(rates[collection] < 0.12, "{collection}: {}", rates[collection]);
    }
}
