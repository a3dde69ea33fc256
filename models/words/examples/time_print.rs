//! Calls a network for print so often, for `benches/compare_with_onnxruntime.py`, which counts the time of the processor.
//!
//!     time_print MODELS detector|recognizer|orientation TIMES

#![expect(clippy::expect_used, reason = "a tool for developers, who read the message")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use parkhang_kernels::device::{ComputeDevice, DeviceKind, DeviceSpec, Precision};
use parkhang_words::inference::ImageBatch;
use parkhang_words::load;

fn image(height: usize, width: usize) -> ImageBatch {
    ImageBatch {
        count: 1,
        height,
        width,
        values: (0..3 * height * width)
            .map(|place| ((place * 31) % 23) as f32 / 11.5 - 1.0)
            .collect(),
    }
}

fn main() {
    let [folder, network, times] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .expect("MODELS NETWORK TIMES");
    let device = ComputeDevice::open(&DeviceSpec {
        kind: DeviceKind::Cpu,
        index: 0,
        threads: NonZeroUsize::MIN,
        software_renderer: false,
        precision: Precision::Full,
    })
    .expect("a processor");
    let models = load(Path::new(&folder), &device).expect("the models");
    let (page, line, picture) = (image(960, 736), image(48, 640), image(224, 224));
    for _ in 0..times.parse::<usize>().expect("a number") {
        match network.as_str() {
            "detector" => drop(black_box(
                models.detector.probabilities(&page).expect("an answer"),
            )),
            "recognizer" => drop(black_box(models.recognizer.frames(&line).expect("an answer"))),
            _ => drop(black_box(
                models.orientation.probabilities(&picture).expect("an answer"),
            )),
        }
    }
}
