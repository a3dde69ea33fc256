//! Opening the device and the models that a command asks for.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parkhang_actors::artifact::{Digest, ModelRef};
use parkhang_actors::stage::ModelSet;
use parkhang_models::device::{ComputeDevice, DeviceKind, DeviceSpec};
use parkhang_models::inference::Classes;
use parkhang_models::weights::{Bundle, Model, load_recognizer, load_segmenter, shipped};

/// Output of a recogniser that is read where it has several: whole stacks leave fewer ways to go wrong.
const PREFERRED_HEAD: &str = "stacks";

/// Threads that this machine runs at once.
pub fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Loads the shipped models, or in their place the ones in `directories`; `model.json` says what each is for.
pub fn load(directories: &[PathBuf], device: &str, threads: NonZeroUsize) -> Result<ModelSet> {
    let device_name = device.to_owned();
    let device = ComputeDevice::open(&parse_device(device, threads)?).context("cannot use the device")?;
    let (mut segmenter, mut recogniser) = (None, None);
    for directory in directories {
        let bundle = open(directory)?;
        let slot = match bundle.description().model {
            Model::Segmentation(_) => &mut segmenter,
            Model::Recognition(_) => &mut recogniser,
        };
        if slot.replace(bundle).is_some() {
            bail!(
                "{} is the second model of its kind: give one --model of each",
                directory.display()
            );
        }
    }
    let segmenter = segmenter.map_or_else(shipped::line_segmenter, Ok)?;
    let recogniser = recogniser.map_or_else(shipped::recogniser, Ok)?;

    let description = recogniser.recognition()?;
    let heads = || description.heads.iter().map(|head| head.name.as_str());
    let head = heads()
        .find(|name| *name == PREFERRED_HEAD)
        .or_else(|| heads().next());
    let head = head.with_context(|| format!("model {} has no output", recogniser.name()))?;
    let charset = recogniser.charset(head)?;
    Ok(ModelSet {
        segmenter: load_segmenter(&segmenter, &device)?,
        line_threshold: segmenter.segmentation()?.threshold,
        segmenter_ref: reference(&segmenter)?,
        recognizer: load_recognizer(&recogniser, &device, head)?,
        charset: Arc::new(charset),
        language: recogniser.language_model(head)?.map(Arc::new),
        preprocessing: description.preprocessing,
        head: head.to_owned(),
        recognizer_ref: reference(&recogniser)?,
        device: device_name,
    })
}

/// Whether the segmentation model among these, or else the shipped one, knows the classes of a layout.
pub fn knows_layout(directories: &[PathBuf]) -> Result<bool> {
    let mut classes = shipped::line_segmenter()?.segmentation()?.classes;
    for directory in directories {
        let bundle = open(directory)?;
        if let Model::Segmentation(model) = &bundle.description().model {
            classes = model.classes;
        }
    }
    Ok(classes == Classes::Layout)
}

/// What is wrong with a job that asks for the classes of a layout which no model knows.
pub const NO_LAYOUT: &str = "line_mode=layout needs a segmentation model that knows the classes of a layout, and the one in use knows lines alone";

fn open(directory: &Path) -> Result<Bundle> {
    Bundle::open(directory).with_context(|| {
        format!(
            "{} is no model: a folder with model.json, or with BDRC's model_config.json or config.json, and weights",
            directory.display()
        )
    })
}

fn reference(bundle: &Bundle) -> Result<ModelRef> {
    let digest: Digest = format!("sha256:{}", bundle.sha256()).parse()?;
    Ok(ModelRef {
        name: bundle.name().to_owned(),
        digest,
    })
}

/// `cpu`, `wgpu:0`, `cuda:1`.
pub fn parse_device(text: &str, threads: NonZeroUsize) -> Result<DeviceSpec> {
    let (kind, index) = text.split_once(':').unwrap_or((text, "0"));
    let kind: DeviceKind = kind.parse()?;
    let index = index
        .parse()
        .with_context(|| format!("{text:?}: the part after the colon is a device number"))?;
    Ok(DeviceSpec { kind, index, threads })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use parkhang_models::recognition::charset::Encoding;
    use parkhang_models::recognition::line_image::Preprocessing;

    use super::*;

    #[test]
    fn folders_of_bdrc_take_the_place_of_the_shipped_models() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/fixtures/bdrc");
        let folders = ["easter2", "deeplab"].map(|name| fixtures.join(name));
        let models = load(&folders, "cpu", NonZeroUsize::MIN).unwrap();
        assert_eq!(models.segmenter.tile_size(), 640);
        assert_eq!(models.segmenter_ref.name, "deeplab");
        assert_eq!(models.recognizer_ref.name, "easter2");
        assert_eq!((models.head.as_str(), models.charset.classes()), ("wylie", 13));
        assert_eq!(models.charset.encoding(), Encoding::Wylie);
        let expected = Preprocessing::BdrcGen2 {
            width: 256,
            height: 16,
            pre_pad: true,
        };
        assert_eq!(models.preprocessing, expected);
    }
}
