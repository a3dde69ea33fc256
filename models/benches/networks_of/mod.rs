//! The networks that are timed, each with an input of a usual size, on one thread of the processor.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use parkhang_models::device::{ComputeDevice, DeviceSpec, Precision};
use parkhang_models::inference::{LineBatch, Recognizer, Segmenter, TileBatch};
use parkhang_models::weights::{Bundle, load_recognizer, load_segmenter, shipped};

/// Names a folder with networks of BDRC's kinds, one folder each, which `compare_with_onnxruntime.py` makes.
const FOLDER: &str = "NETWORKS";

/// A network with something to see.
pub(crate) struct Timed {
    pub(crate) name: &'static str,
    input: Input,
}

enum Input {
    Line(Arc<dyn Recognizer>, LineBatch),
    Tiles(Arc<dyn Segmenter>, TileBatch),
}

impl Timed {
    pub(crate) fn run(&self) {
        match &self.input {
            Input::Line(network, line) => {
                std::hint::black_box(network.logits(line).expect("scores"));
            }
            Input::Tiles(network, tiles) => {
                std::hint::black_box(network.line_probabilities(tiles).expect("probabilities"));
            }
        }
    }

    fn line(name: &'static str, network: Arc<dyn Recognizer>, [height, width]: [usize; 2]) -> Self {
        let line = LineBatch {
            height,
            width,
            line_widths: vec![width],
            values: pattern(height * width),
        };
        Self {
            name,
            input: Input::Line(network, line),
        }
    }

    fn tile(name: &'static str, network: Arc<dyn Segmenter>) -> Self {
        let size = network.tile_size();
        let tiles = TileBatch {
            size,
            count: 1,
            values: pattern(size * size),
        };
        Self {
            name,
            input: Input::Tiles(network, tiles),
        }
    }
}

/// Ink in a regular pattern; the time does not depend on the values.
fn pattern(count: usize) -> Vec<f32> {
    (0..count)
        .map(|index| f32::from(u8::from(index % 7 == 0)))
        .collect()
}

fn processor(precision: Precision) -> ComputeDevice {
    let spec = DeviceSpec {
        precision,
        ..DeviceSpec::cpu(NonZeroUsize::MIN)
    };
    ComputeDevice::open(&spec).expect("the processor")
}

/// The shipped recogniser with its first network alone, in a folder: the time of the second depends on what the first is in doubt of.
fn without_second_reading(folder: &Path) -> Bundle {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("weights/recogniser");
    for file in fs::read_dir(shipped).expect("the shipped recogniser") {
        let file = file.expect("a file");
        fs::copy(file.path(), folder.join(file.file_name())).expect("a copy");
    }
    let description = folder.join("model.json");
    let text = fs::read(&description).expect("its description");
    let mut model: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let second = model
        .as_object_mut()
        .and_then(|model| model.remove("second_reading"));
    second.expect("a second network");
    fs::write(&description, model.to_string()).expect("its description");
    Bundle::open(folder).expect("the recogniser")
}

/// The shipped networks, and those in the folder of the environment.
pub(crate) fn networks() -> Vec<Timed> {
    let (device, int8) = (processor(Precision::Full), processor(Precision::Int8));
    let folder = tempfile::tempdir().expect("a folder");
    let recogniser = without_second_reading(folder.path());
    let segmenter = shipped::line_segmenter().expect("the shipped segmenter");
    let recogniser = |device, head| load_recognizer(&recogniser, device, head).expect("its network");
    let segmenter = |device| load_segmenter(&segmenter, device).expect("its network");
    let line = [64, 1600];
    let mut networks = vec![
        Timed::line("recogniser-codepoints", recogniser(&device, "codepoints"), line),
        Timed::line("recogniser-stacks", recogniser(&device, "stacks"), line),
        Timed::line("recogniser-stacks-int8", recogniser(&int8, "stacks"), line),
        Timed::tile("segmenter", segmenter(&device)),
        Timed::tile("segmenter-int8", segmenter(&int8)),
    ];
    let Some(folder) = std::env::var_os(FOLDER) else {
        return networks;
    };
    let bundle = |name: &str| Bundle::open(&Path::new(&folder).join(name)).expect("a network of the folder");
    for name in ["easter2", "crnn"] {
        let bundle = bundle(name);
        let head = &bundle.recognition().expect("a recogniser").heads[0].name;
        let network = load_recognizer(&bundle, &device, head).expect("its network");
        networks.push(Timed::line(name, network, [100, 3200]));
    }
    let deeplab = load_segmenter(&bundle("deeplab"), &device).expect("its network");
    networks.push(Timed::tile("deeplab", deeplab));
    networks
}
