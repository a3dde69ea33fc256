//! Model bundles: a directory of `model.json`, weights and a model card, or the same compiled into the binary.
//!
//! A bundle is more than weights: it says which network they are for, how images are prepared, which symbols the classes
//! stand for and which n-grams help, so that a model is exchanged by exchanging a folder. `model.json` holds the checksums of
//! the other files, so one checksum identifies all that decides an output; it is in the provenance of every table. Files are
//! read and checked as a whole when a bundle is opened and networks are made later, once for each device.
//!
//! Folders as BDRC publishes them (`bdrc`) become bundles in memory: the rest of the program knows one kind of model. Where
//! their description contradicts their weights the weights are believed, and the correction is reported, not applied silently.
//!
//! This room names the types of `recognition` that a description holds and the networks that it loads; neither of them may
//! name it. [`load_recognizer`] and [`load_segmenter`] are the only places that choose a network by name.

mod bdrc;
mod bundle;
mod description;
pub mod shipped;

use std::sync::Arc;

use parkhang_kernels::device::ComputeDevice;
use serde::de::DeserializeOwned;

pub use bundle::Bundle;
pub use description::{
    Architecture, Correction, EmbeddingModel, Fault, FileReference, Head, LanguageModelReference, Model,
    ModelDescription, PrintModel, RecognitionModel, SecondReadingModel, SegmentationModel, TrainingData,
    TrainingSummary,
};

pub use crate::checkpoint::WeightsError;
use crate::checkpoint::tensors::WeightTensors;
use crate::inference::{Classes, Recognizer, Segmenter};
use crate::networks::ctc_residual_conv::{self, CtcRecognizer, OutputLayer};
use crate::networks::deeplab::{self, DeepLabSegmenter};
use crate::networks::fixed_size::FixedSizeRecognizer;
use crate::networks::patch_segmenter::{self, PatchSegmenter};
use crate::networks::second_reading::SecondReading;

/// Puts a recognition model on a device, to read with the head (and so the charset) of the given name.
///
/// # Errors
/// [`WeightsError`] for a model of another kind, a head or an architecture that is not there, and weights that do not fit.
pub fn load_recognizer(
    bundle: &Bundle,
    device: &ComputeDevice,
    head: &str,
) -> Result<Arc<dyn Recognizer>, WeightsError> {
    let model = bundle.recognition()?;
    if let Ok(architecture) = model.architecture.name.parse() {
        let Some((width, height)) = model.preprocessing.canvas() else {
            let problem = format!("gives no images of one size, as {architecture} needs");
            return Err(bundle.invalid("preprocessing", problem));
        };
        let recognizer = FixedSizeRecognizer::load(bundle.tensors()?, architecture, height, device)?;
        recognizer
            .check(width)
            .map_err(|problem| bundle.invalid("preprocessing", problem))?;
        return Ok(Arc::new(recognizer));
    }
    // The blank has no symbol.
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
    let load = |architecture: &Architecture, tensors: WeightTensors<'_>| {
        let dimensions = dimensions(bundle, architecture, ctc_residual_conv::ARCHITECTURE)?;
        let paper = model.preprocessing.paper();
        CtcRecognizer::load(tensors, &dimensions, output, &others, paper, device)
    };
    let first = load(&model.architecture, bundle.tensors()?)?;
    let Some(second) = &model.second_reading else {
        return Ok(first);
    };
    if !(0.0..=1.0).contains(&second.doubt) {
        let problem = format!("{} is no doubt from 0 to 1", second.doubt);
        return Err(bundle.invalid("second_reading.doubt", problem));
    }
    Ok(Arc::new(SecondReading {
        first,
        second: load(&second.architecture, bundle.tensors_of(&second.weights)?)?,
        doubt: second.doubt,
        stride: ctc_residual_conv::HORIZONTAL_STRIDE,
    }))
}

/// Puts a segmentation model on a device.
///
/// # Errors
/// [`WeightsError`] for a model of another kind, an architecture that is not there, and weights that do not fit.
pub fn load_segmenter(bundle: &Bundle, device: &ComputeDevice) -> Result<Arc<dyn Segmenter>, WeightsError> {
    let model = bundle.segmentation()?;
    if model.architecture.name == deeplab::ARCHITECTURE {
        return load_deeplab(bundle, model, device);
    }
    let dimensions = dimensions::<patch_segmenter::NetworkDimensions>(
        bundle,
        &model.architecture,
        patch_segmenter::ARCHITECTURE,
    )?;
    let tile_size = usize::from(model.tile_size.get());
    if !tile_size.is_multiple_of(patch_segmenter::TILE_MULTIPLE) {
        return Err(bundle.invalid(
            "tile_size",
            format!("must be a multiple of {}", patch_segmenter::TILE_MULTIPLE),
        ));
    }
    if (model.classes == Classes::Layout) != dimensions.layout_blocks.is_some() {
        let problem = "are those of a layout where `architecture` has `layout_blocks`, and nowhere else";
        return Err(bundle.invalid("classes", problem.to_owned()));
    }
    Ok(PatchSegmenter::load(
        bundle.tensors()?,
        &dimensions,
        tile_size,
        device,
    )?)
}

/// Puts a segmentation network of BDRC's on a device.
fn load_deeplab(
    bundle: &Bundle,
    model: &SegmentationModel,
    device: &ComputeDevice,
) -> Result<Arc<dyn Segmenter>, WeightsError> {
    let tile_size = usize::from(model.tile_size.get());
    if !tile_size.is_multiple_of(deeplab::TILE_MULTIPLE) {
        let problem = format!("must be a multiple of {}", deeplab::TILE_MULTIPLE);
        return Err(bundle.invalid("tile_size", problem));
    }
    let segmenter = DeepLabSegmenter::load(bundle.tensors()?, tile_size, model.classes, device)?;
    let stated = match model.classes {
        Classes::Line => 1,
        Classes::Layout => deeplab::LAYOUT_PLANES,
    };
    let planes = segmenter.planes();
    if planes != stated {
        return Err(bundle.invalid("classes", format!("are {stated}, the network has {planes}")));
    }
    Ok(Arc::new(segmenter))
}

/// The dimensions of a network of this project, whose name is `known`.
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
