//! Texts a second on one thread of the processor, with their tokens, of a short and a usual length.

#![expect(clippy::expect_used, reason = "a bench has nobody to report an error to")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use parkhang_embeddings::{ComputeDevice, DeviceSpec, dense, load, sparse};

/// Texts of a call.
const TEXTS: usize = 8;

const SENTENCE: &str =
    "Revenue of the Group rose by twelve per cent to three million dollars because of higher sales. ";

fn vectors(criterion: &mut Criterion) {
    let device = ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).expect("a processor");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/embeddings");
    let models = load(&folder, &device).expect("the models of the repository");
    let mut group = criterion.benchmark_group("vectors");
    group.throughput(Throughput::Elements(TEXTS as u64));
    for (tokens, sentences) in [(20, 1), (200, 10)] {
        let text = SENTENCE.repeat(sentences);
        let texts = [text.as_str(); TEXTS];
        group.bench_function(format!("tokens, {tokens}"), |bencher| {
            bencher.iter(|| black_box(texts.map(|text| models.dense_tokenizer.count(text))));
        });
        group.bench_function(format!("dense, {tokens}"), |bencher| {
            bencher.iter(|| black_box(dense(&texts, &models).expect("vectors")));
        });
        group.bench_function(format!("sparse, {tokens}"), |bencher| {
            bencher.iter(|| black_box(sparse(&texts, &models).expect("vectors")));
        });
    }
    group.finish();
}

criterion_group!(benches, vectors);
criterion_main!(benches);
