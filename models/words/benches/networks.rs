//! Time of one call of each network for print on one thread of the processor.
//!
//! With the arguments `detector|recognizer|orientation TIMES` it calls one of them so often and says nothing, for
//! `compare_with_onnxruntime.py`, which counts the time of the processor.

#![expect(clippy::expect_used, reason = "a bench has nobody to report an error to")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use criterion::{Criterion, criterion_group};
use parkhang_kernels::device::{ComputeDevice, DeviceKind, DeviceSpec, Precision};
use parkhang_words::inference::ImageBatch;
use parkhang_words::{PrintModels, load};

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

/// The networks with their inputs, each called by its name.
struct Networks {
    models: PrintModels,
    page: ImageBatch,
    line: ImageBatch,
    picture: ImageBatch,
}

/// Names of the networks.
const NAMES: [&str; 3] = ["detector", "recognizer", "orientation"];

impl Networks {
    fn load() -> Self {
        let device = ComputeDevice::open(&DeviceSpec {
            kind: DeviceKind::Cpu,
            index: 0,
            threads: NonZeroUsize::MIN,
            software_renderer: false,
            precision: Precision::Full,
        })
        .expect("a processor");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/print");
        Self {
            models: load(&folder, &device).expect("the models of the repository"),
            page: image(PAGE),
            line: image(LINE),
            picture: image(PICTURE),
        }
    }

    fn call(&self, name: &str) {
        let Self {
            models,
            page,
            line,
            picture,
        } = self;
        match name {
            "detector" => drop(black_box(models.detector.probabilities(page).expect("an answer"))),
            "recognizer" => drop(black_box(models.recognizer.frames(line).expect("an answer"))),
            "orientation" => drop(black_box(
                models.orientation.probabilities(picture).expect("an answer"),
            )),
            name => panic!("{name} is none of {NAMES:?}"),
        }
    }
}

fn networks(criterion: &mut Criterion) {
    let networks = Networks::load();
    for name in NAMES {
        criterion.bench_function(name, |bencher| bencher.iter(|| networks.call(name)));
    }
}

criterion_group!(benches, networks);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, times] = &arguments[..]
        && let Ok(times) = times.parse::<u32>()
    {
        let networks = Networks::load();
        for _ in 0..times {
            networks.call(name);
        }
        return;
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
