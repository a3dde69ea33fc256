//! Time of one network call on one thread of the processor.

#![expect(clippy::expect_used, reason = "a bench has nobody to report an error to")]

use std::num::NonZeroUsize;

use criterion::{Criterion, criterion_group, criterion_main};
use parkhang_models::device::{ComputeDevice, DeviceSpec};
use parkhang_models::inference::{LineBatch, TileBatch};
use parkhang_models::weights::{load_recognizer, load_segmenter, shipped};

/// Ink in a regular pattern; the time does not depend on the values.
fn pattern(count: usize) -> Vec<f32> {
    (0..count)
        .map(|index| f32::from(u8::from(index % 7 == 0)))
        .collect()
}

fn networks(criterion: &mut Criterion) {
    let device = ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).expect("the processor");

    let recogniser = shipped::recogniser().expect("the shipped recogniser");
    let line = LineBatch {
        height: 64,
        width: 1600,
        line_widths: vec![1600],
        values: pattern(64 * 1600),
    };
    for head in ["codepoints", "stacks"] {
        let network = load_recognizer(&recogniser, &device, head).expect("its network");
        criterion.bench_function(&format!("recogniser 1x64x1600, {head}"), |bencher| {
            bencher.iter(|| network.logits(&line).expect("scores"));
        });
    }

    let segmenter = shipped::line_segmenter().expect("the shipped segmenter");
    let network = load_segmenter(&segmenter, &device).expect("its network");
    let size = network.tile_size();
    let tiles = TileBatch {
        size,
        count: 8,
        values: pattern(8 * size * size),
    };
    criterion.bench_function("segmenter, 8 tiles", |bencher| {
        bencher.iter(|| network.line_probabilities(&tiles).expect("probabilities"));
    });
}

criterion_group!(benches, networks);
criterion_main!(benches);
