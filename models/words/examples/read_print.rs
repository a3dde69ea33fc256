//! Reads pages of print and writes their words as JSON lines, for evaluation: page, time of the processor, size, words with boxes.
//!
//!     cargo run --release -p parkhang-words --example read_print -- models/weights/print LONG_SIDE PAGE...

#![expect(clippy::expect_used, reason = "a tool for developers, who read the message")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use parkhang_kernels::device::{ComputeDevice, DeviceKind, DeviceSpec, Precision};
use parkhang_words::{ReadOptions, load, read};
use serde_json::json;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let models = arguments.next().expect("the folder of the bundles");
    let long_side = arguments
        .next()
        .and_then(|side| side.parse().ok())
        .expect("a long side");
    let device = ComputeDevice::open(&DeviceSpec {
        kind: DeviceKind::Cpu,
        index: 0,
        threads: NonZeroUsize::MIN,
        software_renderer: false,
        precision: Precision::Full,
    })
    .expect("a processor");
    let models = load(Path::new(&models), &device).expect("the models");
    let options = ReadOptions {
        long_side,
        ..ReadOptions::default()
    };
    for page in arguments {
        let image = image::open(&page).expect("a picture").to_rgb8();
        let begin = Instant::now();
        let reading = read(&image, &models, &options).expect("a reading");
        let lines: Vec<_> = reading
            .lines
            .iter()
            .map(|line| {
                let words: Vec<_> = line
                    .words
                    .iter()
                    .map(|word| json!({"text": word.text, "bbox": word.quad.bounds(), "confidence": word.confidence}))
                    .collect();
                json!({"text": line.text, "bbox": line.quad.bounds(), "confidence": line.confidence, "words": words})
            })
            .collect();
        println!(
            "{}",
            json!({
                "page": page,
                "seconds": begin.elapsed().as_secs_f64(),
                "width": image.width(),
                "height": image.height(),
                "turn": reading.turn.degrees(),
                "lines": lines,
            })
        );
    }
}
