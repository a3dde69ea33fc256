//! Model bundles: a directory of `model.json`, weights and a model card, or the same compiled into the binary.

mod bundle;
mod description;
mod error;
pub(crate) mod import;
pub(crate) mod layers;
pub mod shipped;
pub(crate) mod tensors;

use std::sync::Arc;

use serde::de::DeserializeOwned;

pub use bundle::Bundle;
pub use description::{
    Architecture, Correction, Fault, FileReference, Head, LanguageModelReference, Model, ModelDescription,
    RecognitionModel, SegmentationModel, TrainingData, TrainingSummary,
};
pub use error::WeightsError;

use crate::device::ComputeDevice;
use crate::inference::{Classes, Recognizer, Segmenter};
use crate::line_detection::deeplab::{self, DeepLabSegmenter};
use crate::line_detection::network::{self as segmentation, PatchSegmenter};
use crate::recognition::fixed_size::FixedSizeRecognizer;
use crate::recognition::network::{self as recognition, CtcRecognizer, OutputLayer};

/// Puts a recognition model on a device, to read with the head (and so the charset) of the given name.
pub fn load_recognizer(
    bundle: &Bundle,
    device: &ComputeDevice,
    head: &str,
) -> Result<Arc<dyn Recognizer>, WeightsError> {
    let model = bundle.recognition()?;
    if let Ok(architecture) = model.architecture.name.parse() {
        return FixedSizeRecognizer::load(bundle, model, architecture, device);
    }
    let dimensions =
        dimensions::<recognition::NetworkDimensions>(bundle, &model.architecture, recognition::ARCHITECTURE)?;
    let classes = bundle.symbols(head)?.len() + 1;
    let (mut layer, mut others) = (None, Vec::new());
    for candidate in &model.heads {
        if candidate.name == head {
            layer = Some(candidate.layer.as_str());
        } else {
            others.push(candidate.layer.as_str());
        }
    }
    let output = OutputLayer {
        key: layer.ok_or_else(|| bundle.unknown_head(head))?,
        classes,
    };
    Ok(CtcRecognizer::load(
        bundle.tensors()?,
        &dimensions,
        output,
        &others,
        model.preprocessing.paper(),
        device,
    )?)
}

/// Puts a segmentation model on a device.
pub fn load_segmenter(bundle: &Bundle, device: &ComputeDevice) -> Result<Arc<dyn Segmenter>, WeightsError> {
    let model = bundle.segmentation()?;
    if model.architecture.name == deeplab::ARCHITECTURE {
        return DeepLabSegmenter::load(bundle, model, device);
    }
    let dimensions = dimensions::<segmentation::NetworkDimensions>(
        bundle,
        &model.architecture,
        segmentation::ARCHITECTURE,
    )?;
    let tile_size = usize::from(model.tile_size.get());
    if !tile_size.is_multiple_of(segmentation::TILE_MULTIPLE) {
        return Err(bundle.invalid(
            "tile_size",
            format!("must be a multiple of {}", segmentation::TILE_MULTIPLE),
        ));
    }
    if model.classes != Classes::Line {
        let problem = format!("{} knows lines alone", segmentation::ARCHITECTURE);
        return Err(bundle.invalid("classes", problem));
    }
    Ok(PatchSegmenter::load(
        bundle.tensors()?,
        &dimensions,
        tile_size,
        device,
    )?)
}

fn dimensions<T: DeserializeOwned>(
    bundle: &Bundle,
    architecture: &Architecture,
    known: &'static str,
) -> Result<T, WeightsError> {
    if architecture.name != known {
        return Err(WeightsError::UnknownArchitecture {
            file: bundle.label(Bundle::DESCRIPTION),
            name: architecture.name.clone(),
            known,
        });
    }
    serde_json::from_value(architecture.dimensions.clone().into())
        .map_err(|error| bundle.invalid("architecture", error.to_string()))
}
