//! Decoding one line of 200 frames.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use parkhang_models::inference::Logits;
use parkhang_models::recognition::charset::Charset;
use parkhang_models::recognition::ctc::{BeamSearch, beam_search, greedy, log_softmax};

const FRAMES: usize = 200;

/// Peaks as a trained network shows them: a letter every third frame, a rival class here and there, noise elsewhere.
fn line(classes: usize) -> Logits {
    let mut state = 7_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state) / f64::from(u32::MAX)
    };
    let mut values: Vec<f32> = (0..FRAMES * classes)
        .map(|_| (random() * 4.0 - 2.0) as f32)
        .collect();
    for (frame, row) in values.chunks_exact_mut(classes).enumerate() {
        let mut raise = |share: f64, score: f32| row[(share * classes as f64) as usize % classes] += score;
        if frame % 3 == 0 {
            raise(random(), 14.0);
            if frame % 5 == 0 {
                raise(random(), 13.0);
            }
        } else {
            raise(0.0, 14.0);
        }
    }
    Logits {
        frames: FRAMES,
        classes,
        values,
    }
}

fn decode(criterion: &mut Criterion) {
    for classes in [100, 700] {
        let charset = match Charset::new((1..classes).map(|label| format!("<{label}>"))) {
            Ok(charset) => charset,
            Err(error) => unreachable!("{error}"),
        };
        let logits = line(classes);
        let Ok(log_probs) = log_softmax(logits.clone()) else {
            unreachable!("the scores are finite")
        };
        let mut group = criterion.benchmark_group(format!("{FRAMES} frames x {classes} classes"));
        group.bench_function("log-softmax", |bench| {
            bench.iter(|| log_softmax(black_box(logits.clone())))
        });
        group.bench_function("greedy", |bench| {
            bench.iter(|| greedy(black_box(&log_probs), &charset))
        });
        let search = BeamSearch::default();
        group.bench_function("beam search", |bench| {
            bench.iter(|| beam_search(black_box(&log_probs), &charset, &search, None));
        });
        group.finish();
    }
}

criterion_group!(benches, decode);
criterion_main!(benches);
