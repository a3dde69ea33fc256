use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::bdrc;
use super::description::{
    Architecture, EmbeddingModel, FileReference, Head, Model, ModelDescription, PrintModel, RecognitionModel,
    SegmentationModel,
};
use crate::checkpoint::tensors::WeightTensors;
use crate::checkpoint::{StateDict, WeightsError};
use crate::recognition::charset::Charset;
use crate::recognition::language::{LanguageModel, Ngrams};

/// A model in memory: its description, and the files that the description names, checked against their checksums.
#[derive(Clone)]
pub struct Bundle {
    /// Folder of the bundle, for errors.
    origin: String,
    /// Name of the description's file.
    file: &'static str,
    description: ModelDescription,
    sha256: String,
    /// The files besides the weights, by name.
    files: BTreeMap<String, Cow<'static, [u8]>>,
    weights: Weights,
}

/// The weights of a bundle.
#[derive(Clone)]
enum Weights {
    Safetensors(Cow<'static, [u8]>),
    Imported(Arc<StateDict>),
}

impl Bundle {
    /// Name of the description in a bundle's folder.
    pub const DESCRIPTION: &'static str = "model.json";
    /// The version of the description that this program reads.
    pub const VERSION: u32 = 1;

    /// Returns whether a folder has a description as recognisers have, so that [`Self::open`] can tell whether it is one.
    pub fn may_be_recogniser(directory: &Path) -> bool {
        let names = [Self::DESCRIPTION, bdrc::RECOGNITION];
        names.iter().any(|name| directory.join(name).is_file())
    }

    /// Reads the bundle in the folder `directory`, which may also be one that BDRC publishes: a description of theirs and
    /// weights as `.onnx` or `.pth`.
    ///
    /// # Errors
    /// [`WeightsError`] where a file is missing, damaged, or contradicts the description.
    pub fn open(directory: &Path) -> Result<Self, WeightsError> {
        if !directory.join(Self::DESCRIPTION).exists() {
            let imported = bdrc::open(directory)?.ok_or_else(|| WeightsError::NoDescription {
                directory: directory.to_owned(),
            })?;
            let origin = directory.display().to_string();
            for correction in &imported.description.corrections {
                tracing::warn!(model = %origin, %correction, "the description of a model is wrong");
            }
            let files = imported.description.files().into_iter();
            let files = files.map(|charset| (charset.file.clone(), Cow::Owned(imported.charset.clone())));
            return Ok(Self {
                origin,
                file: imported.file,
                files: files.collect(),
                description: imported.description,
                sha256: imported.sha256,
                weights: Weights::Imported(Arc::new(imported.tensors)),
            });
        }
        Self::assemble(directory.display().to_string(), |name| {
            let path = directory.join(name);
            std::fs::read(&path)
                .map(Cow::Owned)
                .map_err(|source| WeightsError::Read { path, source })
        })
    }

    /// Puts a bundle together from files that `read` finds by name.
    pub(super) fn assemble(
        origin: String,
        read: impl Fn(&str) -> Result<Cow<'static, [u8]>, WeightsError>,
    ) -> Result<Self, WeightsError> {
        let label = |name: &str| format!("{origin}/{name}");
        let json = read(Self::DESCRIPTION)?;
        let description = parse_description(&json, &label(Self::DESCRIPTION))?;
        // The checksum is that of the bytes in memory: a file that is replaced afterwards changes nothing.
        let checked = |reference: &FileReference| {
            let FileReference {
                file,
                sha256: expected,
            } = reference;
            if !Self::is_plain_file_name(file) {
                return Err(WeightsError::FileName {
                    file: label(Self::DESCRIPTION),
                    name: file.clone(),
                });
            }
            let bytes = read(file)?;
            let actual = hex::encode(Sha256::digest(&bytes));
            if actual == *expected {
                Ok(bytes)
            } else {
                Err(WeightsError::Checksum {
                    file: label(file),
                    expected: expected.clone(),
                    actual,
                })
            }
        };
        let files = description.files().into_iter();
        let files = files.map(|reference| Ok((reference.file.clone(), checked(reference)?)));
        let files = files.collect::<Result<_, WeightsError>>()?;
        let weights = checked(&description.weights)?;
        let sha256 = hex::encode(Sha256::digest(&json));
        Ok(Self {
            origin,
            file: Self::DESCRIPTION,
            description,
            sha256,
            files,
            weights: Weights::Safetensors(weights),
        })
    }

    /// Name of the model, for provenance.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// SHA-256 of `model.json`, hexadecimal. As that holds the checksums of the other files, it identifies the model with
    /// everything that decides its output.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    pub fn description(&self) -> &ModelDescription {
        &self.description
    }

    /// The description as a recognition model.
    ///
    /// # Errors
    /// [`WeightsError::WrongKind`] for a segmentation model.
    pub fn recognition(&self) -> Result<&RecognitionModel, WeightsError> {
        match &self.description.model {
            Model::Recognition(model) => Ok(model),
            _ => Err(self.wrong_kind("recognition")),
        }
    }

    /// The description as a segmentation model.
    ///
    /// # Errors
    /// [`WeightsError::WrongKind`] for a recognition model.
    pub fn segmentation(&self) -> Result<&SegmentationModel, WeightsError> {
        match &self.description.model {
            Model::Segmentation(model) => Ok(model),
            _ => Err(self.wrong_kind("segmentation")),
        }
    }

    /// The description as a model for print, whose network is `architecture`.
    ///
    /// # Errors
    /// [`WeightsError::WrongKind`] for another kind of model, [`WeightsError::UnknownArchitecture`] for another network.
    pub fn print(&self, architecture: &'static str) -> Result<&PrintModel, WeightsError> {
        let Model::Print(model) = &self.description.model else {
            return Err(self.wrong_kind("print"));
        };
        self.known(&model.architecture, architecture)?;
        Ok(model)
    }

    /// The description as a model of embeddings, whose network is `architecture`.
    ///
    /// # Errors
    /// As of [`Self::print`].
    pub fn embedding(&self, architecture: &'static str) -> Result<&EmbeddingModel, WeightsError> {
        let Model::Embedding(model) = &self.description.model else {
            return Err(self.wrong_kind("embedding"));
        };
        self.known(&model.architecture, architecture)?;
        Ok(model)
    }

    fn known(&self, architecture: &Architecture, known: &'static str) -> Result<(), WeightsError> {
        if architecture.name == known {
            return Ok(());
        }
        Err(WeightsError::UnknownArchitecture {
            file: self.label(Self::DESCRIPTION),
            name: architecture.name.clone(),
            known,
        })
    }

    /// Contents of a file that the description names; nothing where it names no such file.
    pub fn file(&self, reference: &FileReference) -> &[u8] {
        self.files.get(&reference.file).map_or(&[], |bytes| bytes)
    }

    /// Symbols of a model for print, by their classes after the blank.
    ///
    /// # Errors
    /// [`WeightsError::Invalid`] where they are no UTF-8.
    pub fn print_symbols(&self) -> Result<Vec<String>, WeightsError> {
        let bytes = match &self.description.model {
            Model::Print(PrintModel {
                symbols: Some(symbols),
                ..
            }) => self.file(symbols),
            _ => &[],
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|error| self.invalid("symbols", format!("are no UTF-8: {error}")))?;
        // Not by `str::lines`: a symbol may be one that it would take for the end of a line.
        let lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
        Ok(lines.map(str::to_owned).collect())
    }

    /// The charset of a head.
    ///
    /// # Errors
    /// [`WeightsError`] for a head that the model does not have, and for symbols that make no charset.
    pub fn charset(&self, head: &str) -> Result<Charset, WeightsError> {
        let encoding = |known: &&Head| known.name == head;
        let encoding = self.recognition()?.heads.iter().find(encoding);
        let encoding = encoding.map(|head| head.encoding).unwrap_or_default();
        Charset::new(self.symbols(head)?)
            .map(|charset| charset.spelled_in(encoding))
            .map_err(|error| self.invalid("charset", error.to_string()))
    }

    /// Symbols of a head: class `n + 1` of its scores stands for symbol `n`; class 0 is the blank.
    ///
    /// # Errors
    /// [`WeightsError`] for a head that the model does not have, and for a file without its list.
    pub fn symbols(&self, head: &str) -> Result<Vec<String>, WeightsError> {
        let model = self.recognition()?;
        if !model.heads.iter().any(|known| known.name == head) {
            return Err(self.unknown_head(head));
        }
        let charset_error = |source| WeightsError::Charset {
            file: self.label(&model.charset.file),
            head: head.to_owned(),
            source,
        };
        let mut lists: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(self.file(&model.charset)).map_err(charset_error)?;
        serde_json::from_value(lists.remove(head).unwrap_or_default()).map_err(charset_error)
    }

    /// The language model for a head, if the bundle has one.
    ///
    /// # Errors
    /// [`WeightsError`] where the n-grams cannot be read or are not for the classes of the head.
    pub fn language_model(&self, head: &str) -> Result<Option<LanguageModel>, WeightsError> {
        let Some(model) = self
            .description
            .language_model()
            .filter(|model| model.head == head)
        else {
            return Ok(None);
        };
        let file = self.label(&model.ngrams.file);
        let ngrams = Ngrams::parse(self.file(&model.ngrams))
            .map_err(|source| WeightsError::Ngrams { file, source })?;
        let classes = self.symbols(head)?.len() + 1;
        // N-grams of another charset would be read without an error and favour the wrong classes.
        if ngrams.classes() != classes {
            let problem = format!("is for {} classes; head `{head}` has {classes}", ngrams.classes());
            return Err(self.invalid("language_model", problem));
        }
        Ok(Some(LanguageModel {
            ngrams,
            weight: model.weight,
            bonus: model.bonus,
        }))
    }

    /// The weights, by name.
    ///
    /// # Errors
    /// [`WeightsError::NotSafetensors`].
    pub fn tensors(&self) -> Result<WeightTensors<'_>, WeightsError> {
        let file = self.label(&self.description.weights.file);
        match &self.weights {
            Weights::Safetensors(bytes) => WeightTensors::parse(&file, bytes),
            Weights::Imported(tensors) => Ok(WeightTensors::imported(&file, StateDict::clone(tensors))),
        }
    }

    /// The weights in a file besides those of the network that the bundle is named after.
    ///
    /// # Errors
    /// [`WeightsError::NotSafetensors`].
    pub(super) fn tensors_of(&self, reference: &FileReference) -> Result<WeightTensors<'_>, WeightsError> {
        WeightTensors::parse(&self.label(&reference.file), self.file(reference))
    }

    /// Full name of a file of the bundle, for errors.
    pub(super) fn label(&self, name: &str) -> String {
        format!("{}/{name}", self.origin)
    }

    pub(super) fn unknown_head(&self, head: &str) -> WeightsError {
        let known = match &self.description.model {
            Model::Recognition(model) => model.heads.iter().map(|head| head.name.clone()).collect(),
            _ => Vec::new(),
        };
        WeightsError::UnknownHead {
            file: self.label(self.file),
            head: head.to_owned(),
            known,
        }
    }

    /// The error of a value of the description that does not fit.
    pub fn invalid(&self, key: &'static str, problem: String) -> WeightsError {
        WeightsError::Invalid {
            file: self.label(self.file),
            key,
            problem,
        }
    }

    /// Returns whether a name is that of a file beside the description: a bundle may come from anywhere, and its description
    /// must not reach outside its folder.
    pub(super) fn is_plain_file_name(name: &str) -> bool {
        !name.starts_with('.')
            && !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
    }

    fn wrong_kind(&self, expected: &'static str) -> WeightsError {
        WeightsError::WrongKind {
            file: self.label(self.file),
            expected,
        }
    }
}

/// Leaves the bytes out, which are megabytes.
impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle")
            .field("origin", &self.origin)
            .field("name", &self.description.name)
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

/// Reads the version first, so that a newer format is named as such and not as a missing field.
fn parse_description(json: &[u8], file: &str) -> Result<ModelDescription, WeightsError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let not_a_description = |source| WeightsError::NotADescription {
        file: file.to_owned(),
        source,
    };
    let Versioned { version } = serde_json::from_slice(json).map_err(not_a_description)?;
    if version != Bundle::VERSION {
        return Err(WeightsError::UnsupportedVersion {
            file: file.to_owned(),
            version,
            known: Bundle::VERSION,
        });
    }
    serde_json::from_slice(json).map_err(not_a_description)
}
