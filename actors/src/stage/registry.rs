//! The stages of a node, built from the table and what the node has loaded.

use std::io;
use std::sync::Arc;

use parkhang_embeddings::{EmbeddingModels, SentencePiece};
use parkhang_models::inference::{Recognizer, Segmenter};
use parkhang_models::recognition::charset::Charset;
use parkhang_models::recognition::language::LanguageModel;
use parkhang_models::recognition::line_image::Preprocessing;
use parkhang_words::{LayoutModels, PrintModels};

use super::StageLogic;
use super::manifests::ManifestFolder;
use super::page_stage::PageStage;
use super::paged::PagedStage;
use super::table::{StageDefinition, StageTable};
use crate::engines::Engine;
use crate::inference::DeviceMemory;
use crate::runner::CpuPool;
use parkhang_core::domain::StageName;
use parkhang_core::policy::batch_size::NetworkOnDevice;
use parkhang_store::artifact::ModelRef;
use parkhang_store::pages::PageSource;
use parkhang_store::storage::ArtifactStore;

/// The networks of a node, loaded once per process: those that its stages need.
#[derive(Debug, Clone)]
pub struct ModelSet {
    pub segmenter: Option<LineSegmenter>,
    /// Of several, each volume is read by the one that is surest of its first pages.
    pub recognisers: Vec<Recogniser>,
    pub print: Option<PrintReader>,
    pub layout: Option<LayoutReader>,
    pub tokenizer: Option<Tokenizer>,
    pub embeddings: Option<Embeddings>,
    /// Services that read pages in the place of a recogniser, for jobs that name one.
    pub engines: Vec<Engine>,
    /// Where the networks are, as `--device` names it.
    pub device: String,
}

impl ModelSet {
    /// The network that finds lines.
    ///
    /// # Errors
    ///
    /// When it has not been loaded.
    pub fn segmenter(&self) -> io::Result<&LineSegmenter> {
        self.segmenter
            .as_ref()
            .ok_or_else(|| not_loaded("line segmenter"))
    }

    /// The networks that read print.
    ///
    /// # Errors
    ///
    /// When they have not been loaded.
    pub fn print(&self) -> io::Result<&PrintReader> {
        self.print
            .as_ref()
            .ok_or_else(|| not_loaded("model that reads print"))
    }

    /// The networks that see the layout of pages.
    ///
    /// # Errors
    ///
    /// When they have not been loaded.
    pub fn layout(&self) -> io::Result<&LayoutReader> {
        self.layout
            .as_ref()
            .ok_or_else(|| not_loaded("model that sees layouts"))
    }

    /// The tokenizer of the model that embeds texts.
    ///
    /// # Errors
    ///
    /// When it has not been loaded.
    pub fn tokenizer(&self) -> io::Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| not_loaded("tokenizer"))
    }

    /// The networks that embed texts.
    ///
    /// # Errors
    ///
    /// When they have not been loaded.
    pub fn embeddings(&self) -> io::Result<&Embeddings> {
        self.embeddings
            .as_ref()
            .ok_or_else(|| not_loaded("model that embeds texts"))
    }

    /// All models, in the order in which commands name them.
    pub fn references(&self) -> impl Iterator<Item = &ModelRef> {
        let recognisers = self.recognisers.iter().map(|recogniser| &recogniser.model);
        let segmenter = self.segmenter.iter().map(|segmenter| &segmenter.model);
        let print = self.print.iter().map(|print| &print.model);
        let layout = self.layout.iter().map(|layout| &layout.model);
        let tokenizer = self.tokenizer.iter().map(|tokenizer| &tokenizer.model);
        let embeddings = self.embeddings.iter().map(|embeddings| &embeddings.model);
        let engines = self.engines.iter().map(Engine::model);
        segmenter
            .chain(recognisers)
            .chain(print)
            .chain(layout)
            .chain(tokenizer)
            .chain(embeddings)
            .chain(engines)
    }
}

fn not_loaded(model: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no {model} is loaded"))
}

/// A network that finds lines.
#[derive(Debug, Clone)]
pub struct LineSegmenter {
    pub network: Arc<dyn Segmenter>,
    /// Probability above which a pixel belongs to a line.
    pub threshold: f32,
    /// Probability above which it belongs to a region beside the lines.
    pub layout_threshold: f32,
    pub model: ModelRef,
}

/// The networks that find and read print.
#[derive(Debug, Clone)]
pub struct PrintReader {
    pub networks: PrintModels,
    pub model: ModelRef,
}

/// The networks that see the layout of pages.
#[derive(Debug, Clone)]
pub struct LayoutReader {
    pub networks: LayoutModels,
    pub model: ModelRef,
}

/// Tokenizer of the model that embeds texts.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    pub pieces: Arc<SentencePiece>,
    pub model: ModelRef,
}

/// The networks that embed texts.
#[derive(Debug, Clone)]
pub struct Embeddings {
    pub networks: EmbeddingModels,
    pub model: ModelRef,
}

/// A network that reads lines, and what it takes to make text of its answers.
#[derive(Debug, Clone)]
pub struct Recogniser {
    pub network: Arc<dyn Recognizer>,
    pub charset: Arc<Charset>,
    /// Where it has one.
    pub language: Option<Arc<LanguageModel>>,
    pub preprocessing: Preprocessing,
    /// Name of the network's output that `charset` belongs to.
    pub head: String,
    pub model: ModelRef,
}

/// What stages are built from.
#[derive(Debug, Clone)]
pub struct StageServices {
    pub stages: StageTable,
    pub pages: Arc<dyn PageSource>,
    pub artifacts: Arc<dyn ArtifactStore>,
    pub cpu: CpuPool,
    pub models: ModelSet,
    /// Pages in work at once per stage, where the job does not say.
    pub workers: usize,
    /// For the manifests of stage runs, where they are wanted.
    pub manifests: Option<ManifestFolder>,
}

impl StageServices {
    /// The logic of a stage that goes page by page.
    pub(crate) fn paged(&self, definition: StageDefinition, stage: impl PageStage) -> Arc<dyn StageLogic> {
        Arc::new(PagedStage {
            definition,
            stage: Arc::new(stage),
            store: self.artifacts.clone(),
            workers: self.workers,
            manifests: self.manifests.clone(),
        })
    }

    /// Memory of the device for one of the models.
    pub(crate) fn device_memory(&self, model: &ModelRef) -> DeviceMemory {
        DeviceMemory {
            network: NetworkOnDevice {
                model: model.digest.to_string(),
                device: self.models.device.clone(),
            },
            sizes: Arc::default(),
        }
    }
}

/// The stages that pipelines can name.
#[derive(Debug, Clone)]
pub struct StageRegistry {
    stages: Vec<Arc<dyn StageLogic>>,
    /// Services that the stages ask while they wait.
    engines: Vec<Engine>,
}

impl StageRegistry {
    /// Builds every stage of the table.
    ///
    /// # Errors
    ///
    /// When the system gives no thread for a network, or the models of a stage are not loaded.
    pub fn new(services: &StageServices) -> io::Result<Self> {
        Self::restricted(services, |_| true)
    }

    /// Builds the stages of the table that `runs` is true for: a stage that does not run here needs no threads.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub fn restricted(services: &StageServices, runs: impl Fn(&StageName) -> bool) -> io::Result<Self> {
        let rows = services.stages.stages().iter().filter(|row| runs(&row.name()));
        let stages: io::Result<_> = rows.map(|row| (row.build)(services)).collect();
        Ok(Self {
            stages: stages?,
            engines: services.models.engines.clone(),
        })
    }

    /// A registry of just these stages.
    pub fn of(stages: Vec<Arc<dyn StageLogic>>) -> Self {
        Self {
            stages,
            engines: Vec::new(),
        }
    }

    /// Returns the services that its stages ask while they wait.
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    pub fn stages(&self) -> &[Arc<dyn StageLogic>] {
        &self.stages
    }

    pub fn get(&self, name: &StageName) -> Option<&Arc<dyn StageLogic>> {
        self.stages.iter().find(|stage| stage.info().name() == *name)
    }
}
