//! Time of one call of each network for print on one thread of the processor.

#![expect(clippy::expect_used, reason = "a bench has nobody to report an error to")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use parkhang_kernels::device::{ComputeDevice, DeviceKind, DeviceSpec, Precision};
use parkhang_words::inference::ImageBatch;
use parkhang_words::load;

/// Height and width of the inputs: a page as the detector sees it, a line of usual length, the picture of the classifier.
const PAGE: (usize, usize) = (960, 736);
const LINE: (usize, usize) = (48, 640);
const PICTURE: (usize, usize) = (224, 224);

fn image((height, width): (usize, usize)) -> ImageBatch {
    ImageBatch {
        count: 1,
        height,
        width,
        values: (0..3 * height * width)
            .map(|place| ((place * 31) % 23) as f32 / 11.5 - 1.0)
            .collect(),
    }
}

fn networks(criterion: &mut Criterion) {
    let device = ComputeDevice::open(&DeviceSpec {
        kind: DeviceKind::Cpu,
        index: 0,
        threads: NonZeroUsize::MIN,
        software_renderer: false,
        precision: Precision::Full,
    })
    .expect("a processor");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/print");
    let models = load(&folder, &device).expect("the models of the repository");
    let (page, line, picture) = (image(PAGE), image(LINE), image(PICTURE));
    criterion.bench_function("detector-960x736", |bencher| {
        bencher.iter(|| black_box(models.detector.probabilities(&page).expect("an answer")));
    });
    criterion.bench_function("recognizer-640", |bencher| {
        bencher.iter(|| black_box(models.recognizer.frames(&line).expect("an answer")));
    });
    criterion.bench_function("orientation", |bencher| {
        bencher.iter(|| black_box(models.orientation.probabilities(&picture).expect("an answer")));
    });
}

criterion_group!(benches, networks);
criterion_main!(benches);
