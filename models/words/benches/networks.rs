//! Time of one call of each network for print on one thread of the processor.
//!
//! With the arguments `detector|recognizer|orientation TIMES full|int8` it calls one of them so often and says nothing, for
//! `compare_with_onnxruntime.py`, which counts the time of the processor.

#![expect(clippy::expect_used, reason = "a bench has nobody to report an error to")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use criterion::{Criterion, criterion_group};
use parkhang_kernels::device::{ComputeDevice, DeviceSpec, Precision};
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

/// The networks with their inputs.
struct Networks {
    models: PrintModels,
    page: ImageBatch,
    line: ImageBatch,
    picture: ImageBatch,
}

/// Call of one of the networks.
type Call = fn(&Networks);

/// Calls of the networks by name.
const CALLS: [(&str, Call); 3] = [
    ("detector", Networks::detect),
    ("recognizer", Networks::recognize),
    ("orientation", Networks::orient),
];

/// Precisions by name.
const PRECISIONS: [(Precision, &str); 2] = [(Precision::Full, "full"), (Precision::Int8, "int8")];

impl Networks {
    fn load(precision: Precision) -> Self {
        let spec = DeviceSpec {
            precision,
            ..DeviceSpec::cpu(NonZeroUsize::MIN)
        };
        let device = ComputeDevice::open(&spec).expect("a processor");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/print");
        Self {
            models: load(&folder, &device).expect("the models of the repository"),
            page: image(PAGE),
            line: image(LINE),
            picture: image(PICTURE),
        }
    }

    fn detect(&self) {
        let answer = self.models.detector.probabilities(&self.page);
        drop(black_box(answer.expect("an answer")));
    }

    fn recognize(&self) {
        let answer = self.models.recognizer.frames(&self.line);
        drop(black_box(answer.expect("an answer")));
    }

    fn orient(&self) {
        let answer = self.models.orientation.probabilities(&self.picture);
        drop(black_box(answer.expect("an answer")));
    }
}

fn networks(criterion: &mut Criterion) {
    for (precision, named) in PRECISIONS {
        let networks = Networks::load(precision);
        for (name, call) in CALLS {
            criterion.bench_function(&format!("{name}, {named}"), |bencher| {
                bencher.iter(|| call(&networks))
            });
        }
    }
}

criterion_group!(benches, networks);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = CALLS
        .iter()
        .find(|(name, _)| arguments.first().is_some_and(|argument| argument == name));
    if let (Some((_, call)), [_, times, named]) = (asked, &*arguments) {
        let precision = PRECISIONS.iter().find(|(_, name)| name == named);
        let (precision, _) = precision.expect("a precision");
        let networks = Networks::load(*precision);
        for _ in 0..times.parse::<u32>().expect("a number of calls") {
            call(&networks);
        }
        return;
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
