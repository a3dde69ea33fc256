//! The networks against PyTorch, on stored examples.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod bundle_copy;

use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parkhang_models::device::{ComputeDevice, DeviceSpec};
use parkhang_models::inference::{InferenceError, LineBatch, Recognizer, TileBatch};
use parkhang_models::weights::{Bundle, load_recognizer, load_segmenter, shipped};

use bundle_copy::{copy_of, edit};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn floats(name: &str) -> Vec<f32> {
    let stored = std::fs::read(fixture(name)).unwrap();
    let mut bytes = Vec::new();
    if name.ends_with(".gz") {
        flate2::read::GzDecoder::new(stored.as_slice())
            .read_to_end(&mut bytes)
            .unwrap();
    } else {
        bytes = stored;
    }
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&value| f32::from_le_bytes(value))
        .collect()
}

fn cpu(threads: usize) -> ComputeDevice {
    ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::new(threads).unwrap())).unwrap()
}

fn recogniser(head: &str, threads: usize) -> Arc<dyn Recognizer> {
    load_recognizer(&shipped::recogniser().unwrap(), &cpu(threads), head).unwrap()
}

/// The shipped recogniser, whose second network reads what the first one has this doubt of.
fn reading_again_from(doubt: f32, head: &str) -> Arc<dyn Recognizer> {
    let copy = copy_of("weights/recogniser");
    edit(&copy, "\"doubt\": 0.2", &format!("\"doubt\": {doubt:?}"));
    load_recognizer(&Bundle::open(copy.path()).unwrap(), &cpu(1), head).unwrap()
}

fn stored_line() -> LineBatch {
    let values = floats("recogniser/line.f32.gz");
    LineBatch {
        height: 64,
        width: 301,
        line_widths: vec![301],
        values,
    }
}

/// The first columns of every line, as a batch of its own.
fn narrowed(line: &LineBatch, width: usize) -> LineBatch {
    let values = line
        .values
        .chunks_exact(line.width)
        .flat_map(|row| &row[..width])
        .copied()
        .collect();
    LineBatch {
        height: line.height,
        width,
        line_widths: vec![width],
        values,
    }
}

fn largest_difference(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    actual
        .iter()
        .zip(expected)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[test]
fn recogniser_scores_equal_pytorch() {
    let scores = |doubt, head| {
        let recogniser = reading_again_from(doubt, head);
        recogniser.logits(&stored_line()).unwrap().remove(0)
    };
    for (doubt, file, head, classes) in [
        (1.0, "codepoints", "codepoints", 103),
        (1.0, "stacks", "stacks", 868),
        (0.0, "mixed-codepoints", "codepoints", 103),
    ] {
        let scores = scores(doubt, head);
        assert_eq!((scores.frames, scores.classes), (76, classes));
        let difference = largest_difference(&scores.values, &floats(&format!("recogniser/{file}.f32.gz")));
        assert!(difference < 1e-4, "{file}: {difference}");
    }
}

#[test]
fn scores_do_not_depend_on_the_batch_its_padding_or_the_threads() {
    let (long, short) = (stored_line(), narrowed(&stored_line(), 122));
    let alone = recogniser("stacks", 1);
    let expected = [
        alone.logits(&long).unwrap().remove(0),
        alone.logits(&short).unwrap().remove(0),
    ];
    assert_eq!(expected[1].frames, 31);

    let width = 320;
    let mut batch = LineBatch {
        height: 64,
        width,
        line_widths: vec![301, 122],
        values: Vec::new(),
    };
    for line in [&long, &short] {
        for row in line.values.chunks_exact(line.width) {
            batch.values.extend_from_slice(row);
            // Whatever a caller leaves in the padding is not part of the line.
            batch.values.resize(batch.values.len() + width - line.width, 0.7);
        }
    }
    assert_eq!(recogniser("stacks", 2).logits(&batch).unwrap(), expected);
}

#[test]
fn batches_of_the_wrong_shape_are_refused() {
    let recogniser = recogniser("codepoints", 1);
    let line = stored_line();
    let wrong = [
        LineBatch {
            height: 32,
            width: 602,
            ..line.clone()
        },
        LineBatch {
            line_widths: vec![302],
            ..line.clone()
        },
        LineBatch {
            line_widths: vec![0],
            ..line.clone()
        },
        LineBatch {
            line_widths: vec![301, 301],
            ..line.clone()
        },
    ];
    for batch in wrong {
        let outcome = recogniser.logits(&batch);
        assert!(
            matches!(outcome, Err(InferenceError::Shape { .. })),
            "{outcome:?}"
        );
    }
    let nothing = LineBatch {
        line_widths: Vec::new(),
        values: Vec::new(),
        ..line
    };
    assert_eq!(recogniser.logits(&nothing).unwrap(), []);
}

#[test]
fn segmenter_probabilities_equal_pytorch() {
    let bundle = Bundle::open(&fixture("line-segmenter")).unwrap();
    let segmenter = load_segmenter(&bundle, &cpu(2)).unwrap();
    assert_eq!(segmenter.tile_size(), 64);
    let tiles = TileBatch {
        size: 64,
        count: 2,
        values: floats("line-segmenter/tiles.f32"),
    };
    let expected = floats("line-segmenter/probabilities.f32");
    let probabilities = segmenter.line_probabilities(&tiles).unwrap();
    let difference = largest_difference(&probabilities, &expected);
    assert!(difference < 1e-5, "{difference}");

    // More tiles than are computed at once, the last batch not full.
    let many = TileBatch {
        size: 64,
        count: 18,
        values: tiles.values.repeat(9),
    };
    assert_eq!(
        segmenter.line_probabilities(&many).unwrap(),
        probabilities.repeat(9)
    );
    let short = TileBatch { count: 3, ..tiles };
    assert!(matches!(
        segmenter.line_probabilities(&short),
        Err(InferenceError::Shape { .. })
    ));
}

#[test]
fn the_shipped_segmenter_marks_the_lines_of_a_rendered_page() {
    let bundle = shipped::line_segmenter().unwrap();
    let threshold = bundle.segmentation().unwrap().threshold;
    let segmenter = load_segmenter(&bundle, &cpu(1)).unwrap();
    let pixels = |name: &str| {
        image::open(fixture("rendered-tile").join(name))
            .unwrap()
            .into_luma8()
            .into_raw()
    };
    let values = pixels("page.png")
        .into_iter()
        .map(|paper| f32::from(paper) / 255.0)
        .collect();
    let tile = TileBatch {
        size: 512,
        count: 1,
        values,
    };
    let probabilities = segmenter.line_probabilities(&tile).unwrap();
    let (mut both, mut either) = (0, 0);
    for (probability, band) in probabilities.into_iter().zip(pixels("bands.png")) {
        let (found, expected) = (probability > threshold, band > 0);
        both += u32::from(found && expected);
        either += u32::from(found || expected);
    }
    let overlap = f64::from(both) / f64::from(either);
    assert!(overlap > 0.75, "intersection over union is {overlap}");
}
