//! `model.json`: what a model is and how to feed it.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use crate::inference::Classes;
use crate::recognition::charset::Encoding;
use crate::recognition::line_image::Preprocessing;

/// Contents of `model.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelDescription {
    /// Version of this format.
    pub version: u32,
    /// Name of the model; part of the provenance of what it reads.
    pub name: String,
    pub weights: FileReference,
    #[serde(flatten)]
    pub model: Model,
    pub training: TrainingSummary,
    /// Values that the description of another program states wrongly; always empty in a bundle.
    #[serde(skip)]
    pub corrections: Vec<Correction>,
}

impl ModelDescription {
    pub(super) fn language_model(&self) -> Option<&LanguageModelReference> {
        match &self.model {
            Model::Recognition(model) => model.language_model.as_ref(),
            Model::Segmentation(_) | Model::Print(_) | Model::Embedding(_) => None,
        }
    }

    /// The files besides the weights.
    pub(super) fn files(&self) -> Vec<&FileReference> {
        match &self.model {
            Model::Recognition(model) => {
                let ngrams = model.language_model.as_ref().map(|model| &model.ngrams);
                let second = model.second_reading.as_ref().map(|second| &second.weights);
                std::iter::once(&model.charset)
                    .chain(ngrams)
                    .chain(second)
                    .collect()
            }
            Model::Print(model) => model.symbols.iter().collect(),
            Model::Embedding(model) => std::iter::once(&model.tokenizer).chain(&model.tables).collect(),
            Model::Segmentation(_) => Vec::new(),
        }
    }
}

/// A file beside `model.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileReference {
    /// Plain file name, no folders.
    pub file: String,
    /// SHA-256 of the file, hexadecimal, lower case.
    pub sha256: String,
}

/// Task of a model, with what it needs for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Model {
    Segmentation(SegmentationModel),
    Recognition(RecognitionModel),
    Print(PrintModel),
    Embedding(EmbeddingModel),
}

/// A network that makes vectors of texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingModel {
    pub architecture: Architecture,
    /// Description of its tokens.
    pub tokenizer: FileReference,
    /// Embeddings of its tokens, one part after the other, where they are not with the weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<FileReference>,
}

/// A network that takes part in reading pages of any print.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrintModel {
    pub architecture: Architecture,
    /// Symbols of the classes after the blank, one a line, for a network that reads words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols: Option<FileReference>,
}

/// A model that finds text lines in tiles of a binarised page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentationModel {
    pub architecture: Architecture,
    /// Side of a tile in pixels.
    pub tile_size: NonZeroU16,
    /// Probability from which a pixel counts as part of a line.
    pub threshold: f32,
    /// Classes that the network tells apart.
    #[serde(default)]
    pub classes: Classes,
    /// Probability from which a pixel counts as part of a region beside the lines, for a network with the classes of a layout.
    #[serde(default = "SegmentationModel::usual_layout_threshold")]
    pub layout_threshold: f32,
}

impl SegmentationModel {
    /// Probability from which BDRC's programs count a pixel of a layout.
    pub(super) fn usual_layout_threshold() -> f32 {
        0.8
    }
}

/// A model that reads line images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecognitionModel {
    pub architecture: Architecture,
    /// Preparation of line images for the network.
    pub preprocessing: Preprocessing,
    /// JSON object with one list of symbols per head, in the order of the classes after the blank.
    pub charset: FileReference,
    pub heads: Vec<Head>,
    /// N-grams that help the beam search to choose among what a head may have seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language_model: Option<LanguageModelReference>,
    /// A network that reads once more what the first one is unsure of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_reading: Option<SecondReadingModel>,
}

impl RecognitionModel {
    /// Output that is read where there are several: whole stacks leave fewer ways to go wrong.
    const PREFERRED_HEAD: &str = "stacks";

    /// The output that is read, by its name; `None` where there is none.
    pub fn preferred_head(&self) -> Option<&str> {
        let names = || self.heads.iter().map(|head| head.name.as_str());
        names()
            .find(|name| *name == Self::PREFERRED_HEAD)
            .or_else(|| names().next())
    }
}

/// N-grams of the classes of a head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageModelReference {
    pub ngrams: FileReference,
    /// Name of the head whose classes they are of.
    pub head: String,
    /// Weight and bonus of [`LanguageModel`](crate::recognition::language::LanguageModel).
    pub weight: f32,
    pub bonus: f32,
}

/// A network for the parts of lines of which another one is in doubt. It has the preparation, the charset and the heads of that one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondReadingModel {
    pub architecture: Architecture,
    pub weights: FileReference,
    /// Probability, 0 to 1, of what the first network hints at and does not say clearly, from which on a part of a line is read again:
    /// with 0 every line is, as a whole.
    pub doubt: f32,
}

/// Name and dimensions of a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Architecture {
    pub name: String,
    #[serde(flatten)]
    pub dimensions: serde_json::Map<String, serde_json::Value>,
}

/// An output of a recognition network: scores over one charset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Name, and key of the symbols in the charset file.
    pub name: String,
    /// Name of the layer in the weights file.
    pub layer: String,
    /// Spelling of its symbols.
    #[serde(default)]
    pub encoding: Encoding,
}

/// A value of a description that does not fit the network beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    pub key: &'static str,
    /// Value in the description; `None` if it has none.
    pub stated: Option<String>,
    pub fault: Fault,
    /// Value that is used.
    pub used: String,
}

/// Fault in the value of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Name of a file that is not there.
    NoSuchFile,
    /// Contradiction to the weights or to the declared input of the graph.
    DoesNotFit,
}

impl fmt::Display for Correction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            stated,
            fault,
            used,
        } = self;
        let fault = match fault {
            Fault::NoSuchFile => "is not there",
            Fault::DoesNotFit => "does not fit the network",
        };
        match stated {
            Some(stated) => write!(f, "`{key}` is {stated}, which {fault}; {used} is used"),
            None => write!(f, "`{key}` is missing; {used} is used"),
        }
    }
}

/// Origin of the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSummary {
    pub description: String,
    pub data: Vec<TrainingData>,
    /// Measured quality, by what was measured.
    pub scores: BTreeMap<String, f64>,
}

/// A source of training data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingData {
    pub name: String,
    pub licence: String,
}
